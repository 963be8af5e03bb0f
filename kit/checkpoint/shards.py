"""One file with pieces of tensors, written by the task that owns them.

The layout is that of safetensors, so other tools can open it; it is written here
because each byte is hashed on its way, and each call to the disk may be made to fail.

    8 bytes   how long the header is
    header    JSON: for each piece dtype, shape and where it is; padded with spaces
    pieces    one after the other, without gaps

What a reader trusts is not the header but the entry that `write_shard` returns and that
the manifest keeps: with the SHA-256 of all bytes of the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kit import crc
from kit.checkpoint.files import FILES, Files, refused, write_all
from kit.checkpoint.pieces import DTYPES, Piece, PieceEntry, to_bytes
from kit.errors import InvalidArgumentError

BLOCK_BYTES: Final = 1 << 20
SUFFIX: Final = ".safetensors"
_ALIGNMENT: Final = 8


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest says of a shard: plain data, also on its way between tasks.

    Attributes:
        file: the file's name in the folder of the checkpoint.
        size: in bytes.
        sha256: of the whole file, in hex digits.
        pieces: what it holds, in this order, up to the end of the file.
    """

    file: str
    size: int
    sha256: str
    pieces: tuple[PieceEntry, ...]

    @property
    def begin(self) -> int:
        """Where the first piece begins, in bytes from the beginning of the file."""
        return self.size - sum(piece.n_bytes for piece in self.pieces)

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        return asdict(self) | {
            "pieces": [
                asdict(piece) | {"shape": list(piece.shape)} for piece in self.pieces
            ]
        }


def write_shard(
    path: Path, pieces: Sequence[Piece], files: Files = FILES
) -> ShardEntry:
    """Write pieces to a new file and return its entry; on the disk when it returns.

    Costs one reading of the values, which are hashed and written block by block;
    blocks only the calling thread. Raises as `kit.checkpoint.files.refused` says
    when it cannot be written (what is written then belongs to a draft, which is thrown
    away as a whole), and `InvalidArgumentError` for pieces that contradict themselves
    or have one name.
    """
    data = [to_bytes(piece) for piece in pieces]  # views, but of texts
    header = _header(pieces, data)
    try:
        descriptor = files.create(path)
        try:
            written = _write(files, descriptor, header, data)
            files.sync(descriptor)
        finally:
            files.close(descriptor)
    except OSError as exc:
        raise refused(path, exc) from exc
    sha256, sums = written
    return ShardEntry(
        file=path.name,
        size=len(header) + sum(array.nbytes for array in data),
        sha256=sha256,
        pieces=tuple(
            _entry(piece, array.nbytes, crc32)
            for piece, array, crc32 in zip(pieces, data, sums, strict=True)
        ),
    )


def _write(
    files: Files, descriptor: int, header: bytes, data: Sequence[memoryview]
) -> tuple[str, list[int]]:
    digest = hashlib.sha256(header)
    write_all(files, descriptor, memoryview(header))
    sums = []
    for array in data:
        crc32 = 0
        for start in range(0, array.nbytes, BLOCK_BYTES):
            block = array[start : start + BLOCK_BYTES]
            digest.update(block)
            crc32 = crc.crc32(block, crc32)
            write_all(files, descriptor, block)
        sums.append(crc32)
    return digest.hexdigest(), sums


def _entry(piece: Piece, n_bytes: int, crc32: int = 0) -> PieceEntry:
    return PieceEntry(
        name=piece.name,
        dtype=piece.dtype,
        shape=tuple(int(size) for size in piece.shape_of_whole),
        offset=int(piece.offset),
        count=piece.values.size,
        n_bytes=n_bytes,
        crc32=crc32,
    )


def _header(pieces: Sequence[Piece], data: Sequence[memoryview]) -> bytes:
    described: dict[str, Any] = {"__metadata__": {"format": "psring"}}
    begin, seen = 0, set[tuple[str, int]]()
    for piece, stored in zip(pieces, data, strict=True):
        entry = _entry(piece, stored.nbytes)
        if (entry.name, entry.offset) in seen:
            raise InvalidArgumentError(f"two pieces of a shard are {entry.key!r}.")
        seen.add((entry.name, entry.offset))
        key = entry.key
        while key in described:  # by the format itself, or by a tensor called "w[0:8]"
            key += "'"
        dtype = DTYPES[entry.dtype]
        # What the format has no dtype for is declared as bytes.
        shape = list(entry.shape) if entry.is_whole else [entry.count]
        described[key] = {
            "dtype": dtype or "U8",
            "shape": shape if dtype else [stored.nbytes],
            "data_offsets": [begin, begin + stored.nbytes],
        }
        begin += stored.nbytes
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
