"""`types_pb2.DT_INT32` and its like: the numbers that `tf.as_dtype` takes."""

from __future__ import annotations

from typing import Final

from kit.tf1.tensor.dtypes import as_dtype

_OTHERWISE: Final = {"float": "float32", "double": "float64", "half": "float16"}


def __getattr__(name: str) -> int:
    kind = name.removeprefix("DT_").lower()
    try:
        if not name.startswith("DT_"):
            raise TypeError(name)
        return as_dtype(_OTHERWISE.get(kind, kind)).as_datatype_enum
    except TypeError as exc:
        raise AttributeError(f"module 'types_pb2' has no {name!r}.") from exc
