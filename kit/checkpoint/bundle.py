"""A checkpoint under a prefix, as the original names its files, not under a step.

    model.ckpt-7.index                  the manifest
    model.ckpt-7.data-00000-of-00002    the shards, one for each task that wrote
    model.ckpt-7.data-00001-of-00002

Every file is written under another name and renamed, the index last. Several tasks each
write a bundle of their own; `merge` then makes one of them, on a disk that all see.
Saving to a prefix that exists replaces it: when that is interrupted between two renames
its files contradict each other, which is noticed. Use a prefix for each step, or let
`write_bundle` take a name for the data that is free.
"""

from __future__ import annotations

import itertools
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kit.checkpoint.files import FILES, Files, refused, write_file
from kit.checkpoint.manifest import MOST_BYTES, Manifest, TensorEntry
from kit.checkpoint.pieces import Array, Piece, dtype_name, write_shard
from kit.checkpoint.reading import looks_whole, read_some
from kit.errors import CheckpointFailed, InvalidArgumentError, NotFoundError
from kit.regular_file import read_regular

# --------------------------------------------------------------------------------------
# A rectangle of a tensor: what a part of a cut variable is of the whole.


@dataclass(frozen=True)
class Slice:
    """A rectangle: where it begins in the whole, and its sizes."""

    whole: tuple[int, ...]
    begin: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Slice:
        """Return the rectangle that a text means; raises `InvalidArgumentError`.

        >>> Slice.parse("5 2 0,3:-")
        Slice(whole=(5, 2), begin=(0, 0), sizes=(3, 2))
        """
        try:
            *shape, axes = text.split(" ")
            whole = tuple(int(size) for size in shape)
            pairs = [
                (0, size) if axis == "-" else tuple(map(int, axis.split(",")))
                for axis, size in zip(axes.split(":"), whole, strict=True)
            ]
            begin, sizes = zip(*pairs, strict=True)
        except ValueError as exc:
            raise InvalidArgumentError(f"{text!r} is not a slice of a tensor.") from exc
        return checked(cls(whole, begin, sizes))

    @property
    def text(self) -> str:
        """The rectangle as text, the same for equal ones.

        >>> Slice((5, 2), (0, 0), (3, 2)).text
        '5 2 0,3:0,2'
        """
        axes = [f"{b},{n}" for b, n in zip(self.begin, self.sizes, strict=True)]
        return " ".join([*map(str, self.whole), ":".join(axes)])

    @property
    def key(self) -> tuple[slice, ...]:
        """What takes it out of an array of the whole."""
        pairs = zip(self.begin, self.sizes, strict=True)
        return tuple(slice(b, b + n) for b, n in pairs)


def checked(part: Slice) -> Slice:
    """Return the rectangle if it is within its whole, else `InvalidArgumentError`."""
    rows = list(zip(part.whole, part.begin, part.sizes, strict=False))
    is_even = len(part.whole) == len(part.begin) == len(part.sizes)
    if not is_even or any(b < 0 or n < 0 or b + n > size for size, b, n in rows):
        raise InvalidArgumentError(f"{part} is not a slice within the whole.")
    return part


def cut_out(wanted: Slice, parts: Sequence[tuple[Slice, Array]], dtype: Any) -> Array:
    """Return a rectangle, put together from others of the same whole.

    Raises `InvalidArgumentError` when they do not hold all of it.

    >>> part = Slice.parse("4 2,2"), np.array([3, 4])
    >>> cut_out(Slice.parse("4 3,1"), [part], "int64")
    array([4])
    """
    if math.prod(wanted.sizes) > sum(values.size for _, values in parts):
        raise _incomplete(wanted)  # and no memory taken for it
    made = np.empty(wanted.sizes, dtype)
    # Counting elements would not do: the parts may overlap, and leave a gap.
    is_there = np.zeros(wanted.sizes, bool)
    for part, values in parts:
        target, source = _common(wanted, part)
        made[target] = values[source]
        is_there[target] = True
    if not is_there.all():
        raise _incomplete(wanted)
    return made


def _incomplete(wanted: Slice) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the checkpoint does not hold all of the slice {wanted.text!r}."
    )


