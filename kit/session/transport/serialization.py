"""A session message as bytes: plain data and arrays, the body of one frame.

    u8 version | u8 zero | u16 number of arrays | u32 length of the text
    for each array:  u8 type | u8 rank | u16 place | u32 zero | u64 bytes | u64 x rank
    text: JSON in UTF-8, nothing for an empty dict
    for each array:  zeros up to a multiple of 64 | its bytes, row by row

A place of 1 says that the bytes are lent (`kit/wire/local/loan.py`): the ticket, 32
bytes, is here instead of them.

Pure: arrays in, bytes out, and back. All numbers are little-endian. No pickle: an array
of objects holds `bytes`, which travel as all their lengths (u32) and then themselves.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from struct import error as StructError
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kit.bfloat16 import BFLOAT16
from kit.errors import InvalidArgumentError, ProtocolError
from kit.wire.frame import Buffer
from kit.wire.message import pack_text, unpack_text

Array = npt.NDArray[Any]
Lend = Callable[[int], tuple[memoryview, bytes] | None]
Borrow = Callable[[bytes], memoryview]

VERSION: Final = 1
ALIGNMENT: Final = 64
MOST_ARRAYS: Final = 2**16 - 1
MOST_AXES: Final = 32  # of numpy before version 2

_HEAD: Final = Struct("<BBHI")
_ARRAY: Final = Struct("<BBHIQ")
_ARRAYS: Final = [Struct(f"<BBHIQ{rank}Q") for rank in range(MOST_AXES + 1)]
_SHAPES: Final = [Struct(f"<{rank}Q") for rank in range(MOST_AXES + 1)]
_PADDING: Final = [bytes(n) for n in range(ALIGNMENT)]

_NAMES: Final = {
    **{1: "?", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "u1", 7: "<u2", 8: "<u4"},
    **{9: "<u8", 10: "<f2", 11: "<f4", 12: "<f8", 13: "<c8", 14: "<c16"},
}
_BOOL: Final = 1
_STRINGS: Final = 15
_DTYPES: Final = {code: np.dtype(name) for code, name in _NAMES.items()}
_DTYPES[16] = BFLOAT16
_CODES: Final = {dtype: code for code, dtype in _DTYPES.items()}
_LENGTH: Final = np.dtype("<u4")
_LONGEST: Final = 2**32 - 1

LEAST_LENT: Final = 2**18  # below this, lending takes longer than sending
_HERE, _LENT, _TICKET_SIZE = 0, 1, 32

# Joining this many bytes to the head takes as long as preparing their own buffer.
_SMALL: Final = 8192
# An empty array may have any sizes whose product numpy can still hold.
_MOST_ITEMS: Final = sys.maxsize // 16


def pack(
    meta: Mapping[str, Any], arrays: Sequence[Array], lend: Lend | None = None
) -> tuple[Buffer, ...]:
    r"""Return the parts of the body, to be written one after the other.

    An array above 8 KiB is not copied, so it must not change until its part is written;
    only one that is not contiguous or of another byte order is. An array of objects
    must hold `bytes`. With `lend`, a link's `Lender.lend`, arrays from 256 KiB on are
    copied to memory that the peer maps, as far as there is room; such a body must be
    sent, over this link. Takes about 2 us for a scalar.

    Raises `InvalidArgumentError` for what cannot travel: another dtype, more than 32
    axes or 65535 arrays, or a `meta` that is not plain data.

    >>> [part] = pack({}, [np.array([1, 2], np.uint8)])
    >>> part[:4], part[-3:]
    (b'\x01\x00\x01\x00', b'\x00\x01\x02')
    """
    if len(arrays) > MOST_ARRAYS:
        raise InvalidArgumentError(
            f"{len(arrays)} arrays do not fit one message; send {MOST_ARRAYS} at most."
        )
    text = pack_text(meta) if meta else b""
    coded = [
        (code, array, array.shape)
        if (code := _CODES.get(array.dtype)) and array.ndim <= MOST_AXES
        else _converted(array)
        for array in arrays
    ]
    pieces: list[Buffer] = [_HEAD.pack(VERSION, 0, len(arrays), len(text))]
    contents: list[Array] = []
    for code, array, shape in coded:
        where, rank, n_bytes = _HERE, len(shape), array.nbytes
        if n_bytes >= LEAST_LENT and lend is not None and (loan := lend(n_bytes)):
            where, array = _LENT, _lent(array, *loan)
        contents.append(array)
        pieces.append(_ARRAYS[rank].pack(code, rank, where, 0, n_bytes, *shape))
    pieces.append(text)
    return _joined(pieces, contents)


def unpack(
    body: bytearray, borrow: Borrow | None = None
) -> tuple[dict[str, Any], list[Array]]:
    """Return the plain data and the arrays of a message's body.

    The arrays are writable views of `body`, aligned as far as `body` is, or of lent
    memory, which `borrow`, the `Borrower.borrow` of the link it came over, finds. Those
    of objects are new, and take up to a dozen times the memory of `body` when they hold
    many short strings. Takes about 2 us for a scalar.

    Raises `ProtocolError` for anything that `pack` does not make.

    >>> unpack(bytearray(b"".join(pack({"do": "add"}, [np.array(2.5)]))))
    ({'do': 'add'}, [array(2.5)])
    """
    try:
        version, zero, count, text_size = _HEAD.unpack_from(body)
        at = _HEAD.size
        heads = []
        for _ in range(count):
            code, rank, where, zero_4, n_bytes = _ARRAY.unpack_from(body, at)
            at += _ARRAY.size
            if rank > MOST_AXES or where > _LENT or zero_4:
                raise _refusal(f"an array has rank {rank}, place {where}, {zero_4}")
            heads.append((code, where, n_bytes, _SHAPES[rank].unpack_from(body, at)))
            at += 8 * rank
    except StructError as exc:
        raise _refusal(f"it ends within its head ({exc})") from exc
    if version != VERSION or zero or at + text_size > len(body):
        raise _refusal(
            f"its {len(body)} bytes have version {version}, {zero} and a text up to "
            f"byte {at + text_size}"
        )
    meta = unpack_text(body[at : at + text_size]) if text_size else {}
    at += text_size
    arrays = []
    for code, where, n_bytes, shape in heads:
        padding = -at % ALIGNMENT
        begin = at + padding
        at = begin + (_TICKET_SIZE if where else n_bytes)
        if at > len(body) or body[begin - padding : begin] != _PADDING[padding]:
            raise _refusal(
                f"an array's bytes {begin} to {at} are not within it, after zeros alone"
            )
        if where:
            lent = _borrowed(bytes(body[begin:at]), n_bytes, borrow)
            arrays.append(_array(lent, 0, code, n_bytes, shape))
        else:
            arrays.append(_array(body, begin, code, n_bytes, shape))
    if at != len(body):
        raise _refusal(f"it ends at byte {at} of {len(body)}")
    return meta, arrays


def _joined(pieces: list[Buffer], contents: list[Array]) -> tuple[Buffer, ...]:
    """Return `pieces` and the bytes of `contents`, small neighbours as one part."""
    parts: list[Buffer] = []
    offset = sum([len(piece) for piece in pieces])
    for array in contents:
        padding, n_bytes = -offset % ALIGNMENT, array.nbytes
        pieces.append(_PADDING[padding])
        if n_bytes <= _SMALL:
            pieces.append(array.tobytes())
        else:
            parts += b"".join(pieces), _view(array)
            pieces = []
        offset += padding + n_bytes
    if pieces:
        parts.append(b"".join(pieces))
    return tuple(parts)


def _view(array: Array) -> memoryview:
    """Return an array's bytes; not by memoryview.cast(), which refuses complex."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _lent(array: Array, memory: memoryview, ticket: bytes) -> Array:
    """Copy an array to where the peer finds it; returns the ticket."""
    np.copyto(np.ndarray(array.shape, array.dtype, memory), array)
    return np.frombuffer(ticket, np.uint8)


