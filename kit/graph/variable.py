"""A variable: state on one task, and the ops that initialise, read and change it.

Pure. It lives where it is placed, is found there by container and name, and is shared
by all sessions and clients of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.convert import tensor
from kit.graph.default import default_graph
from kit.graph.dtypes import dtype_of
from kit.graph.graph import Graph
from kit.graph.op import Op, Tensor
from kit.graph.ops.state import state
from kit.graph.ops.state.source import group, identity
from kit.graph.static import is_known, text


class Variable(ArrayProtocol):
    """State that ops read and change; in an expression it stands for its value.

    It has no value until its `initializer` has run. It lives where it is placed, and
    all sessions of the cluster share it.

    Parameters
    ----------
    initial_value : array-like, Tensor or callable
        Its first value, or a function without arguments that returns it.
    trainable : bool, default True
        Whether an optimizer's `minimize` changes it by default.
    name : str, optional
        "Variable" by default. A number is appended if it is taken.
    dtype : dtype, optional
        By default that of the initial value.
    validate_shape : bool, default True
        Whether the shape must be known now, and never change.

    Raises
    ------
    ValueError
        There is no initial value, or its shape is not known.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     with kit.device("/job:ps/task:0"):
    ...         w = kit.Variable([1.0, 2.0], name="w")
    ...     w
    <variable 'w:0' float32[2] on /job:ps/task:0>
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     n = kit.Variable(1.0)
    ...     _ = session.run(n.initializer)
    ...     float(session.run(n.assign_add(2.0)))
    3.0
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        *,
        name: str | None = None,
        dtype: Any = None,
        validate_shape: bool = True,
    ) -> None:
        if initial_value is None:
            raise ValueError("a variable needs an initial value; give an array.")
        self.trainable = trainable
        self._graph = graph = default_graph()
        wanted = None if dtype is None else dtype_of(dtype)
        # Without control dependencies: what a block waits for may need this variable.
        with (
            graph.control_dependencies(None),
            graph.name_scope(name or "Variable") as scope,
        ):
            initial = _initial(initial_value, wanted)
            shape = initial.static.shape
            if validate_shape and not is_known(shape):
                raise ValueError(
                    f"the initial value {initial!r} has a shape that is not known when "
                    f"the line is written; give its shape, or validate_shape=False."
                )
            attrs: dict[str, Any] = {"shape": shape if validate_shape else None}
            op = graph.create(
                "VariableV2", name=scope, dtype=initial.static.dtype, **attrs
            )
            self.op: Op = op
            self.ref: Tensor = op.outputs[0]
            self.initial_value = initial
            self.initializer: Op = state.assign(
                self.ref, initial, validate=validate_shape, name="Assign"
            ).op
            with graph.colocate_with(op):
                self._snapshot = identity(self.ref, name="read")
        graph.variables.append(self)

    def _as_tensor(self) -> Tensor:
        return self._snapshot

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._graph

    @property
    def name(self) -> str:
        """The name of its tensor: `w:0`."""
        return self.ref.name

    @property
    def shape(self) -> Any:
        """Its shape, a tuple."""
        return self.ref.shape

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        return self.ref.dtype

    @property
    def device(self) -> str:
        """Where it lives, as far as that is given."""
        return self.op.device

    def value(self) -> Tensor:
        """Return the value as read where the variable lives."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """Return the value as read by a new op in the current scopes.

        It is read after all that the op waits for, wherever that is placed, and no
        later update changes it.
        """
        return identity(self.ref, name="Read")

    def assign(self, value: Any, *, name: str | None = None) -> Tensor:
        """Return a tensor that sets the variable to `value` when it is computed.

        Parameters
        ----------
        value : array-like or Tensor
            Of the variable's shape and dtype.
        name : str, optional
            The name of the op.

        Returns
        -------
        Tensor
            The new value.
        """
        return state.assign(self.ref, value, name=name)

    def assign_add(self, value: Any, *, name: str | None = None) -> Tensor:
        """Return a tensor that adds to the variable when it is computed.

        Parameters
        ----------
        value, name
            As for `assign`.

        Returns
        -------
        Tensor
            The new value. Several clients may add at once: each sum counts.
        """
        return state.assign_add(self.ref, value, name=name)

    def assign_sub(self, value: Any, *, name: str | None = None) -> Tensor:
        """Return a tensor that subtracts from the variable when it is computed.

        Parameters
        ----------
        value, name
            As for `assign`.

        Returns
        -------
        Tensor
            The new value. Several clients may subtract at once: none is lost.
        """
        return state.assign_sub(self.ref, value, name=name)

    def is_initialized(self) -> Tensor:
        """Return a tensor that is true once the variable has a value."""
        return state.is_initialized(self.ref)

    def __repr__(self) -> str:
        at = f" on {self.device}" if self.device else ""
        kind = f"{self.ref.static.dtype}{text(self.ref.static.shape)}"
        return f"<variable {self.name!r} {kind}{at}>"


def _initial(value: Any | Callable[[], Any], dtype: Any) -> Tensor:
    if callable(value) and not isinstance(value, ArrayProtocol):
        value = value()
    return tensor(value, dtype, name="initial_value")


def initialize_all(variables: list[Variable] | None = None, name: str = "init") -> Op:
    """Return an op that gives variables their initial values.

    Parameters
    ----------
    variables : list of Variable, optional
        By default all of the default graph.
    name : str, default "init"
        The name of the op.
    """
    chosen = default_graph().variables if variables is None else variables
    return group(*[variable.initializer for variable in chosen], name=name)