def _common(wanted: Slice, part: Slice) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return what two rectangles have in common, as seen from each."""
    target, source = [], []
    for at, size, there, length in zip(
        wanted.begin, wanted.sizes, part.begin, part.sizes, strict=True
    ):
        lo = max(at, there)
        hi = max(min(at + size, there + length), lo)
        target.append(slice(lo - at, hi - at))
        source.append(slice(lo - there, hi - there))
    return tuple(target), tuple(source)


_INDEX = ".index"
_NOT_AS_WRITTEN = AttributeError, KeyError, TypeError, ValueError, InvalidArgumentError
_SLICES = "slices"  # in the manifest: the tensors that are stored in rectangles


def write_bundle(
    prefix: str,
    names: Sequence[str],
    slices: Sequence[str],
    values: Sequence[Any],
    files: Files = FILES,
    *,
    is_at_once: bool = False,
) -> None:
    """Write tensors under a prefix, whole where the slice is ''; on the disk at return.

    With `is_at_once` one rename replaces what is there, whose data keep their name
    until then; ours get a name with a number that the original would not give.

    A missing folder is made, but not the one that it would be in. Raises
    `NotFoundError` without that, `InvalidArgumentError` for values that do not fit
    their slices, and as `kit.checkpoint.files.refused` says when the system
    refuses; then all is as it was.
    """
    pieces, cut = [], dict[str, Any]()
    for name, text, value in zip(names, slices, values, strict=True):
        if text:
            part = Slice.parse(text)
            if tuple(value.shape) != part.sizes:
                raise InvalidArgumentError(
                    f"the slice {part.text!r} of {name!r} has the shape "
                    f"{list(part.sizes)}, not {list(value.shape)}."
                )
            about = {"shape": list(part.whole), "dtype": dtype_name(value.dtype)}
            cut.setdefault(name, {**about, "parts": []})["parts"].append(part.text)
            name = f"{name} {part.text}"
        pieces.append(Piece.whole(name, value))
    data, mark = _data(prefix, 0, 1), secrets.token_hex(4)
    if is_at_once:
        # Beside the data that the old index names: until the index is replaced, the old
        # bundle is whole.
        names_of_data = (_data(prefix, number, 1) for number in itertools.count())
        data = next(path for path in names_of_data if not path.exists())
    draft = _draft(data, mark)
    try:
        _make_folder(data.parent, files)
        shard = replace(write_shard(draft, pieces, files), file=data.name)
        _write_index(prefix, [shard], cut, [(draft, data)], mark, files)
    except OSError as exc:
        raise refused(data, exc) from exc
    finally:
        _forget([draft, _draft(_index(prefix), mark)], files)


def merge(parts: Sequence[str], prefix: str, files: Files = FILES) -> None:
    """Make one bundle of several, which then are gone.

    Raises `CheckpointFailed` when one cannot be seen from here or is not whole.
    """
    shards, cut = [], dict[str, Any]()
    renames: list[tuple[Path, Path]] = []
    for number, part in enumerate(parts):
        try:
            bundle = TensorBundle(part)
            looks_whole(_index(part).parent, bundle.manifest)
        except (NotFoundError, CheckpointFailed) as exc:
            raise CheckpointFailed(
                f"the part {part!r} of {prefix!r} cannot be used: {exc.message} All "
                f"tasks that own variables must write to one disk: be on one host, or "
                f"share a file system."
            ) from exc
        (shard,) = bundle.manifest.shards
        data = _data(prefix, number, len(parts))
        renames.append((_data(part, 0, 1), data))
        shards.append(replace(shard, file=data.name))
        for name, entry in bundle.slices.items():
            merged = cut.setdefault(name, {**entry, "parts": []})
            merged["parts"] += entry["parts"]
    mark = secrets.token_hex(4)
    try:
        _make_folder(_index(prefix).parent, files)
        _write_index(prefix, shards, cut, renames, mark, files)
    except OSError as exc:
        raise refused(_index(prefix), exc) from exc
    finally:
        _forget([_draft(_index(prefix), mark)], files)
    _forget([_index(part) for part in parts], files)
    with suppress(OSError):
        files.remove_folder(_index(parts[0]).parent)


class TensorBundle:
    """The checkpoint under a prefix."""

    def __init__(self, prefix: str) -> None:
        """Read the index.

        Raises `NotFoundError` when there is none, `CheckpointFailed` when it is
        damaged.
        """
        self.prefix = prefix
        try:
            data = read_regular(_index(prefix), MOST_BYTES, CheckpointFailed)
        except FileNotFoundError as exc:
            raise _absent(prefix) from exc
        except OSError as exc:
            raise refused(_index(prefix), exc) from exc
        try:
            self.manifest = Manifest.parse(data)
            self.slices = _slices(self.manifest)
        except CheckpointFailed as exc:
            raise CheckpointFailed(f"{_index(prefix)}: {exc.message}") from exc

    def tensors(self) -> dict[str, TensorEntry]:
        """Return shape and dtype of every tensor by name; what was cut is whole."""
        stored, entries = self.manifest.tensors(), dict[str, TensorEntry]()
        for name, entry in self.slices.items():
            entries[name] = TensorEntry(tuple(entry["shape"]), entry["dtype"])
            for part in entry["parts"]:
                stored.pop(f"{name} {part}", None)
        return stored | entries

    def read(
        self, names: Sequence[str], slices: Sequence[str], *, all_bytes: bool = True
    ) -> list[Array]:
        """Return tensors, or slices of them where that is not ''.

        With `all_bytes` all of each file that is needed is compared with its digest,
        else only what is returned. Raises `NotFoundError` for a name that is not there,
        `InvalidArgumentError` for a slice that is not, `CheckpointFailed` for damage.
        """
        stored = self.tensors()
        for name in names:
            if name not in stored:
                raise NotFoundError(
                    f"Key {name} not found in checkpoint {self.prefix!r}; it holds "
                    f"{', '.join(map(repr, sorted(stored))) or 'nothing'}."
                )
        keys = [key for name in names for key in self._keys(name)]
        held = read_some(
            _index(self.prefix).parent, self.manifest, keys, all_bytes=all_bytes
        )
        return [
            self._cut(name, text, stored[name], held)
            for name, text in zip(names, slices, strict=True)
        ]

    def _keys(self, name: str) -> list[str]:
        if name not in self.slices:
            return [name]
        return [f"{name} {part}" for part in self.slices[name]["parts"]]

    def _cut(
        self, name: str, text: str, entry: TensorEntry, held: Mapping[str, Array]
    ) -> Array:
        is_stored_whole = name not in self.slices
        if is_stored_whole and not text:
            return held[name]
        all_of_it = Slice(entry.shape, (0,) * len(entry.shape), entry.shape)
        wanted = Slice.parse(text) if text else all_of_it
        if wanted.whole != entry.shape:
            raise InvalidArgumentError(
                f"{name!r} has the shape {list(entry.shape)} in the checkpoint, not "
                f"{list(wanted.whole)}."
            )
        if is_stored_whole:
            return held[name][wanted.key]
        parts = [
            (Slice.parse(part), held[f"{name} {part}"])
            for part in self.slices[name]["parts"]
        ]
        return cut_out(wanted, parts, parts[0][1].dtype)


def exists(prefix: str) -> bool:
    """Whether there is a bundle under a prefix, damaged or not."""
    return _index(prefix).is_file()


def files_of(prefix: str) -> list[Path]:
    """Return the files of a bundle that are there, the index first."""
    index = _index(prefix)
    name = re.compile(
        re.escape(index.name.removesuffix(_INDEX)) + r"\.data-\d{5}-of-\d{5}", re.ASCII
    )
    inside = sorted(index.parent.iterdir()) if index.parent.is_dir() else []
    data = [path for path in inside if name.fullmatch(path.name)]
    return [path for path in [index, *data] if path.is_file()]


def _slices(manifest: Manifest) -> Mapping[str, Any]:
    """Return which tensors are stored in rectangles, as the manifest's `extra` says."""
    slices, stored = manifest.extra.get(_SLICES, {}), manifest.tensors()
    try:
        for name, entry in slices.items():
            shape, dtype, texts = (entry[key] for key in ("shape", "dtype", "parts"))
            parts = {text: Slice.parse(text) for text in texts}
            is_right = 0 < len(parts) == len(texts) and all(
                [*cut.whole] == shape
                and stored[f"{name} {text}"] == TensorEntry(cut.sizes, dtype)
                for text, cut in parts.items()
            )
            if not is_right:
                raise ValueError(f"{name!r} has the parts {texts}")
    except _NOT_AS_WRITTEN as exc:
        raise CheckpointFailed(
            f"the manifest is damaged: what it says of slices is not so ({exc!r})."
        ) from exc
    result: Mapping[str, Any] = slices
    return result


