"""Tensors to files and back, on the disk of the task where the op runs.

    SaveV2(prefix, names, slices, *values)      a checkpoint under a prefix
    MergeV2Checkpoints(prefixes, prefix)        of several tasks' checkpoints one
    RestoreV2(prefix, names, slices)            values; with their shapes if they are
                                                known, so that nothing is set if one
                                                does not fit
    ShardedFilename(base, shard, count)         base-00000-of-00002

`names` and `slices` are vectors of texts; the slice '' is all of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.dtypes import STRING, DType, name_of
from kit.graph.static import Shape, Static, agrees, text
from kit.graph.table import Attrs, enter


def _infer_save(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    prefix, names, slices, *values = inputs
    _check_texts(prefix, names, slices)
    for static in (names, slices):
        if static.shape is not None and static.shape not in ((len(values),), (None,)):
            raise ValueError(
                f"{len(values)} tensors are saved, with names or slices of the shape "
                f"{text(static.shape)}; give one for each."
            )
    return []


def _check_texts(*inputs: Static) -> None:
    for static in inputs:
        if static.dtype != STRING:
            raise TypeError(
                f"prefixes, names and slices are texts, not {static.dtype}."
            )


def _save(call: Any, prefix: Any, names: Any, slices: Any, *values: Any) -> tuple[()]:
    arrays = [np.asarray(value) for value in values]
    call.disk.write_bundle(_text(prefix), _texts(names), _texts(slices), arrays)
    return ()


def _infer_merge(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    _check_texts(*inputs)
    return []


def _merge(call: Any, parts: Any, prefix: Any) -> tuple[()]:
    call.disk.merge(_texts(parts), _text(prefix))
    return ()


def _infer_restore(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    _check_texts(*inputs)
    shapes = attrs.get("shapes") or [None] * len(attrs["dtypes"])
    return [Static(s, d) for s, d in zip(shapes, attrs["dtypes"], strict=True)]


def _restore(
    call: Any,
    prefix: Any,
    names: Any,
    slices: Any,
    *,
    dtypes: Sequence[DType],
    shapes: Sequence[Shape] | None = None,
) -> Any:
    wanted = _texts(names)
    values = call.disk.TensorBundle(_text(prefix)).read(wanted, _texts(slices))
    known_shapes = shapes or [None] * len(dtypes)
    for name, value, dtype, shape in zip(
        wanted, values, dtypes, known_shapes, strict=True
    ):
        if value.dtype != dtype or not agrees(shape, value.shape):
            raise InvalidArgumentError(
                f"{_text(prefix)} holds {name!r} as "
                f"{name_of(value.dtype)}{list(value.shape)}, but the variable is "
                f"{name_of(dtype)}{text(shape)}."
            )
    return tuple(values) if len(values) != 1 else values[0]


def _infer_file_name(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    _check_texts(inputs[0])
    return [Static((), STRING)]


def _file_name(_: ModuleType, base: Any, shard: Any, count: Any) -> Any:
    made = f"{_text(base)}-{int(shard):05d}-of-{int(count):05d}"
    return np.asarray(made.encode(), object)


def _text(array: Any) -> str:
    value: bytes = np.asarray(array).item()
    return value.decode()


def _texts(many: Any) -> list[str]:
    return [item.decode() for item in np.asarray(many).reshape(-1).tolist()]


_DISK: dict[str, Any] = {"stateful": True, "hosted": True}

enter("SaveV2", _infer_save, _save, **_DISK, n_outputs=0)
enter("MergeV2Checkpoints", _infer_merge, _merge, **_DISK, n_outputs=0)
enter(
    "RestoreV2",
    _infer_restore,
    _restore,
    **_DISK,
    n_outputs=lambda attrs: len(attrs["dtypes"]),
)
enter("ShardedFilename", _infer_file_name, _file_name, hosted=True)
