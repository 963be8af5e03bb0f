"""The element types of tensors, as the original's `DType` objects.

Pure. A `DType` is a name around a numpy dtype. The type of a variable's own tensor is a
reference to it: `float32_ref`, whose `base_dtype` is `float32`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.bfloat16 import kind_of, limits_of
from kit.graph.dtypes import STRING, name_of

_Numpy = np.dtype[Any]
# The numbers of the original's enum of types; references count from 101.
_ENUM = {
    **{"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6},
    **{"string": 7, "complex64": 8, "int64": 9, "bool": 10},
    **{
        "bfloat16": 14,
        "uint16": 17,
        "complex128": 18,
        "float16": 19,
        "uint32": 22,
        "uint64": 23,
    },
}
_REF = 100


class DType:
    """One element type; equal to any name for it: `tf.float32 == "float32"`."""

    def __init__(self, base: _Numpy | int, is_ref: bool = False) -> None:
        """Take the original's number of a type; users take `tf.float32` or `as_dtype`.

        Raises `TypeError` for a number of no type.
        """
        numbered = as_dtype(base) if isinstance(base, int) else None
        self._base: _Numpy = numbered._base if numbered is not None else base  # type: ignore[assignment]
        self._is_ref: bool = numbered._is_ref if numbered is not None else is_ref
        self._name = name_of(self._base) + ("_ref" if self._is_ref else "")

    @property
    def name(self) -> str:
        """`float32`, or `float32_ref`."""
        return self._name

    @property
    def base_dtype(self) -> DType:
        """The type without the reference."""
        return _BASES[self._base]

    @property
    def _is_ref_dtype(self) -> bool:
        return self._is_ref

    @property
    def _as_ref(self) -> DType:
        return _REFS[self._base]

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """The scalar type in numpy: `np.float32`; of texts Python's `object`."""
        return object if self._base == STRING else self._base.type

    @property
    def as_datatype_enum(self) -> int:
        """The original's number of this type."""
        return _ENUM[name_of(self._base)] + (_REF if self._is_ref else 0)

    @property
    def real_dtype(self) -> DType:
        """The type of the real part of a complex type, else the type itself."""
        if self._base.kind != "c":
            return self
        return as_dtype(f"float{self._base.itemsize * 4}")

    @property
    def is_floating(self) -> bool:
        """Whether it is a type of real floating point numbers."""
        return kind_of(self._base) == "f"

    @property
    def is_integer(self) -> bool:
        """Whether it is a type of whole numbers."""
        return self._base.kind in "iu"

    @property
    def is_unsigned(self) -> bool:
        """Whether it is a type of whole numbers without a sign."""
        return self._base.kind == "u"

    @property
    def is_complex(self) -> bool:
        """Whether it is a type of complex numbers."""
        return self._base.kind == "c"

    @property
    def is_bool(self) -> bool:
        """Whether it is the type of truth values."""
        return self._base.kind == "b"

    @property
    def is_numpy_compatible(self) -> bool:
        """Whether numpy has this type: always."""
        return True

    @property
    def is_quantized(self) -> bool:
        """Whether it is a quantized type: never, they are not offered."""
        return False

    @property
    def size(self) -> int:
        """Bytes of one element; of a text those of the reference to it."""
        return self._base.itemsize

    @property
    def min(self) -> Any:
        """The least number; raises `TypeError` for types without one."""
        return self._limit("min")

    @property
    def max(self) -> Any:
        """The greatest number; raises `TypeError` for types without one."""
        return self._limit("max")

    @property
    def limits(self) -> tuple[Any, Any]:
        """Least and greatest intensity of a picture: 0, and 1 or the greatest."""
        if self.is_floating:
            return 0, 1
        return (False, True) if self.is_bool else (0, self.max)

    def _limit(self, which: str) -> Any:
        if self.is_floating:
            return getattr(limits_of(self._base), which)
        if self.is_integer:
            return getattr(np.iinfo(self._base), which)
        raise TypeError(f"{self.name} has no {which}imum.")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether values of `other` may be used for this; a reference is read."""
        dtype = as_dtype(other)
        return self in (dtype, dtype.base_dtype)

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        try:
            dtype = as_dtype(other)
        except TypeError:
            return False
        return self._name == dtype._name

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self.as_datatype_enum

    def __int__(self) -> int:
        return self.as_datatype_enum

    def __str__(self) -> str:
        return f"<dtype: {self._name!r}>"

    def __repr__(self) -> str:
        return f"tf.{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self._name,)


_ALL = tuple(DType(np.dtype(object if name == "string" else name)) for name in _ENUM)
float32, float64, int32, uint8, int16, int8, string, complex64, *_more = _ALL
int64, bool_, bfloat16, uint16, complex128, float16, uint32, uint64 = _more
half, double = float16, float64
_BASES: dict[_Numpy, DType] = {dtype._base: dtype for dtype in _ALL}
_REFS: dict[_Numpy, DType] = {dtype._base: DType(dtype._base, True) for dtype in _ALL}
_BY_NAME: dict[str, DType] = {
    **{dtype.name: dtype for dtype in (*_BASES.values(), *_REFS.values())},
    **{"half": half, "double": double, "float": float32},
}
# numpy has a dtype for each of these; the original has none.
_NO_TYPES = (None, int, complex, str, bytes)
_BY_ENUM = {dtype.as_datatype_enum: dtype for dtype in _BY_NAME.values()}


def as_dtype(type_value: Any) -> DType:
    """Return the type that a `DType`, a name, a numpy type or a number means.

    Raises `TypeError` for anything else.

    >>> as_dtype("float32"), as_dtype(np.int64), as_dtype(float)
    (tf.float32, tf.int64, tf.float32)
    """
    if isinstance(type_value, DType):
        return type_value
    dtype = None
    if type(type_value) is int:
        dtype = _BY_ENUM.get(type_value)
    elif isinstance(type_value, str):
        dtype = _BY_NAME.get(type_value)
    elif type_value is float:
        dtype = float32
    elif not isinstance(type_value, bytes) and not _is_no_type(type_value):
        dtype = _of_numpy(type_value)
    if dtype is None:
        raise TypeError(
            f"Cannot convert value {type_value!r} to a TensorFlow DType; the types are "
            f"{', '.join(item.name for item in _ALL)}."
        )
    return dtype


def numpy_of(type_value: Any) -> _Numpy:
    """Return numpy's dtype of what `as_dtype` takes; of a reference, what it refers to.

    >>> numpy_of(float32), numpy_of("float32_ref")
    (dtype('float32'), dtype('float32'))
    """
    return as_dtype(type_value)._base


def _is_no_type(value: Any) -> bool:
    return any(value is kind for kind in _NO_TYPES)  # numpy's dtypes equal some of them


def _of_numpy(value: Any) -> DType | None:
    # A class's `dtype` is not a dtype, but what gives one to its objects.
    kind = value if isinstance(value, type) else getattr(value, "dtype", value)
    try:
        dtype = np.dtype(kind)
    except TypeError:
        return None
    return string if dtype.kind in "US" else _BASES.get(dtype)
