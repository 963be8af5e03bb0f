"""Ops and tensors, and sparse rows of a tensor.

Pure. An `Op` is made by `Graph.create` alone. A `Tensor` is one output of an op; it has
no value until a session runs it. Arithmetic and numpy functions on tensors are in
`kit.graph.array_protocol`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kit.errors import FailedPreconditionError
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.extension_points import Pictured
from kit.graph.fold import folded
from kit.graph.static import Shape, Static, as_shape, merge, text
from kit.graph.table import OpDef
from kit.handles import OldName

if TYPE_CHECKING:
    from kit.graph.graph import Graph


# Tensors of one bool, and the value that each must have.
Guards: TypeAlias = "tuple[tuple[Tensor, bool], ...]"


class Op(Pictured):
    """One node of a graph. Equal only to itself.

    Attributes
    ----------
    graph : Graph
        The graph it belongs to.
    name : str
        Unique in the graph.
    type : str
        The name of its entry in the table: "MatMul".
    inputs, outputs : tuple of Tensor
        What it takes and gives.
    control_inputs : tuple of Op
        Ops that run before it.
    attrs : dict
        Plain data and arrays. Read-only once a session has sent the op to the tasks.
    device : str
        Where it runs, as far as that is given: "/job:ps/task:0", or "".
    colocation : tuple of str
        Names of ops with which it shares a device.
    container : str
        Where its shared state lives.
    guards : tuple of (Tensor, bool)
        It runs only if each of these tensors has that value.
    source_line : str
        File and line that made it, for messages.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op_def: OpDef,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        control_inputs: Sequence[Op],
        source_line: str,
    ) -> None:
        self.graph, self.name, self.op_def = graph, name, op_def
        self.inputs, self.attrs = tuple(inputs), dict(attrs)
        self.control_inputs = tuple(control_inputs)
        self._device, self._is_sent = "", False
        self.device, self.container, self.source_line = "", "", source_line
        self.colocation: tuple[str, ...] = ()
        self.guards: Guards = ()
        self.number = -1  # set when it enters the graph
        statics_in = [tensor.static for tensor in inputs]
        statics = folded(
            op_def, statics_in, self.attrs, op_def.infer(statics_in, self.attrs)
        )
        make = graph.tensor_class
        self.outputs: tuple[Any, ...] = tuple(
            make(self, i, static) for i, static in enumerate(statics)
        )

    place = OldName("place", "source_line")

    @property
    def takes(self) -> tuple[Tensor, ...]:
        """What it needs the values of: its inputs, and the tensors that guard it."""
        return (*self.inputs, *(guard for guard, _ in self.guards))

    @property
    def type(self) -> str:
        """The name of its entry in the table: `MatMul`."""
        return self.op_def.name

    @property
    def device(self) -> str:
        """Where it runs, as far as that is given: `/job:ps/task:0`, or ''."""
        return self._device

    @device.setter
    def device(self, device: str) -> None:
        if self._is_sent and device != self._device:
            raise _sent(self.name, "device")
        self._device = device

    def seal(self) -> None:
        """Refuse changes from now on: tasks have received this op as it is."""
        if not self._is_sent:
            self._is_sent = True
            self.attrs = _Sealed(self.name, self.attrs)

    def __repr__(self) -> str:
        at = f" on {self.device}" if self.device else ""
        return f"<op {self.name!r} {self.type}{at}>"


class _Sealed(dict[str, Any]):
    """Read-only attributes."""

    def __init__(self, op: str, attrs: Mapping[str, Any]) -> None:
        super().__init__(attrs)
        self._op = op

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise _sent(self._op, "attributes")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def _sent(op: str, what: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"the {what} of op {op!r} cannot be changed any more: a session has sent it to "
        f"the tasks. Make another op, or change it before the first run."
    )


class Tensor(ArrayProtocol):
    """One output of an op: a value that a session computes when it is asked for.

    An operand of numpy's functions and operators, which then add ops to the graph. Two
    tensors are equal only if they are the same one, so that they can be keys; compare
    values with `np.equal`.

    Attributes
    ----------
    op : Op
        The op that computes it.
    shape : tuple of int or None, or None
        None for an unknown size, or when even the number of axes is unknown.
    dtype : numpy.dtype
        Texts are `object`.

    Examples
    --------
    >>> import kit
    >>> import numpy as np
    >>> with kit.Graph().as_default():
    ...     x = kit.placeholder("float32", [None, 2], name="x")
    ...     np.tanh(x) @ np.ones((2, 3), "float32")
    <tensor 'MatMul:0' float32[?, 3]>
    """

    def __init__(self, op: Op, index: int, static: Static) -> None:
        self.op, self.index, self.static = op, index, static

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.op.graph

    @property
    def name(self) -> str:
        """The op's name and the number of the output: `add:0`."""
        return f"{self.op.name}:{self.index}"

    @property
    def shape(self) -> Any:
        """A tuple, with None for what is not known; None if the rank is unknown."""
        return self.static.shape

    @property
    def dtype(self) -> Any:
        """A numpy dtype; texts are `object`."""
        return self.static.dtype

    @property
    def device(self) -> str:
        """Where its op runs, as far as that is given."""
        return self.op.device

    def set_shape(self, shape: Shape) -> None:
        """Add to what is known of the shape.

        Parameters
        ----------
        shape : sequence of int or None
            None for an unknown size.

        Raises
        ------
        ValueError
            It contradicts what the graph has inferred.
        """
        merged = merge(self.static.shape, as_shape(shape), f"{self.name!r}")
        self.static = self.static._replace(shape=merged)

    def _as_tensor(self) -> Tensor:
        return self

    def __repr__(self) -> str:
        at = f" on {self.device}" if self.device else ""
        return (
            f"<tensor {self.name!r} {self.static.dtype}{text(self.static.shape)}{at}>"
        )


# --------------------------------------------------------------------------------------
# Which ops a value depends on.


def needed(ops: Iterable[Op]) -> list[Op]:
    """Return ops and all that they depend on, each after those it needs."""
    reached: set[Op] = set()
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op not in reached:
            reached.add(op)
            stack += [take.op for take in op.takes] + list(op.control_inputs)
    return sorted(reached, key=lambda op: op.number)


class IndexedSlices:
    """Rows `values[i]` that belong at `indices[i]` of a larger tensor.

    `dense_shape` is the shape of that tensor (a tensor), None if unknown. An index may
    occur several times: the rows add up.
    """

    def __init__(
        self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None
    ) -> None:
        self.values, self.indices, self.dense_shape = values, indices, dense_shape

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.values.graph

    @property
    def op(self) -> Op:
        """The op that computes the values."""
        return self.values.op

    @property
    def name(self) -> str:
        """The name of the values."""
        return self.values.name

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def device(self) -> str:
        """Where the values are computed, as far as that is given."""
        return self.values.device

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def consumers(self) -> list[Op]:
        """Return the ops that take the values."""
        ops = self.graph.ops[self.op.number + 1 :]
        return [op for op in ops if self.values in op.inputs]

    def __str__(self) -> str:
        whole = "" if self.dense_shape is None else f", dense_shape={self.dense_shape}"
        return f"IndexedSlices(indices={self.indices}, values={self.values}{whole})"

    def __repr__(self) -> str:
        return f"<rows {self.values!r} at {self.indices!r}>"
