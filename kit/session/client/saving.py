"""Variables of a session in a file, and back: numpy's own format, without pickle.

The file appears whole or not at all, and a file that does not fit changes nothing.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from kit.errors import DataLossError, InvalidArgumentError, NotFoundError
from kit.graph.dtypes import STRING, Array, name_of
from kit.graph.static import Static, agrees, text
from kit.graph.variable import Variable
from kit.regular_file import open_regular
from kit.session.client.session import Session


def save_variables(
    session: Session,
    path: str | os.PathLike[str],
    variables: Sequence[Variable] | None = None,
) -> Path:
    """Write the values of variables, all of the session's graph if not given.

    They are read in one run. Returns the path, which ends in `.npz`. Raises
    `FailedPreconditionError` when one has no value, `InvalidArgumentError` for texts.
    """
    chosen = _chosen(session, variables)
    values: list[Array] = session.run([one.ref for one in chosen])
    whole = Path(path)
    if whole.suffix != ".npz":
        whole = whole.with_name(whole.name + ".npz")
    draft = whole.with_name(f".{whole.name}.{os.getpid()}.draft")
    named = {one.op.name: value for one, value in zip(chosen, values, strict=True)}
    try:
        with draft.open("wb") as file:
            _write(file, named)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(whole)
    finally:
        draft.unlink(missing_ok=True)
    return whole


def restore_variables(
    session: Session,
    path: str | os.PathLike[str],
    variables: Sequence[Variable] | None = None,
) -> None:
    """Set variables, all of the session's graph if not given, to what a file holds.

    It does not matter whether they had a value. Raises `NotFoundError` when the file,
    or a variable in it, is missing, `InvalidArgumentError` for another shape or dtype,
    `DataLossError` for a damaged file; nothing has changed then.
    """
    chosen = _chosen(session, variables)
    found = _read(Path(path), {one.op.name: one.ref.static for one in chosen})
    while chosen:
        # Some may have one initial value in common, which is fed to set them.
        feeds = {one.initial_value: found[one.op.name] for one in reversed(chosen)}
        first = {one.initial_value: one for one in reversed(chosen)}
        session.run([one.initializer for one in first.values()], feeds)
        chosen = [one for one in chosen if first[one.initial_value] is not one]


def _chosen(session: Session, given: Sequence[Variable] | None) -> list[Variable]:
    chosen = list(session.graph.variables if given is None else given)
    if not chosen:
        raise InvalidArgumentError("the graph has no variables.")
    for one in chosen:
        if one.ref.static.dtype == STRING:
            raise InvalidArgumentError(
                f"{one.op.name!r} holds texts, which such a file cannot; leave it out."
            )
    return chosen


def _write(file: IO[bytes], named: dict[str, Array]) -> None:
    """Write what `np.savez` would, which takes some names for its own arguments."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, value in named.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(value), allow_pickle=False)


_MOST_AT_ONCE = 1 << 22


class _SmallReads(io.RawIOBase):
    """A file that is read a little at a time: no size that it states is believed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if size > _MOST_AT_ONCE:
            raise ValueError(f"it says that its table has {size} bytes")
        return self._file.read(_MOST_AT_ONCE if size < 0 else size)


def _read(path: Path, wanted: Mapping[str, Static]) -> dict[str, Array]:
    try:
        with (
            open_regular(path) as file,
            zipfile.ZipFile(_SmallReads(file)) as archive,
        ):
            held = [one.removesuffix(".npy") for one in archive.namelist()]
            missing = [name for name in wanted if name not in held]
            if missing:
                raise NotFoundError(
                    f"{path} does not hold {', '.join(map(repr, missing))}; it holds "
                    f"{', '.join(map(repr, held)) or 'nothing'}."
                )
            for name, static in wanted.items():
                _check_header(archive, path, name, static)
            return {name: _array(archive, name) for name in wanted}
    except FileNotFoundError as exc:
        raise NotFoundError(f"there is no file {path}.") from exc
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as exc:
        raise DataLossError(f"{path} cannot be read: {exc}") from exc


def _check_header(
    archive: zipfile.ZipFile, path: Path, name: str, static: Static
) -> None:
    """Compare shape and dtype with the variable's, before there is room for them."""
    with archive.open(f"{name}.npy") as entry:
        version = np.lib.format.read_magic(entry)
        if version != (1, 0):  # the others allow headers of up to 4 GiB
            raise ValueError(f"{name!r} has a header of the version {version}")
        shape, _, dtype = np.lib.format.read_array_header_1_0(entry)
    if dtype.hasobject:
        raise ValueError(f"{name!r} holds a pickle, which may run any code")
    if dtype != static.dtype or not agrees(static.shape, shape):
        raise InvalidArgumentError(
            f"{path} holds {name!r} as {dtype}{list(shape)}, but the variable is "
            f"{name_of(static.dtype)}{text(static.shape)}."
        )


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(f"{name}.npy") as entry:
        found: Array = np.lib.format.read_array(entry, allow_pickle=False)
    return found