def _absent(prefix: str) -> NotFoundError | CheckpointFailed:
    text = (
        f"there is no checkpoint {prefix!r}: the file {_index(prefix)} does not exist."
    )
    if prefix.endswith(_INDEX) and Path(prefix).is_file():
        return NotFoundError(f"{text} Give {prefix.removesuffix(_INDEX)!r}.")
    if Path(prefix).exists():
        return CheckpointFailed(
            f"{text} {prefix!r} itself is not a checkpoint: give the part that the "
            f"names of its files have in common, without '.index'."
        )
    return NotFoundError(text)


def _write_index(
    prefix: str,
    shards: Sequence[Any],
    cut: Mapping[str, Any],
    renames: Sequence[tuple[Path, Path]],
    mark: str,
    files: Files,
) -> None:
    """Give shards their names, and then the index its own."""
    extra = {_SLICES: cut} if cut else {}
    manifest = Manifest(0, shards=tuple(shards), extra=extra)
    manifest.check()
    draft = _draft(_index(prefix), mark)
    # The index is renamed last: there is a bundle only when all its data have names.
    write_file(files, draft, manifest.to_bytes())
    for source, target in renames:
        files.rename(source, target)
    files.rename(draft, _index(prefix))
    files.sync_folder(_index(prefix).parent)
    # Data that the new index does not name belonged to the bundle that it replaced.
    named = {target for _, target in renames}
    _forget([file for file in files_of(prefix)[1:] if file not in named], files)


def _index(prefix: str) -> Path:
    return Path(f"{prefix}{_INDEX}")


def _data(prefix: str, number: int, count: int) -> Path:
    return Path(f"{prefix}.data-{number:05d}-of-{count:05d}")


def _draft(path: Path, mark: str) -> Path:
    return path.with_name(f"{path.name}.tmp-{mark}")


def _make_folder(path: Path, files: Files) -> None:
    """Make one folder: a path of which more is missing is taken for a mistake."""
    if path.is_dir():
        return
    if not path.parent.exists():
        raise NotFoundError(
            f"{path} cannot be made for checkpoints: {path.parent} does not exist. "
            f"Make it, or choose another place."
        )
    with suppress(FileExistsError):
        files.make_folder(path)
    files.sync_folder(path.parent)


def _forget(paths: Sequence[Path], files: Files) -> None:
    for path in paths:
        with suppress(OSError):
            files.remove(path)
