"""A checkpoint under a prefix, as the original names its files, not under a step.

    model.ckpt-7.index                  the manifest
    model.ckpt-7.data-00000-of-00002    the shards, one for each task that wrote
    model.ckpt-7.data-00001-of-00002

Every file is written under another name and renamed, the index last. Several tasks each
write a bundle of their own; `merge` then makes one of them, on a disk that all see.
Saving to a prefix that exists replaces it: when that is interrupted between two renames
its files contradict each other, which is noticed. Use a prefix for each step.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kit.checkpoint.files import FILES, Files, write_file
from kit.checkpoint.manifest import MOST_BYTES, Manifest, TensorEntry
from kit.checkpoint.pieces import Array, Piece, dtype_name
from kit.checkpoint.reading import looks_whole, read_some
from kit.checkpoint.refusing import refused
from kit.checkpoint.shards import write_shard
from kit.checkpoint.slices import Slice, cut_out
from kit.errors import CheckpointFailed, InvalidArgumentError, NotFoundError
from kit.regular_file import read_regular

_INDEX = ".index"
_NOT_AS_WRITTEN = (
    *(AttributeError, KeyError, TypeError, ValueError),
    InvalidArgumentError,
)
_SLICES = "slices"  # in the manifest: the tensors that are stored in rectangles


def write_bundle(
    prefix: str,
    names: Sequence[str],
    slices: Sequence[str],
    values: Sequence[Any],
    files: Files = FILES,
) -> None:
    """Write tensors under a prefix, whole where the slice is ''; on the disk at return.

    A missing folder is made, but not the one that it would be in. Raises
    `NotFoundError` without that, `InvalidArgumentError` for values that do not fit
    their slices, and as `kit.checkpoint.refusing.refused` tells when the system
    refuses; then all is as it was.
    """
    pieces, cut = [], dict[str, Any]()
    for name, text, value in zip(names, slices, values, strict=True):
        if text:
            part = Slice.parse(text)
            _check_part(name, part, value)
            entry = cut.setdefault(
                name,
                {
                    "shape": list(part.whole),
                    "dtype": dtype_name(value.dtype),
                    "parts": [],
                },
            )
            entry["parts"].append(part.text)
            name = f"{name} {part.text}"
        pieces.append(Piece.whole(name, value))
    data, mark = _data(prefix, 0, 1), secrets.token_hex(4)
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
            found = Bundle(part)
            looks_whole(_index(part).parent, found.manifest)
        except (NotFoundError, CheckpointFailed) as exc:
            raise CheckpointFailed(
                f"the part {part!r} of {prefix!r} cannot be used: {exc.message} All "
                f"tasks that own variables must write to one disk: be on one host, or "
                f"share a file system."
            ) from exc
        (shard,) = found.manifest.shards
        data = _data(prefix, number, len(parts))
        renames.append((_data(part, 0, 1), data))
        shards.append(replace(shard, file=data.name))
        for name, entry in found.slices.items():
            known = cut.setdefault(name, {**entry, "parts": []})
            known["parts"] += entry["parts"]
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


class Bundle:
    """What lies under a prefix."""

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
        stored, found = self.manifest.tensors(), dict[str, TensorEntry]()
        for name, entry in self.slices.items():
            found[name] = TensorEntry(tuple(entry["shape"]), entry["dtype"])
            for part in entry["parts"]:
                stored.pop(f"{name} {part}", None)
        return stored | found

    def read(
        self, names: Sequence[str], slices: Sequence[str], *, all_bytes: bool = True
    ) -> list[Array]:
        """Return tensors, or slices of them where that is not ''.

        With `all_bytes` all of each file that is needed is compared with its digest,
        else only what is returned. Raises `NotFoundError` for a name that is not there,
        `InvalidArgumentError` for a slice that is not, `CheckpointFailed` for damage.
        """
        known = self.tensors()
        for name in names:
            if name not in known:
                raise NotFoundError(
                    f"Key {name} not found in checkpoint {self.prefix!r}; it holds "
                    f"{', '.join(map(repr, sorted(known))) or 'nothing'}."
                )
        keys = [key for name in names for key in self._keys(name)]
        held = read_some(
            _index(self.prefix).parent, self.manifest, keys, all_bytes=all_bytes
        )
        return [
            self._cut(name, text, known[name], held)
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
                [*one.whole] == shape
                and stored[f"{name} {text}"] == TensorEntry(one.sizes, dtype)
                for text, one in parts.items()
            )
            if not is_right:
                raise ValueError(f"{name!r} has the parts {texts}")
    except _NOT_AS_WRITTEN as exc:
        raise CheckpointFailed(
            f"the manifest is damaged: what it says of slices is not so ({exc!r})."
        ) from exc
    found: Mapping[str, Any] = slices
    return found


def _absent(prefix: str) -> NotFoundError | CheckpointFailed:
    text = (
        f"there is no checkpoint {prefix!r}: the file {_index(prefix)} does not exist."
    )
    if prefix.endswith(_INDEX) and Path(prefix).is_file():
        return NotFoundError(f"{text} Give {prefix.removesuffix(_INDEX)!r}.")
    if Path(prefix).exists():
        return CheckpointFailed(
            f"{text} What is there is no checkpoint of this kind: give the part that "
            f"the names of its files have in common, without '.index'."
        )
    return NotFoundError(text)


def _check_part(name: str, part: Slice, value: Any) -> None:
    if tuple(value.shape) != part.sizes:
        raise InvalidArgumentError(
            f"the slice {part.text!r} of {name!r} has the shape {list(part.sizes)}, "
            f"not {list(value.shape)}."
        )


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
    write_file(files, draft, manifest.to_bytes())
    for source, target in renames:
        files.rename(source, target)
    files.rename(draft, _index(prefix))
    files.sync_folder(_index(prefix).parent)
    named = {target for _, target in renames}
    _forget([one for one in files_of(prefix)[1:] if one not in named], files)


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
