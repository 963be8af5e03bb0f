"""A variable in parts, which are variables too and may live on several tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.graph.graph import Graph
from kit.tf1.ops.join import split
from kit.tf1.signature import with_options
from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import DType, as_dtype, float32
from kit.tf1.tensor.operator_table import Operators
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.tensor.tensor import Tensor
from kit.tf1.variables.assigning import ChangeOptions
from kit.tf1.variables.partitioners import PartitionInfo
from kit.tf1.variables.variable_store import VariableStore, check_same
from kit.tf1.variables.variables import SaveSliceInfo, Variable


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
        dtype: DType = self._parts[0].dtype.base_dtype
        return dtype

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
            whole = self._parts[0].ref
        else:
            # Reading waits for nothing, as with a variable in one part.
            named = op_scope(f"{self._name}/ConcatPartitions/", None, self._parts)
            with named, self.graph.control_dependencies(None):
                values = [part.value() for part in self._parts]
                whole = create("ConcatV2", *values, axis=self._axis, name="concat")
        with self.graph.name_scope(None), self.graph.control_dependencies(None):
            return create("Identity", whole, name=self._name)

    def _get_variable_list(self) -> list[Variable]:
        return list(self._parts)

    def _as_tensor(self) -> Any:
        return self.as_tensor()

    def _get_partitions(self) -> list[int]:
        return [
            len(self._parts) if axis == self._axis else 1
            for axis in range(self._shape.ndims or 0)
        ]

    @with_options(ChangeOptions)
    def assign(self, value: Any, options: Any) -> list[Any]:
        """Return tensors that set the parts, each to its part of `value`."""
        return self._changed("assign", value, options)

    @with_options(ChangeOptions)
    def assign_add(self, value: Any, options: Any) -> list[Any]:
        """Return tensors that add to the parts, to each its part of `value`."""
        return self._changed("assign_add", value, options)

    @with_options(ChangeOptions)
    def assign_sub(self, value: Any, options: Any) -> list[Any]:
        """Return tensors that subtract from each part its part of `value`."""
        return self._changed("assign_sub", value, options)

    def _changed(self, method: str, value: Any, options: Any) -> list[Any]:
        if not isinstance(value, list | PartitionedVariable):
            sizes = [part.shape.as_list()[self._axis] for part in self._parts]
            value = split(convert_to_tensor(value, self.dtype), sizes, self._axis)
        return [
            getattr(part, method)(piece, **vars(options))
            for part, piece in zip(self._parts, value, strict=True)
        ]

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"<tf.PartitionedVariable {self._name!r} of {len(self._parts)} parts>"


def partitioned(
    store: VariableStore,
    name: str,
    partitioner: Callable[..., Any] | None,
    *,
    shape: Any,
    dtype: Any,
    reuse: Any,
    initializer: Any,
    **how: Any,
) -> PartitionedVariable:
    """Return a variable in parts by its full name; see `VariableStore.get`.

    Earlier parts are larger if it does not divide evenly. Raises `ValueError` for an
    unknown shape, for a partitioner that cuts along several axes or otherwise than the
    variable is cut, and for a variable that is not in parts.
    """
    if name in store.variables:
        raise ValueError(
            f"A partitioner was provided, but the variable {name} is not in parts."
        )
    static_shape = TensorShape(shape)
    if isinstance(initializer, Tensor):
        static_shape = static_shape.merge_with(initializer.shape)
    wanted = float32 if dtype is None else as_dtype(dtype)
    counts = (
        None
        if partitioner is None
        else _counts(name, partitioner, static_shape, wanted)
    )
    variable = store.partitioned.get(name)
    if variable is not None:
        if reuse is False:
            raise ValueError(
                f"Partitioned variable {name} already exists. Did you mean to set "
                f"reuse=True or reuse=tf.AUTO_REUSE in VarScope?"
            )
        check_same(variable, name, static_shape, wanted)
        if counts not in (None, variable._get_partitions()):
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified "
                f"partitions {counts} and found {variable._get_partitions()}."
            )
        return variable
    if reuse is True:
        raise ValueError(
            f"Partitioned variable {name} does not exist, or was not created with "
            f"tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
        )
    made = _made(
        store, name, static_shape, counts or [1], wanted, initializer, reuse, how
    )
    store.partitioned[name] = made
    return made


def _counts(name: str, partitioner: Any, shape: TensorShape, dtype: DType) -> list[int]:
    """Return the number of parts along each axis."""
    if not callable(partitioner):
        raise ValueError(
            f"the partitioner of {name} is {partitioner!r}; give a function such as "
            f"tf.fixed_size_partitioner(2)."
        )
    if not shape.is_fully_defined() or not shape.ndims:
        raise ValueError(
            f"Shape of a new partitioned variable ({name}) must be fully defined and "
            f"have axes, but instead was {shape}."
        )
    counts = partitioner(shape=shape, dtype=dtype)
    is_list = isinstance(counts, list | tuple)
    if not is_list or len(counts) != shape.ndims or any(count < 1 for count in counts):
        raise ValueError(
            f"the partitioner of {name} returned {counts!r} for the shape {shape}: it "
            f"gives the number of parts, 1 or more, for each axis."
        )
    if sum(count > 1 for count in counts) > 1:
        raise ValueError(
            f"the partitioner of {name} returned {counts!r} for the shape {shape}: "
            f"only one axis can be cut."
        )
    return list(counts)


def _made(
    store: VariableStore,
    name: str,
    shape: TensorShape,
    counts: list[int],
    dtype: DType,
    initializer: Any,
    reuse: Any,
    how: dict[str, Any],
) -> PartitionedVariable:
    sizes = [size or 0 for size in shape.as_list()]
    axis = next((i for i, count in enumerate(counts) if count > 1), 0)
    parts, begin = [], 0
    for number, size in enumerate(cut(sizes[axis], counts[axis])):
        part = [*sizes[:axis], size, *sizes[axis + 1 :]]
        chosen = _of_part(initializer, dtype, axis, begin, size)
        has_value = chosen is not initializer
        offset = [begin if item == axis else 0 for item in range(len(sizes))]
        made = store.get(
            f"{name}/part_{number}",
            None if has_value else part,
            chosen.dtype.base_dtype if has_value else dtype,
            reuse,
            initializer=chosen,
            part=PartitionInfo(sizes, offset),
            **how,
        )
        made._save_slice_info = SaveSliceInfo(name, sizes, offset, part)
        parts.append(made)
        begin += size
    return PartitionedVariable(name, shape, axis, parts)


def cut(size: int, n_parts: int) -> list[int]:
    """Return the sizes of parts; the first ones are larger by the remainder.

    >>> cut(7, 3), cut(10, 4)
    ([3, 2, 2], [3, 3, 2, 2])
    """
    least, rest = divmod(size, n_parts)
    return [least + (number < rest) for number in range(n_parts)]


def _of_part(initializer: Any, dtype: DType, axis: int, begin: int, size: int) -> Any:
    """Return the part of an initial value; a function is called for each part."""
    is_function = callable(initializer) and not isinstance(initializer, ArrayProtocol)
    if initializer is None or is_function:
        return initializer
    if not isinstance(initializer, Tensor):
        initializer = convert_to_tensor(initializer, dtype)
    key = (*[slice(None)] * axis, slice(begin, begin + size))
    return initializer[key]


def parts_of(variable: Any) -> list[Any]:
    """Return the parts of a partitioned variable; of anything else it alone."""
    parts = getattr(variable, "_get_variable_list", None)
    return [variable] if parts is None else list(parts())


def slice_of(variable: Any) -> SaveSliceInfo | None:
    """Return which part of a whole a variable is; None for what is no part."""
    part: SaveSliceInfo | None = getattr(variable, "_save_slice_info", None)
    return part
