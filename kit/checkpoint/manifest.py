"""What a checkpoint holds: one small file, written last, with digests of all others.

Pure. The text is JSON in one canonical form that ends with its own SHA-256, and reading
it compares every byte with that form: a manifest is right, or it is not a manifest.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, TypeVar

from kit.checkpoint.pieces import DTYPES, TEXT, PieceEntry, ShardEntry, storage
from kit.errors import CheckpointFailed, InvalidArgumentError

FORMAT: Final = 1
NAME: Final = "manifest.json"
# Some 60,000 pieces. What is read before its digest is known must not fill the memory.
MOST_BYTES: Final = 1 << 24
_MOST_ELEMENTS, _MOST_AXES = 1 << 58, 64
_FILE_NAME = re.compile(r"[^/\x00]+")
_T = TypeVar("_T")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class TensorEntry(NamedTuple):
    """What a checkpoint says of one tensor."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Manifest:
    """The description of one checkpoint.

    Attributes:
        step: how many steps were done.
        epoch: the configuration in which they were.
        graph_hash: what the values belong to, see `kit.checkpoint.graph_hash`.
        shards: the files with the values.
        extra: whatever else belongs to the state, as data that JSON can carry.
        format: the version of this form.
    """

    step: int
    epoch: int = 0
    graph_hash: str = ""
    shards: tuple[ShardEntry, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        """Return the text of the file.

        Raises `InvalidArgumentError` for an `extra` that JSON cannot carry, and for
        more than a manifest may hold.
        """
        plain = {
            "format": self.format,
            "step": self.step,
            "epoch": self.epoch,
            "graph_hash": self.graph_hash,
            "shards": [shard.to_plain() for shard in self.shards],
            "extra": dict(self.extra),
        }
        try:
            text = json.dumps(plain, indent=1, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as exc:
            raise InvalidArgumentError(
                f"what a checkpoint holds besides tensors must be plain data: {exc}."
            ) from exc
        body = text.removesuffix("\n}")
        digest = hashlib.sha256(body.encode()).hexdigest()
        encoded = f'{body},\n "sha256": "{digest}"\n}}\n'.encode()
        if len(encoded) > MOST_BYTES:
            raise InvalidArgumentError(
                f"the manifest of this checkpoint would have {len(encoded)} bytes, and "
                f"{MOST_BYTES} is the most. Save fewer or larger tensors, and less "
                f"plain data beside them."
            )
        return encoded

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """Return the manifest that a file's bytes are.

        Raises `CheckpointFailed` when any of them is not what was written, or when the
        parts contradict each other.

        >>> Manifest.parse(Manifest(step=7, extra={"seed": 1}).to_bytes()).step
        7
        """
        try:
            plain = json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise CheckpointFailed(f"the manifest is not JSON: {exc}.") from exc
        if not isinstance(plain, dict):
            _refuse("it is not an object")
        manifest = cls(
            step=_number(plain, "step"),
            epoch=_number(plain, "epoch"),
            graph_hash=_field(plain, "graph_hash", str),
            shards=tuple(
                shard_from_plain(shard) for shard in _field(plain, "shards", list)
            ),
            extra=_field(plain, "extra", dict),
            format=_number(plain, "format"),
        )
        if manifest.format != FORMAT:
            _refuse(f"its format is {manifest.format}, and this version reads {FORMAT}")
        # Compared whole, and not only the digest: JSON allows spaces, repeated keys and
        # more fields, in which damage could hide.
        try:
            is_same = manifest.to_bytes() == data
        except InvalidArgumentError as exc:
            raise CheckpointFailed(f"the manifest is damaged: {exc.message}") from exc
        if not is_same:
            _refuse("its digest is not that of its text")
        manifest.check()
        return manifest

    def check(self) -> None:
        """Raise `CheckpointFailed` unless the pieces make each tensor whole, once."""
        files = [shard.file for shard in self.shards]
        if len(set(files)) < len(files):
            _refuse(f"two shards have one name: {', '.join(sorted(files))}")
        self.tensors()

    def tensors(self) -> dict[str, TensorEntry]:
        """Return shape and dtype of every tensor, by name; raises as `check` does."""
        parts: dict[str, list[PieceEntry]] = {}
        for shard in self.shards:
            for piece in shard.pieces:
                parts.setdefault(piece.name, []).append(piece)
        return {name: _joined(name, pieces) for name, pieces in parts.items()}


def _joined(name: str, pieces: list[PieceEntry]) -> TensorEntry:
    first, reached = pieces[0], 0
    for piece in sorted(pieces, key=lambda item: (item.offset, item.count)):
        if (piece.shape, piece.dtype) != (first.shape, first.dtype):
            _refuse(f"two pieces of {name!r} disagree about its shape or dtype")
        if piece.offset != reached:
            _refuse(
                f"the pieces of {name!r} leave a gap or overlap at element {reached}"
            )
        reached += piece.count
    if reached != math.prod(first.shape):
        _refuse(
            f"{name!r} has {math.prod(first.shape)} elements and its pieces {reached}"
        )
    return TensorEntry(first.shape, first.dtype)


def shard_from_plain(plain: Any) -> ShardEntry:
    """Return the entry that `ShardEntry.to_plain` gave, as another task sent it.

    Raises `CheckpointFailed` for anything else.
    """
    entry = ShardEntry(
        file=_field(plain, "file", str),
        size=_number(plain, "size"),
        sha256=_field(plain, "sha256", str),
        pieces=tuple(_piece(piece) for piece in _field(plain, "pieces", list)),
    )
    # It comes from elsewhere: its file must not be outside of the folder.
    if not _FILE_NAME.fullmatch(entry.file) or entry.file in (".", "..", NAME):
        _refuse(f"{entry.file!r} is not a name of a shard")
    if not _SHA256.fullmatch(entry.sha256) or entry.begin < 0:
        _refuse(f"the entry of {entry.file!r} contradicts itself")
    return entry


def _piece(plain: Any) -> PieceEntry:
    shape = tuple(_field(plain, "shape", list))
    is_shape = all(type(size) is int and size >= 0 for size in shape)
    # Of an empty tensor too: numpy refuses a shape whose other sizes are too large.
    n_elements = math.prod(max(1, size) for size in shape) if is_shape else 0
    if not 0 < n_elements <= _MOST_ELEMENTS or len(shape) > _MOST_AXES:
        _refuse(f"{list(shape)} is not a shape")
    entry = PieceEntry(
        name=_field(plain, "name", str),
        dtype=_field(plain, "dtype", str),
        shape=shape,
        **{key: _number(plain, key) for key in ("offset", "count", "n_bytes", "crc32")},
    )
    if entry.dtype not in DTYPES:
        _refuse(f"{entry.name!r} has the unknown dtype {entry.dtype!r}")
    least = entry.count * (8 if entry.dtype == TEXT else storage(entry.dtype).itemsize)
    if entry.n_bytes < least or (entry.dtype != TEXT and entry.n_bytes > least):
        _refuse(f"{entry.count} elements of {entry.name!r} are not {entry.n_bytes} B")
    return entry


def _field(plain: Any, key: str, kind: type[_T]) -> _T:
    value = plain.get(key) if isinstance(plain, dict) else None
    if type(value) is not kind:
        _refuse(f"its field {key!r} is {value!r} and not of type {kind.__name__}")
    return value


def _number(plain: Any, key: str) -> int:
    value = _field(plain, key, int)
    if value < 0:
        _refuse(f"its field {key!r} is {value}, below 0")
    return value


def _refuse(why: str) -> NoReturn:
    raise CheckpointFailed(f"the manifest is damaged: {why}.")


# --------------------------------------------------------------------------------------
# Whether a checkpoint belongs to a graph or model, and what differs if it does not.


# A tensor's shape, and its dtype by name.
Specs: TypeAlias = Mapping[str, tuple[Sequence[int], Any]]


def graph_hash(specs: Specs) -> str:
    """Return a digest of names, shapes and dtypes, whatever their order.

    >>> graph_hash({"w": ((2, 3), "float32")})[:8]
    'ff5f9038'
    """
    plain = sorted(
        [name, list(shape), str(dtype)] for name, (shape, dtype) in specs.items()
    )
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def differences(manifest: Manifest, specs: Specs) -> list[str]:
    """Return what a checkpoint holds otherwise than it is wanted; empty if nothing.

    >>> differences(Manifest(step=1), {"w": ((2, 3), "float32")})
    ["'w' (float32[2, 3]) is not in the checkpoint"]
    """
    held, complaints = manifest.tensors(), []
    for name, (shape, dtype) in specs.items():
        wanted = _words(shape, dtype)
        if name not in held:
            complaints.append(f"{name!r} ({wanted}) is not in the checkpoint")
        elif _words(*held[name]) != wanted:
            complaints.append(
                f"{name!r} is {_words(*held[name])} there and {wanted} here"
            )
    extra = [name for name in held if name not in specs]
    return complaints + [
        f"{name!r} ({_words(*held[name])}) is only in the checkpoint" for name in extra
    ]


def _words(shape: Sequence[int], dtype: Any) -> str:
    return f"{dtype}{list(shape)}"