def _borrowed(ticket: bytes, n_bytes: int, borrow: Borrow | None) -> memoryview:
    if borrow is None:
        raise _refusal("its bytes are lent, and this link lends none")
    view = borrow(ticket)
    if view.nbytes != n_bytes:
        raise _refusal(f"{view.nbytes} bytes are lent for an array of {n_bytes}")
    return view


def _converted(array: Array) -> tuple[int, Array, tuple[int, ...]]:
    """Return code, content and shape of what does not travel as it lies in memory."""
    if array.ndim > MOST_AXES:
        raise InvalidArgumentError(
            f"an array of {array.ndim} axes cannot travel; reshape it to {MOST_AXES}."
        )
    if array.dtype == object:
        return _STRINGS, _packed_strings(array.ravel().tolist()), array.shape
    code = _CODES.get(array.dtype.newbyteorder("<"))
    if code is None:
        raise InvalidArgumentError(
            f"an array of {array.dtype} cannot travel; convert it to bool, a number of "
            f"8 to 64 bits (complex to 128), or to an object array of bytes."
        )
    return code, array.astype(_DTYPES[code]), array.shape


def payload_bytes(array: Array) -> int:
    """Return how many bytes an array takes in a message: of strings, their own.

    >>> payload_bytes(np.zeros(3)), payload_bytes(np.array([b"ab", b""], object))
    (24, 10)
    """
    is_text = array.dtype == object
    return int((_packed_strings(array.ravel().tolist()) if is_text else array).nbytes)


