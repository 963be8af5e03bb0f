"""Variables that belong to others: the slots of optimizers, moving averages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from kit.tf1.ops.creation import zeros_like
from kit.tf1.tensor.dtypes import as_dtype
from kit.tf1.variables.initial_values import (
    Constant,
    Ones,
    Zeros,
)
from kit.tf1.variables.partitioned import slice_of
from kit.tf1.variables.scopes import get_variable, variable_scope


def create_slot(primary: Any, val: Any, name: str) -> Any:
    """Return a variable called `<primary>/<name>` that starts with a value.

    It is not trained, and lives where `primary` does.
    """
    with _placed(primary, name, colocate=True):
        return _as_part(primary, name, _variable(val))


def create_filled_slot(
    primary: Any, number: float, name: str, colocate: bool = True, dtype: Any = None
) -> Any:
    """Return a slot of the shape of `primary` in which each element is `number`."""
    wanted = as_dtype(primary.dtype if dtype is None else dtype).base_dtype
    with _placed(primary, name, colocate):
        return _as_part(primary, name, _filled(primary, number, wanted))


def create_zeros_slot(
    primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True
) -> Any:
    """Return a slot of the shape of `primary` that starts with zeros."""
    return create_filled_slot(primary, 0.0, name, colocate_with_primary, dtype)


@contextmanager
def _placed(primary: Any, name: str, colocate: bool) -> Iterator[None]:
    graph = primary.graph
    with (
        variable_scope(None, f"{primary.op.name}/{name}"),
        graph.colocate_with(primary.op) if colocate else nullcontext(),
    ):
        yield


def _as_part(primary: Any, name: str, slot: Any) -> Any:
    """Mark the slot of a part of a variable as the same part of the whole slot."""
    part = slice_of(primary)
    if part is not None:
        slot._save_slice_info = part._replace(full_name=f"{part.full_name}/{name}")
    return slot


def _filled(primary: Any, number: float, dtype: Any) -> Any:
    if not primary.shape.is_fully_defined():
        like = getattr(primary, "initialized_value", lambda: primary)()
        return _variable(zeros_like(like, dtype) + dtype.as_numpy_dtype(number))
    simple = {0.0: Zeros, 1.0: Ones}.get(number)
    return get_variable(
        "",
        primary.shape,
        dtype,
        initializer=simple() if simple else Constant(number, dtype),
        trainable=False,
    )


def _variable(value: Any) -> Any:
    # The empty name is that of the scope itself.
    return get_variable(
        "",
        initializer=value,
        trainable=False,
        validate_shape=value.shape.is_fully_defined(),
    )
