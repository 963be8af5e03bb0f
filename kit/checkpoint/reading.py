"""Read shards, and trust nothing that a digest does not confirm.

Each file is read once, from its first byte to its last, and hashed on the way. Values
are returned when all digests agree, and not before: there is no partial result.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kit import crc
from kit.checkpoint.manifest import MOST_BYTES, NAME, Manifest
from kit.checkpoint.pieces import (
    BLOCK_BYTES,
    TEXT,
    Array,
    PieceEntry,
    ShardEntry,
    storage,
    texts,
)
from kit.errors import CheckpointFailed, NotFoundError
from kit.regular_file import open_regular, read_regular, stat_regular


def read_all(folder: Path, manifest: Manifest) -> dict[str, Array]:
    """Return all tensors of a checkpoint whole, by name.

    Costs one reading of the files and the memory of the values. Raises
    `CheckpointFailed` for any damage.
    """
    # First: a manifest may claim tensors for which no file has room, and no memory is
    # to be taken for those.
    looks_whole(folder, manifest)
    arrays = _empty(manifest, manifest.tensors())
    for shard in manifest.shards:
        _read_shard(folder / shard.file, shard, arrays)
    return {name: flat.reshape(shape) for name, (flat, shape) in arrays.items()}


def looks_whole(folder: Path, manifest: Manifest) -> None:
    """Compare the sizes of all files, without reading them.

    Raises `CheckpointFailed` for a file that is not there or of another size.
    """
    for shard in manifest.shards:
        _looks_whole(folder / shard.file, shard)


def _looks_whole(path: Path, shard: ShardEntry) -> None:
    try:
        size = stat_regular(path, CheckpointFailed).st_size
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    if size != shard.size:
        raise _other_size(path, size, shard)


def read_some(
    folder: Path, manifest: Manifest, names: Iterable[str], *, all_bytes: bool = False
) -> dict[str, Array]:
    """Return some tensors, reading only their pieces, each checked by its own sum.

    With `all_bytes` the files that hold them are read and compared whole. Raises
    `NotFoundError` for a name that the checkpoint does not hold, `CheckpointFailed` for
    damage of what is read.
    """
    wanted, stored = dict.fromkeys(names), manifest.tensors()
    for name in wanted:
        if name not in stored:
            raise NotFoundError(
                f"the checkpoint does not hold {name!r}; it holds "
                f"{', '.join(map(repr, sorted(stored))) or 'nothing'}."
            )
    shards = [
        shard
        for shard in manifest.shards
        if any(piece.name in wanted for piece in shard.pieces)
    ]
    for shard in shards:
        _looks_whole(folder / shard.file, shard)
    arrays = _empty(manifest, wanted)
    for shard in shards:
        read = _read_shard if all_bytes else _read_pieces
        read(folder / shard.file, shard, arrays)
    return {name: flat.reshape(shape) for name, (flat, shape) in arrays.items()}


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a checkpoint's folder.

    Raises `CheckpointFailed` when it is missing or damaged.
    """
    path = folder / NAME
    try:
        return Manifest.parse(read_regular(path, MOST_BYTES, CheckpointFailed))
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    except CheckpointFailed as exc:
        raise CheckpointFailed(f"{path}: {exc.message}") from exc


def looks_good(folder: Path) -> bool:
    """Whether the manifest is whole and the files have their sizes."""
    try:
        looks_whole(folder, read_manifest(folder))
    except CheckpointFailed:
        return False
    return True


Flat = Mapping[str, tuple[Array, tuple[int, ...]]]


def _empty(manifest: Manifest, names: Iterable[str]) -> Flat:
    stored, arrays = manifest.tensors(), {}
    for name in names:
        shape, dtype = stored[name]
        kind = object if dtype == TEXT else dtype
        arrays[name] = np.empty(math.prod(shape), kind), shape
    return arrays


def _read_shard(path: Path, shard: ShardEntry, into: Flat) -> None:
    digest = hashlib.sha256()
    try:
        with open_regular(path, CheckpointFailed) as file:
            # Of the open file: the name may stand for another one since `looks_whole`.
            size = os.fstat(file.fileno()).st_size
            if size != shard.size:
                raise _other_size(path, size, shard)
            _skip(file, shard.begin, path, digest)
            for piece in shard.pieces:
                _read_piece(file, piece, path, into, digest)
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    if digest.hexdigest() != shard.sha256:
        raise CheckpointFailed(
            f"{path} is damaged: its SHA-256 is {digest.hexdigest()}, not "
            f"{shard.sha256}."
        )


def _read_pieces(path: Path, shard: ShardEntry, into: Flat) -> None:
    begin = shard.begin
    try:
        with open_regular(path, CheckpointFailed) as file:
            for piece in shard.pieces:
                if piece.name in into:
                    file.seek(begin)
                    _read_piece(file, piece, path, into)
                begin += piece.n_bytes
    except OSError as exc:
        raise _unreadable(path, exc) from exc


def _read_piece(
    file: BinaryIO, piece: PieceEntry, path: Path, into: Flat, digest: Any = None
) -> None:
    """Read a piece to its place; only check it if its tensor is not wanted."""
    if piece.name not in into:
        _check(path, piece, _skip(file, piece.n_bytes, path, digest))
        return
    target = into[piece.name][0][piece.offset : piece.offset + piece.count]
    # Numbers that are stored as they are in memory go straight into the tensor.
    is_direct = piece.dtype != TEXT and storage(piece.dtype) == target.dtype
    data = target.view(np.uint8).data if is_direct else bytearray(piece.n_bytes)
    _check(path, piece, _fill(file, memoryview(data), path, digest))
    if piece.dtype == TEXT:
        target[:] = texts(bytes(data), piece)
    elif not is_direct:
        target[:] = np.frombuffer(data, storage(piece.dtype))


def _check(path: Path, piece: PieceEntry, crc32: int) -> None:
    if crc32 != piece.crc32:
        raise CheckpointFailed(
            f"{path} is damaged: the values of {piece.name!r} have another sum."
        )


def _fill(file: BinaryIO, data: memoryview, path: Path, digest: Any) -> int:
    crc32 = 0
    for start in range(0, data.nbytes, BLOCK_BYTES):
        block = rest = data[start : start + BLOCK_BYTES]
        while rest.nbytes:  # a read may give less than was asked for
            count = file.readinto(rest)  # type: ignore[attr-defined]
            if not count:
                raise CheckpointFailed(f"{path} ends too early.")
            rest = rest[count:]
        crc32 = crc.crc32(block, crc32)
        if digest is not None:
            digest.update(block)
    return crc32


def _skip(file: BinaryIO, n_bytes: int, path: Path, digest: Any) -> int:
    block, crc32 = bytearray(min(n_bytes, BLOCK_BYTES)), 0
    while n_bytes:
        part = memoryview(block)[: min(n_bytes, BLOCK_BYTES)]
        _fill(file, part, path, digest)
        crc32 = crc.crc32(part, crc32)
        n_bytes -= part.nbytes
    return crc32


def _other_size(path: Path, size: int, shard: ShardEntry) -> CheckpointFailed:
    return CheckpointFailed(f"{path} is damaged: {size} B, not {shard.size} B.")


def _unreadable(path: Path, exc: OSError) -> CheckpointFailed:
    return CheckpointFailed(f"{path} cannot be read: {exc.strerror or exc}.")
