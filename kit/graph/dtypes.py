"""The element types of tensors, and how Python values become arrays.

Pure. A text is bytes in an array of Python objects, as numpy keeps texts of any length;
`STRING` is the dtype. Such an array holds no other objects.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kit.arrays import to_numpy
from kit.bfloat16 import kind_of

Array: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]

STRING: Final[DType] = np.dtype(object)

_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
_BY_NAME: Final[dict[str, DType]] = {name: np.dtype(name) for name in _NAMES} | {
    "string": STRING,
    "float": np.dtype("float32"),
    "double": np.dtype("float64"),
    "int": np.dtype("int32"),
}
KNOWN: Final = frozenset(_BY_NAME.values())

# What Python's own numbers become by default.
_WEAK: Final[dict[str, DType]] = {
    "f": np.dtype("float32"),
    "i": np.dtype("int32"),
    "c": np.dtype("complex128"),
}


def dtype_of(kind: Any) -> DType:
    """Return the dtype that a name, a type or a dtype means.

    Raises `TypeError` for one that a tensor cannot have.

    >>> dtype_of("float32"), dtype_of(bool), dtype_of("string")
    (dtype('float32'), dtype('bool'), dtype('O'))
    """
    kind = getattr(kind, "as_numpy_dtype", kind)
    if isinstance(kind, str) and kind in _BY_NAME:
        return _BY_NAME[kind]
    if kind in (str, bytes, object):
        return STRING
    try:
        dtype: DType | None = None if kind is None else np.dtype(kind)
    except TypeError:
        dtype = None
    if dtype is not None and dtype.kind in "US":
        return STRING
    if dtype is None or dtype not in KNOWN:
        raise TypeError(
            f"{kind!r} is not a dtype of a tensor; the dtypes are {', '.join(_NAMES)} "
            f"and string."
        )
    return dtype


def name_of(dtype: DType) -> str:
    """Return the name of a dtype.

    >>> name_of(np.dtype("float32")), name_of(STRING)
    ('float32', 'string')
    """
    return "string" if dtype == STRING else dtype.name


def to_array(value: Any, dtype: DType | None = None) -> Array:
    """Return a Python value as a new array of a dtype that a tensor can have.

    Python's own numbers become float32 and int32 (int64 where they do not fit), unless
    `dtype` says otherwise; arrays keep theirs, or are cast to `dtype`. Raises
    `TypeError` where Python values are not of the wanted kind (1.5 as int32), and
    `ValueError` for None and for nested lists of unequal lengths.

    >>> to_array([1, 2]).dtype, to_array(1.5).dtype, to_array("hi")
    (dtype('int32'), dtype('float32'), array(b'hi', dtype=object))
    """
    value = on_host(value)
    if isinstance(value, np.ndarray | np.generic):
        return _of_numpy(np.asarray(value), dtype)
    if value is None or (isinstance(value, list | tuple) and _holds_none(value)):
        raise ValueError(
            "None is not a value of a tensor; give a number, text or array."
        )
    try:
        array = np.asarray(value)
    except UnicodeDecodeError:  # bytes beside a str, which numpy reads as ASCII
        array = np.asarray(value, object)
    except ValueError as exc:
        raise ValueError(
            f"{value!r} has parts of unequal lengths; a tensor is rectangular."
        ) from exc
    if array.dtype.kind in "USO":
        # numpy would write a number among texts as a text.
        array = _texts(np.asarray(value, object), value)
    if dtype is None:
        return _downcast(array) if _is_plain(value) else _of_numpy(array, None)
    return _as_kind(array, dtype, value)


def on_host(value: Any) -> Any:
    """Return an array of another library as numpy's, and all else as it is.

    One on a device does not become numpy's by itself. Raises as `to_numpy` does.
    """
    is_foreign = hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray)
    return to_numpy(value) if is_foreign else value


def _of_numpy(array: Array, dtype: DType | None) -> Array:
    if array.dtype.kind in "USO":
        array = _texts(array, array)
    wanted: DType = array.dtype if dtype is None else dtype
    if wanted not in KNOWN:
        raise TypeError(
            f"an array of {array.dtype} cannot be a tensor; convert it to one of "
            f"{', '.join(_NAMES)} first."
        )
    if (wanted == STRING) != (array.dtype == STRING):
        raise TypeError(
            f"an array of {name_of(array.dtype)} cannot be used as {name_of(wanted)}."
        )
    # Always a copy: the caller may go on to change its own.
    return np.array(array, wanted)


def _texts(array: Array, value: Any) -> Array:
    flat = np.empty(array.size, object)
    for i, text in enumerate(array.ravel().tolist()):
        if isinstance(text, str):
            text = text.encode()
        if not isinstance(text, bytes):
            raise TypeError(
                f"{value!r} holds {text!r} of type {type(text).__name__}; a tensor "
                f"holds numbers, bools or texts, and no mixture of them."
            )
        flat[i] = text
    return flat.reshape(array.shape)


def _downcast(array: Array) -> Array:
    weak = _WEAK.get(kind_of(array.dtype))
    if weak is None:
        return array
    if kind_of(array.dtype) == "i" and array.size:
        least, most = array.min(), array.max()
        info = np.iinfo(np.int32)
        if least < info.min or most > info.max:
            return array
    return array.astype(weak)


def _is_plain(value: Any) -> bool:
    """Whether no part of the value has a dtype."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return not hasattr(value, "dtype")


def _holds_none(value: Any) -> bool:
    return any(
        part is None or (isinstance(part, list | tuple) and _holds_none(part))
        for part in value
    )


# For each kind of dtype, the kinds of Python values that may become one.
_ALLOWED = {"b": "b", "i": "i", "u": "iu", "f": "fiu", "c": "cfiu", "O": "O"}


def _as_kind(array: Array, dtype: DType, value: Any) -> Array:
    if array.size and kind_of(array.dtype) not in _ALLOWED[kind_of(dtype)]:
        raise TypeError(
            f"{value!r} is of kind {name_of(array.dtype)} and cannot become "
            f"{name_of(dtype)} without being changed; cast it first."
        )
    if dtype.kind in "iu" and array.size:
        info = np.iinfo(dtype)
        if array.min() < info.min or array.max() > info.max:
            raise TypeError(
                f"{value!r} does not fit into {name_of(dtype)}, which holds "
                f"{info.min} to {info.max}."
            )
    return array.astype(dtype, copy=False)
