"""What one shard holds of a tensor, as values and as a description.

Pure. A tensor may be cut anywhere into pieces of its flattened form, so that each task
writes what it owns. Numbers are stored as they are in memory, little-endian; texts
(bytes of any length) as the lengths of all, then all of them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kit import crc
from kit.bfloat16 import BFLOAT16
from kit.checkpoint.files import FILES, Files, refused, write_all
from kit.errors import CheckpointFailed, InvalidArgumentError

# --------------------------------------------------------------------------------------
# One file with pieces of tensors, written by the task that owns them.
#
# The layout is that of safetensors, so other tools can open it; it is written here
# because each byte is hashed on its way, and each call to the disk may be made to fail.
#
#     8 bytes   how long the header is
#     header    JSON: for each piece dtype, shape and where it is; padded with spaces
#     pieces    one after the other, without gaps
#
# What a reader trusts is not the header but the entry that `write_shard` returns and
# that the manifest keeps: with the SHA-256 of all bytes of the file.

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


# --------------------------------------------------------------------------------------
# Values of a tensor, and what a checkpoint says of them.

Array: TypeAlias = npt.NDArray[Any]

TEXT: Final = "string"
# Names of dtypes here, and in the safetensors format, which lacks some.
DTYPES: Final[Mapping[str, str | None]] = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    BFLOAT16.name: "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": None,
    "complex128": None,
    TEXT: None,
}
_LENGTH: Final = np.dtype("<u8")


@dataclass(frozen=True)
class Piece:
    """Some or all values of a tensor, as a task hands them to the writer.

    Attributes:
        name: of the tensor; of a slot `parameter/slot`.
        dtype: its name, as in `float32`; `string` for an object array of bytes.
        shape_of_whole: the shape of the whole tensor.
        offset: how many elements of the flattened tensor come before these.
        values: a flat array of these elements. It is read while the shard is written,
            so a caller that goes on to change it gives a copy.
    """

    name: str
    dtype: str
    shape_of_whole: tuple[int, ...]
    offset: int
    values: Array

    @classmethod
    def whole(cls, name: str, value: Any) -> Piece:
        """Return all of an array as one piece.

        Raises `InvalidArgumentError` for a dtype that cannot be stored.

        >>> Piece.whole("w", np.zeros((2, 3), "float32")).dtype
        'float32'
        """
        array = np.asarray(value)
        return cls(name, dtype_name(array.dtype), array.shape, 0, array.reshape(-1))


@dataclass(frozen=True)
class PieceEntry:
    """The description of a piece in a shard; pieces follow each other without gaps.

    Attributes:
        count: number of elements.
        n_bytes: number of bytes in the file.
        crc32: of these bytes, so that one tensor can be read and checked alone.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    count: int
    n_bytes: int
    crc32: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its tensor."""
        return self.offset == 0 and self.count == math.prod(self.shape)

    @property
    def key(self) -> str:
        """Its name in the file, for other tools."""
        if self.is_whole:
            return self.name
        return f"{self.name}[{self.offset}:{self.offset + self.count}]"


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name under which a dtype is stored.

    Raises `InvalidArgumentError` for one that cannot be.

    >>> dtype_name(np.dtype(">f4")), dtype_name(np.dtype(object))
    ('float32', 'string')
    """
    name = TEXT if dtype == np.dtype(object) else dtype.name
    if name not in DTYPES:
        raise InvalidArgumentError(
            f"values of {dtype} cannot be stored in a checkpoint; convert them to one "
            f"of {', '.join(DTYPES)}."
        )
    return name


def storage(dtype: str) -> np.dtype[Any]:
    """Return how numbers of a dtype are stored in the file.

    >>> storage("float32").str
    '<f4'
    """
    return np.dtype(dtype).newbyteorder("<")


def to_bytes(piece: Piece) -> memoryview:
    r"""Return a piece's bytes as they are stored; of numbers, without a copy.

    Raises `InvalidArgumentError` for values that are not what the piece says.

    >>> bytes(to_bytes(Piece.whole("n", np.array([1, 2], "int16"))))
    b'\x01\x00\x02\x00'
    """
    values, whole = piece.values, math.prod(piece.shape_of_whole)
    if values.ndim != 1 or dtype_name(values.dtype) != piece.dtype:
        raise InvalidArgumentError(
            f"the piece of {piece.name!r} holds {values.dtype}{list(values.shape)}; it "
            f"must be flat and {piece.dtype}."
        )
    if piece.offset < 0 or piece.offset + values.size > whole:
        raise InvalidArgumentError(
            f"the piece of {piece.name!r} has the elements {piece.offset} to "
            f"{piece.offset + values.size}, but the whole has {whole}."
        )
    if piece.dtype == TEXT:
        return memoryview(_packed(piece.name, values))
    stored = np.ascontiguousarray(values, storage(piece.dtype))
    return memoryview(stored.view(np.uint8).data)


def texts(data: bytes | bytearray, entry: PieceEntry) -> Array:
    """Return the texts of a piece; raises `CheckpointFailed` if they do not fit.

    >>> piece = Piece.whole("t", np.array([b"a", b"", b"cd"], object))
    >>> data = bytes(to_bytes(piece))
    >>> texts(data, PieceEntry("t", "string", (3,), 0, 3, len(data), 0)).tolist()
    [b'a', b'', b'cd']
    """
    begin = entry.count * _LENGTH.itemsize
    lengths = np.frombuffer(data, _LENGTH, entry.count).tolist()
    if begin + sum(lengths) != len(data):
        raise CheckpointFailed(f"the texts of {entry.name!r} have other lengths.")
    result = np.empty(entry.count, object)
    for i, length in enumerate(lengths):
        result[i] = bytes(data[begin : begin + length])
        begin += length
    return result


def _packed(name: str, values: Array) -> bytes:
    plain = values.tolist()
    for text in plain:
        if not isinstance(text, bytes):
            raise InvalidArgumentError(
                f"{name!r} holds {text!r} of type {type(text).__name__}; a checkpoint "
                f"holds numbers and bytes."
            )
    return np.array([len(item) for item in plain], _LENGTH).tobytes() + b"".join(plain)
