"""What the bytes of records hold: numbers, columns of a table, features of examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import as_dtype, numpy_of, string
from kit.tf1.tensor.shape import as_shape
from kit.tf1.tensor.sparse import SparseTensor


class FixedLenFeature(NamedTuple):
    """A feature with as many values as `shape` has; without a default it must be."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values, which becomes a `tf.SparseTensor`."""

    dtype: Any


def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Any:
    """Return bytes as numbers of a dtype, along a new last axis.

    Raises `InvalidArgumentError` in a run where they are no multiple of its size.
    """
    contents = bytes if input_bytes is None else input_bytes
    with op_scope(name, "DecodeRaw", [contents]) as scope:
        texts = convert_to_tensor(contents, string, name="bytes")
        how = {"dtype": numpy_of(out_type), "little": bool(little_endian)}
        return create("DecodeRaw", texts, name=scope, **how)


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Any]:
    """Return the columns of lines, each of the dtype of its default.

    A default is a list of one value, or an empty tensor for a column that must be
    there. Raises `InvalidArgumentError` in a run for another number of fields and for
    what is no number.
    """
    with op_scope(name, "DecodeCSV", [records]) as scope:
        lines = convert_to_tensor(records, string, name="records")
        defaults = [convert_to_tensor(default) for default in record_defaults]
        columns = None if select_cols is None else tuple(map(int, select_cols))
        made = create(
            "DecodeCSV",
            lines,
            *defaults,
            name=scope,
            delimiter=field_delim,
            quotes=bool(use_quote_delim),
            missing=na_value,
            columns=columns,
            n_columns=len(defaults),
        )
    return made if isinstance(made, list) else [made]


def parse_example(
    serialized: Any,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Return the features of a vector of `tf.train.Example`s, by name.

    One of a fixed length is a tensor [example, *shape], others are `tf.SparseTensor`s.
    Raises `ValueError` for no features and those of another kind. In a run:
    `InvalidArgumentError` for what is no example, and a feature that is missing, of
    another dtype or number of values.
    """
    return _parsed("ParseExample", serialized, features, name)


def parse_single_example(
    serialized: Any,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Return the features of one `tf.train.Example`; see `parse_example`."""
    return _parsed("ParseSingleExample", serialized, features, name)


def _parsed(
    default: str, serialized: Any, features: Mapping[str, Any], name: str | None
) -> dict[str, Any]:
    if not features:
        raise ValueError("Missing: features was None or empty.")
    dense: list[tuple[Any, ...]] = []
    sparse: list[tuple[Any, ...]] = []
    with op_scope(name, default, [serialized]):
        texts = convert_to_tensor(serialized, string, name="serialized")
        defaults = []
        for key, feature in sorted(features.items()):
            if isinstance(feature, VarLenFeature):
                sparse.append((key, numpy_of(feature.dtype)))
            elif isinstance(feature, FixedLenFeature):
                dtype, shape = as_dtype(feature.dtype), as_shape(feature.shape)
                if not shape.is_fully_defined():
                    raise ValueError(
                        f"the shape of feature {key!r} must be known, not {shape}; "
                        f"tf.VarLenFeature has any number of values."
                    )
                sizes = tuple(shape.as_list())
                has_default = feature.default_value is not None
                dense.append((key, numpy_of(dtype), sizes, has_default))
                defaults.append(_default(feature.default_value, dtype, sizes))
            else:
                raise ValueError(
                    f"feature {key!r} is {feature!r}; give a tf.FixedLenFeature or a "
                    f"tf.VarLenFeature."
                )
        made = create(
            "ParseExample",
            texts,
            *defaults,
            name=default,
            dense=tuple(dense),
            sparse=tuple(sparse),
        )
    outputs = made if isinstance(made, list) else [made]
    parsed: dict[str, Any] = {}
    for (key, *_), tensor in zip(dense, outputs, strict=False):
        parsed[key] = tensor
    count, rest = len(sparse), outputs[len(dense) :]
    for number, (key, _) in enumerate(sparse):
        parsed[key] = SparseTensor(*rest[number::count])
    return parsed


def _default(default: Any, dtype: Any, sizes: Any) -> Any:
    if default is None:
        return convert_to_tensor(np.zeros(0, dtype.as_numpy_dtype), dtype)
    value = np.asarray(default)
    if value.size == 1 and prod(sizes) == 1:
        default = value.reshape(sizes).tolist()
    return convert_to_tensor(default, dtype)
