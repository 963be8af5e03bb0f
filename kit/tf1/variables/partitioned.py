"""A variable in parts, which are variables too and may live on several tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.graph.graph import Graph
from kit.tf1.tensor.convert import create, op_scope
from kit.tf1.tensor.dtypes import DType, as_dtype, float32
from kit.tf1.tensor.operator_table import Operators
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.variables.partitioners import PartitionInfo
from kit.tf1.variables.variables import Variable

if TYPE_CHECKING:
    from kit.tf1.variables.variable_store import VariableStore


class SaveSliceInfo(NamedTuple):
    """Which part of a whole a variable is, so that it is saved under one name."""

    full_name: str
    full_shape: list[int]
    var_offset: list[int]
    var_shape: list[int]

    @property
    def spec(self) -> str:
        """The part as text.

        >>> SaveSliceInfo("w", [5, 2], [3, 0], [2, 2]).spec
        '5 2 3,2:0,2'
        """
        pairs = zip(self.var_offset, self.var_shape, strict=True)
        axes = ":".join(f"{begin},{size}" for begin, size in pairs)
        return f"{' '.join(map(str, self.full_shape))} {axes}"


class PartitionedVariable(Operators, ArrayProtocol):
    """Parts `w/part_0`, `w/part_1`, ...; in an expression it is the whole value."""

    def __init__(
        self, name: str, shape: TensorShape, axis: int, parts: list[Variable]
    ) -> None:
        self._name, self._shape, self._axis, self._parts = name, shape, axis, parts

    @property
    def name(self) -> str:
        """The name of the whole."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        found: DType = self._parts[0].dtype.base_dtype
        return found

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Return the shape of the whole."""
        return self._shape

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._parts[0].graph

    def as_tensor(self) -> Any:
        """Return the whole value: the parts, joined."""
        if len(self._parts) == 1:
            return create("Identity", self._parts[0].ref, name=self._name)
        with op_scope(f"{self._name}/ConcatPartitions/", None, self._parts):
            values = [one.value() for one in self._parts]
            whole = create("ConcatV2", *values, axis=self._axis, name="concat")
        with op_scope(f"{self._name}/", None, [whole]):
            return create("Identity", whole, name=f"{self._name}/")

    def _get_variable_list(self) -> list[Variable]:
        return list(self._parts)

    def _as_tensor(self) -> Any:
        return self.as_tensor()

    def assign(self, value: Any, use_locking: bool = False, name: Any = None) -> Any:
        """Refuse: the parts are assigned one by one."""
        raise NotImplementedError(
            "assign() has not been implemented for PartitionedVariable; assign its "
            "parts."
        )

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"<tf.PartitionedVariable {self._name!r} of {len(self._parts)} parts>"


def partitioned(
    store: VariableStore,
    name: str,
    partitioner: Callable[..., Any],
    *,
    shape: Any,
    dtype: Any,
    reuse: Any,
    initializer: Any,
    **how: Any,
) -> PartitionedVariable:
    """Return a variable in parts by its full name; see `VariableStore.get`.

    Earlier parts are larger if it does not divide evenly. Raises `ValueError` for an
    unknown shape, and for a partitioner that cuts along several axes.
    """
    known = TensorShape(shape)
    if not known.is_fully_defined():
        raise ValueError(
            f"Shape of a new partitioned variable ({name}) must be fully defined, but "
            f"instead was {known}."
        )
    wanted = float32 if dtype is None else as_dtype(dtype)
    sizes = [size or 0 for size in known.as_list()]
    counts = list(partitioner(shape=known, dtype=wanted))
    if len(counts) != len(sizes) or sum(count > 1 for count in counts) > 1:
        raise ValueError(
            f"the partitioner of {name} returned {counts} for the shape {sizes}: it "
            f"gives a number for each axis, and more than 1 for one axis only."
        )
    axis = next((i for i, count in enumerate(counts) if count > 1), 0)
    parts, begin = [], 0
    for number, size in enumerate(cut(sizes[axis], counts[axis])):
        part = [*sizes[:axis], size, *sizes[axis + 1 :]]
        chosen = _of_part(initializer, axis, begin, size)
        has_value = chosen is not initializer
        offset = [begin if one == axis else 0 for one in range(len(sizes))]
        made = store.get(
            f"{name}/part_{number}",
            None if has_value else part,
            wanted,
            reuse,
            initializer=chosen,
            part=PartitionInfo(sizes, offset),
            **how,
        )
        made._save_slice_info = SaveSliceInfo(name, sizes, offset, part)
        parts.append(made)
        begin += size
    return PartitionedVariable(name, known, axis, parts)


def cut(size: int, n_parts: int) -> list[int]:
    """Return the sizes of parts; the first ones are larger by the remainder.

    >>> cut(7, 3), cut(10, 4)
    ([3, 2, 2], [3, 3, 2, 2])
    """
    least, rest = divmod(size, n_parts)
    return [least + (number < rest) for number in range(n_parts)]


def _of_part(initializer: Any, axis: int, begin: int, size: int) -> Any:
    """Return the part of an initial value; a function is called for each part."""
    is_function = callable(initializer) and not isinstance(initializer, ArrayProtocol)
    if initializer is None or is_function:
        return initializer
    key = (*[slice(None)] * axis, slice(begin, begin + size))
    return initializer[key]