def _packed_strings(strings: list[Any]) -> Array:
    """Return the lengths of `strings` and then all of them, as bytes."""
    for string in strings:
        if type(string) is not bytes or len(string) > _LONGEST:
            raise InvalidArgumentError(
                f"an object array must hold bytes, below 4 GiB each, not a "
                f"{type(string).__name__}; encode texts as UTF-8."
            )
    lengths = np.array([len(string) for string in strings], _LENGTH)
    return np.frombuffer(b"".join([lengths.tobytes(), *strings]), np.uint8)


def _array(
    body: Buffer, begin: int, code: int, n_bytes: int, shape: tuple[int, ...]
) -> Array:
    """Return one array of which the bytes are known to lie within `body`."""
    n_items = math.prod(shape)
    if not n_items and math.prod([size or 1 for size in shape]) > _MOST_ITEMS:
        raise _refusal(f"an array without bytes has shape {shape}")
    dtype = _DTYPES.get(code)
    if dtype is None:
        return _unpacked_strings(body, begin, code, n_bytes, shape)
    if n_items * dtype.itemsize != n_bytes:
        raise _refusal(
            f"an array of {dtype} with shape {shape} is said to have {n_bytes} bytes"
        )
    array: Array = np.ndarray(shape, dtype, body, begin)
    if code == _BOOL and array.view(np.uint8).max(initial=0) > 1:
        raise _refusal("an array of bool has other bytes than 0 and 1")
    return array


def _unpacked_strings(
    body: Buffer, begin: int, code: int, n_bytes: int, shape: tuple[int, ...]
) -> Array:
    n_items = math.prod(shape)
    first = n_items * _LENGTH.itemsize
    if code != _STRINGS or first > n_bytes:
        raise _refusal(
            f"{n_bytes} bytes are not an array of type {code} and shape {shape}"
        )
    lengths = np.ndarray(n_items, _LENGTH, body, begin).tolist()
    if first + sum(lengths) != n_bytes:
        raise _refusal(f"{n_items} strings do not fill their {n_bytes} bytes")
    view, ends = memoryview(body), accumulate(lengths, initial=begin + first)
    texts = (view[at:end].tobytes() for at, end in pairwise(ends))
    return np.fromiter(texts, object, n_items).reshape(shape)


def _refusal(reason: str) -> ProtocolError:
    return ProtocolError(
        f"a session message cannot be right: {reason}; drop this connection."
    )
