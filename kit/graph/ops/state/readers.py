"""Files of training data, read on a task, and what their records hold.

A `TFRecordReaderV2` and its like give the reader itself; `ReaderReadV2` takes names of
files from a queue. `ParseExample` and `DecodeCSV` take records apart.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.dtypes import STRING, Array, DType, name_of
from kit.graph.examples import decode
from kit.graph.static import Shape, Static
from kit.graph.table import Attrs, enter, infer_fixed

_INT64 = np.dtype(np.int64)


def _reader(call: Any, *, shared_name: str = "", **settings: Any) -> Any:
    return call.reader(shared_name, settings)


def _infer_read(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    shape = () if len(inputs) == 2 else (None,)
    return [Static(shape, STRING)] * 2


def _read(call: Any, reader: Any, queue: Any, n: Any = None) -> Any:
    if queue.dtypes != (STRING,):
        raise InvalidArgumentError("a reader takes names of files from its queue.")
    records = reader.read(call, queue, 1 if n is None else int(n))
    keys, values = (_texts(part) for part in zip(*records, strict=True))
    return (keys, values) if n is not None else (keys.reshape(()), values.reshape(()))


def _texts(values: Sequence[bytes]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _count(what: str) -> Any:
    return lambda _, reader: np.asarray(getattr(reader, what), _INT64)


def _reset(_: Any, reader: Any) -> tuple[()]:
    reader.reset()
    return ()


def _infer_text(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    if inputs[0].dtype != STRING:
        raise TypeError(f"names and records are texts, not {name_of(inputs[0].dtype)}.")
    return [Static((), STRING)]


def _read_file(call: Any, path: Any) -> Any:
    return np.array(call.files.read_whole(np.asarray(path, object).item()), object)


def _matching_files(call: Any, patterns: Any) -> Any:
    flat = np.asarray(patterns, object).reshape(-1)
    return _texts(
        sorted({path for pattern in flat for path in call.files.matching(pattern)})
    )


# --------------------------------------------------------------------------------------
# What records hold


def _infer_raw(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    _infer_text(inputs, attrs)
    shape = inputs[0].shape
    return [Static(None if shape is None else (*shape, None), attrs["dtype"])]


def _decode_raw(_: ModuleType, texts: Any, *, dtype: DType, little: bool) -> Any:
    array = np.asarray(texts, object)
    sizes = {len(text) for text in array.reshape(-1)} or {0}
    if len(sizes) > 1:
        raise InvalidArgumentError(
            f"DecodeRaw requires input strings to all be the same size, but these have "
            f"{sorted(sizes)} bytes."
        )
    (size,) = sizes
    if size % dtype.itemsize:
        raise InvalidArgumentError(
            f"Input to DecodeRaw has length {size} that is not a multiple of "
            f"{dtype.itemsize}, the size of {name_of(dtype)}."
        )
    ordered = dtype.newbyteorder("<" if little else ">")
    values = np.frombuffer(b"".join(array.reshape(-1)), ordered).astype(dtype)
    return values.reshape((*array.shape, size // dtype.itemsize))


def _infer_csv(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[0].shape, static.dtype) for static in inputs[1:]]


def _decode_csv(
    _: ModuleType,
    texts: Any,
    *defaults: Any,
    delimiter: str,
    quotes: bool,
    missing: str,
    columns: Sequence[int] | None,
    **_count: Any,
) -> Any:
    array: Any = np.asarray(texts, object)
    wanted = range(len(defaults)) if columns is None else columns
    parts = [np.empty(array.shape, item.dtype) for item in defaults]
    how: Any = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    for i in np.ndindex(array.shape):
        line = array[i].decode(errors="surrogateescape")
        (fields,) = csv.reader([line], delimiter=delimiter, quoting=how) or [[]]
        if columns is None and len(fields) != len(defaults):
            raise InvalidArgumentError(
                f"Expect {len(defaults)} fields but have {len(fields)} in record {i}"
            )
        for target, column, default in zip(parts, wanted, defaults, strict=True):
            target[i] = _field(fields[column], default, missing, column)
    return tuple(parts) if len(parts) != 1 else parts[0]


def _field(text: str, default: Any, missing: str, column: int) -> Any:
    if text in ("", missing):
        if not default.size:
            raise InvalidArgumentError(f"Field {column} is required but missing.")
        return default.reshape(-1)[0]
    if default.dtype == STRING:
        return text.encode(errors="surrogateescape")
    try:
        return default.dtype.type(text)
    except (ValueError, OverflowError) as exc:
        raise InvalidArgumentError(
            f"Field {column} is not a valid {name_of(default.dtype)}: {text}"
        ) from exc


# An attribute `dense` has (name, dtype, shape, has a default), `sparse` (name, dtype).


def _infer_parsed(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    _infer_text(inputs, attrs)
    batch: Shape = inputs[0].shape
    if batch is None or len(batch) > 1:
        raise ValueError("examples are a vector of texts, or one text.")
    axes = len(batch) + 1
    sparse = attrs["sparse"]
    return [
        *(Static((*batch, *shape), dtype) for _, dtype, shape, _ in attrs["dense"]),
        *(Static((None, axes), _INT64) for _ in sparse),
        *(Static((None,), dtype) for _, dtype in sparse),
        *(Static((axes,), _INT64) for _ in sparse),
    ]


def _parse(_: ModuleType, texts: Any, *defaults: Any, dense: Any, sparse: Any) -> Any:
    array = np.asarray(texts, object)
    rows = [decode(text) for text in array.reshape(-1)]
    results = []
    for (name, dtype, shape, has_default), default in zip(dense, defaults, strict=True):
        parts = [
            _dense(row, name, dtype, shape, default if has_default else None)
            for row in rows
        ]
        whole = np.stack(parts) if parts else np.empty((0, *shape), dtype)
        results.append(whole.reshape((*array.shape, *shape)))
    parsed = [_sparse(rows, *feature, is_single=array.ndim == 0) for feature in sparse]
    results += [part for kind in zip(*parsed, strict=True) for part in kind]
    return tuple(results) if len(results) != 1 else results[0]


def _dense(
    row: Any, name: str, dtype: DType, shape: Sequence[int], default: Any
) -> Array:
    values = row.get(name)
    if values is None or not len(values):
        if default is None:
            raise InvalidArgumentError(
                f"Feature: {name} (data type: {name_of(dtype)}) is required but could "
                f"not be found."
            )
        return np.broadcast_to(default, tuple(shape))
    _check_kind(name, values, dtype)
    if len(values) != prod(shape):
        raise InvalidArgumentError(
            f"Key: {name}. Number of {name_of(dtype)} values != expected. Values size: "
            f"{len(values)} but output shape: {list(shape)}"
        )
    return np.asarray(values).reshape(tuple(shape))


def _check_kind(name: str, values: Array, dtype: DType) -> None:
    if values.dtype != dtype:
        raise InvalidArgumentError(
            f"Key: {name}. Data types don't match. Data type: {name_of(values.dtype)} "
            f"but expected type: {name_of(dtype)}"
        )


def _sparse(rows: Any, name: str, dtype: DType, *, is_single: bool) -> Any:
    """Return indices, values and shape of what may be of any length."""
    lists = [row.get(name, ()) for row in rows]
    for row in lists:
        if len(row):
            _check_kind(name, row, dtype)
    where = [(i, j) for i, row in enumerate(lists) for j in range(len(row))]
    indices = np.array(where, _INT64).reshape(-1, 2)
    longest = max(map(len, lists), default=0)
    values = np.concatenate([np.empty(0, dtype), *filter(len, lists)])
    sizes = np.array([len(rows), longest], _INT64)
    if is_single:
        return indices[:, 1:], values.astype(dtype), sizes[1:]
    return indices, values.astype(dtype), sizes


def _n_parsed(attrs: Attrs) -> int:
    return len(attrs["dense"]) + 3 * len(attrs["sparse"])


def _n_columns(attrs: Attrs) -> int:
    count: int = attrs["n_columns"]
    return count


_TEXT = infer_fixed(Static((), STRING))
_ON_READER: dict[str, Any] = {"stateful": True, "hosted": True, "refs": (0,)}
_READS = {**_ON_READER, "refs": (0, 1), "blocking": True, "n_outputs": 2}
_NUMBER, _NAMES = infer_fixed(Static((), _INT64)), infer_fixed(Static((None,), STRING))

for _type in (
    "WholeFileReaderV2",
    "IdentityReaderV2",
    "TextLineReaderV2",
    "FixedLengthRecordReaderV2",
    "TFRecordReaderV2",
):
    enter(_type, _TEXT, _reader, stateful=True, hosted=True, gives_ref=True)
enter("ReaderReadV2", _infer_read, _read, **_READS)
enter("ReaderReadUpToV2", _infer_read, _read, **_READS)
for _type, _what in (
    ("ReaderNumRecordsProducedV2", "n_records"),
    ("ReaderNumWorkUnitsCompletedV2", "n_files"),
):
    enter(_type, _NUMBER, _count(_what), **_ON_READER)
enter("ReaderResetV2", infer_fixed(), _reset, **_ON_READER, n_outputs=0)
enter("ReadFile", _infer_text, _read_file, stateful=True, hosted=True)
enter("MatchingFiles", _NAMES, _matching_files, stateful=True, hosted=True)
enter("DecodeRaw", _infer_raw, _decode_raw, hosted=True)
enter("DecodeCSV", _infer_csv, _decode_csv, hosted=True, n_outputs=_n_columns)
enter("ParseExample", _infer_parsed, _parse, hosted=True, n_outputs=_n_parsed)
