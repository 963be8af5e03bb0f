"""A graph: its ops by name, and the scopes in which new ones are made.

Pure. Scopes hold for the thread or coroutine that entered them: a graph may be built by
one at a time, and run by many.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from kit.devices.device import check_device
from kit.devices.scope import ScopeStack, resolve
from kit.graph.extension_points import Pictured
from kit.graph.op import Guards, Op, Tensor
from kit.graph.table import lookup

# --------------------------------------------------------------------------------------
# Names of ops: which texts are valid, and how a name that is taken gets a number.


_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_SCOPE = re.compile(r"[A-Za-z0-9_.\\/>-]*")


class Names:
    """The names in use. Names that differ only in case count as equal."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def unused(self, base: str, *, take: bool = True) -> str:
        """Return `base`, or `base_1`, `base_2`, ... where it is in use already.

        With `take` False the name stays free.

        >>> names = Names()
        >>> names.unused("a"), names.unused("A"), names.unused("a")
        ('a', 'A_1', 'a_2')
        """
        key = base.lower()
        count = self._taken.get(key, 0)
        # The count is where the search for a free number begins the next time: giving n
        # ops one name takes n steps, not n squared.
        if take:
            self._taken[key] = count + 1
        if not count:
            return base
        candidate = base
        while candidate.lower() in self._taken:
            candidate = f"{base}_{count}"
            count += 1
        if take:
            self._taken[candidate.lower()] = 1
        return candidate


def check_name(name: str, scope: str) -> None:
    """Raise `ValueError` for a text that is not a name of an op below a name scope."""
    pattern = _SCOPE if scope else _NAME
    if not pattern.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a name: use letters, digits and _ . - /, and begin "
            f"with a letter, digit or dot."
        )


# What exists whether or not it is used.
_UNGUARDED = frozenset({"Const", "Placeholder"})

# The default graphs of each thread and coroutine, the innermost last.
default_graphs: ContextVar[tuple[Graph, ...]] = ContextVar("graphs", default=())


@contextmanager
def entered(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the default graph for a block; yields it."""
    token = default_graphs.set((*default_graphs.get(), graph))
    try:
        yield graph
    finally:
        default_graphs.reset(token)


class Graph(Pictured):
    """Ops, in the order in which they were made.

    Attributes
    ----------
    seed : int or None
        The graph's part of the seed of every random op; None if unset.
    variables : list of Variable
        All variables of the graph.
    notes : dict
        What other layers keep about this graph, by key.

    Examples
    --------
    >>> import kit
    >>> graph = kit.Graph()
    >>> with graph.as_default(), graph.device("/job:ps/task:0"):
    ...     w = kit.Variable([0.0, 0.0], name="w")
    >>> graph.op("w")
    <op 'w' VariableV2 on /job:ps/task:0>
    """

    op_class: type[Op] = Op
    tensor_class: type[Tensor] = Tensor

    def __init__(self) -> None:
        self.seed: int | None = None
        self.variables: list[Any] = []
        self.notes: dict[str, Any] = {}
        self._ops: dict[str, Op] = {}
        self._names = Names()
        self._finalized = False
        self._devices = ScopeStack()
        self._scope: ContextVar[str] = ContextVar("scope", default="")
        self._control: ContextVar[tuple[Op, ...]] = ContextVar("control", default=())
        self._anchors: ContextVar[tuple[Op, ...]] = ContextVar("anchors", default=())
        self._guards: ContextVar[Guards] = ContextVar("guards", default=())
        self._container: ContextVar[str] = ContextVar("container", default="")

    def __repr__(self) -> str:
        return f"<graph of {len(self._ops)} ops>"

    @property
    def ops(self) -> list[Op]:
        """All ops, in the order in which they were made."""
        return list(self._ops.values())

    @property
    def version(self) -> int:
        """The number of ops: it grows with each."""
        return len(self._ops)

    def create(
        self,
        op_type: str,
        *inputs: Tensor,
        name: str | None = None,
        device: str | None = None,
        **attrs: Any,
    ) -> Op:
        """Add an op and return it.

        Shapes and dtypes of the outputs are inferred now, so an error has the traceback
        of the line that made the op.

        Parameters
        ----------
        op_type : str
            The name of an entry of the table, such as "MatMul".
        *inputs : Tensor
            Tensors of this graph.
        name : str, optional
            By default the type. A number is appended if it is taken; a name that ends
            in "/" is used as it is, without the slash.
        device : str, optional
            Overrides all device scopes.
        **attrs
            Attributes, as the entry of the table expects them.

        Returns
        -------
        Op

        Raises
        ------
        ValueError, TypeError
            The shapes or dtypes of the inputs do not fit, or the name cannot be one.
        RuntimeError
            The graph is finalized.
        LookupError
            There is no such type.
        """
        self._check_open()
        op_def = lookup(op_type)
        for tensor in inputs:
            self._check_mine(tensor)
        name = op_type if name is None else name
        full = name[:-1] if name.endswith("/") else self.unique_name(name)
        if full in self._ops:
            raise ValueError(f"Duplicate node name in graph: {full!r}.")
        control = self._control_for(inputs)
        # Here shapes are inferred. An op that is refused leaves only its name used up.
        op = self.op_class(self, full, op_def, inputs, attrs, control, _source_line())
        op.container = self._container.get()
        if op_def.name not in _UNGUARDED and not op_def.gives_ref:
            op.guards = self._guards.get()
        op.number = len(self._ops)
        self._put(op, device)
        self._ops[full] = op
        return op

    def op(self, name: str) -> Op:
        """Return an op by its name.

        Parameters
        ----------
        name : str
            Such as "model/add".

        Raises
        ------
        KeyError
            The graph has no such op.
        """
        return self._ops[name]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor by its name.

        Parameters
        ----------
        name : str
            The op's name and the number of the output, such as "add:0".

        Raises
        ------
        ValueError
            The text is not such a name.
        KeyError
            The graph has no such op or output.
        """
        op_name, colon, index = name.rpartition(":")
        if not colon or not index.isdigit():
            raise ValueError(
                f"{name!r} does not name a tensor; write the op's name, a colon and "
                f"the number of the output: 'add:0'."
            )
        outputs = self._ops[op_name].outputs
        if int(index) >= len(outputs):
            raise KeyError(
                f"{name!r}: op {op_name!r} has {len(outputs)} outputs, counted from 0."
            )
        tensor: Tensor = outputs[int(index)]
        return tensor

    def unique_name(self, name: str, *, taken: bool = True) -> str:
        """Return a name that no op has, below the current name scope.

        Parameters
        ----------
        name : str
            A number is appended if it is taken. Names that differ only in case count as
            equal.
        taken : bool, default True
            Whether the name counts as taken from now on.
        """
        scope = self._scope.get()
        check_name(name, scope)
        return self._names.unused(f"{scope}/{name}" if scope else name, take=taken)

    def take_name(self, name: str) -> None:
        """Count a whole name as taken from now on."""
        self._names.unused(name)

    @property
    def scope(self) -> str:
        """The current name scope, without a slash at its end."""
        return self._scope.get()

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Put the names of new ops below `name`; see `kit.name_scope`."""
        if not name:
            full = ""
        elif name.endswith("/"):
            full = name[:-1]
        else:
            full = self.unique_name(name)
        token = self._scope.set(full)
        try:
            yield f"{full}/" if name else ""
        finally:
            self._scope.reset(token)

    def gradient_scope(self, op: Op) -> AbstractContextManager[Any]:
        """Put the names of the ops of one op's gradient below `<op>_grad`."""
        return self.name_scope(f"{op.name}_grad")

    def device(self, scope: Any) -> AbstractContextManager[None]:
        """Place the ops that are made in this scope; see `kit.device`."""
        return self._devices.push(scope)

    @contextmanager
    def control_dependencies(self, ops: Sequence[Any] | None) -> Iterator[None]:
        """Make new ops run after `ops`; see `kit.control_dependencies`."""
        if ops is None:
            wanted: tuple[Op, ...] = ()
        else:
            wanted = (*self._control.get(), *(self.as_op(op) for op in ops))
        token = self._control.set(tuple(dict.fromkeys(wanted)))
        try:
            yield
        finally:
            self._control.reset(token)

    @property
    def guards(self) -> Guards:
        """On what new ops depend to run at all."""
        return self._guards.get()

    @contextmanager
    def guarded(self, guards: Guards) -> Iterator[None]:
        """Let new ops run only if tensors of a bool have these values.

        These take the place of those of scopes outside. A result of such an op may be
        used by ops with the same guards, and by a `Merge`.
        """
        token = self._guards.set(guards)
        try:
            yield
        finally:
            self._guards.reset(token)

    @contextmanager
    def colocate_with(
        self, anchor: Any, ignore_existing: bool = False
    ) -> Iterator[None]:
        """Put new ops where `anchor` is; see `kit.colocate_with`.

        Scopes inside it place ops if their anchor has no device.
        """
        if anchor is None and not ignore_existing:
            raise ValueError(
                "colocate_with(None) makes sense only with ignore_existing=True, which "
                "leaves all scopes."
            )
        outer = () if ignore_existing else self._anchors.get()
        anchors = outer if anchor is None else (*outer, self.as_op(anchor))
        token = self._anchors.set(anchors)
        try:
            with self._devices.replaced(()):
                yield
        finally:
            self._anchors.reset(token)

    @contextmanager
    def in_container(self, name: str) -> Iterator[None]:
        """Keep the state of new stateful ops in a container of this name."""
        token = self._container.set(name)
        try:
            yield
        finally:
            self._container.reset(token)

    def as_default(self) -> AbstractContextManager[Graph]:
        """Return a context manager in which new ops enter this graph.

        Examples
        --------
        >>> import kit
        >>> graph = kit.Graph()
        >>> with graph.as_default():
        ...     kit.constant(1.0).graph is graph
        True
        """
        return entered(self)

    def finalize(self) -> None:
        """Refuse all further ops; the graph can still be run."""
        self._finalized = True

    @property
    def is_finalized(self) -> bool:
        """Whether it refuses further ops."""
        return self._finalized

    def as_op(self, x: Any) -> Op:
        """Return the op of this graph that an op, a tensor or a variable stands for."""
        op = x if isinstance(x, Op) else getattr(x, "op", None)
        if not isinstance(op, Op):
            raise TypeError(f"{x!r} is neither an op nor a tensor.")
        if op.graph is not self:
            raise ValueError(f"{op.name!r} belongs to another graph.")
        return op

    def _check_mine(self, tensor: Tensor) -> None:
        if tensor.graph is not self:
            raise ValueError(
                f"{tensor.name!r} belongs to another graph; all tensors of an op must "
                f"be of one graph."
            )

    def _check_open(self) -> None:
        if self._finalized:
            raise RuntimeError(
                "the graph is finalized and cannot be changed; make the op before "
                "finalize()."
            )

    def _control_for(self, inputs: Sequence[Tensor]) -> list[Op]:
        direct = {tensor.op for tensor in inputs}
        return [op for op in self._control.get() if op not in direct]

    def _put(self, op: Op, device: str | None) -> None:
        anchors = self._anchors.get()
        if device is not None:
            op.device = device
        else:
            resolve(op, self._devices.entries())
            check_device(op.device)
            # The innermost anchor with a device wins over scopes opened inside it.
            placed = (anchor.device for anchor in reversed(anchors) if anchor.device)
            op.device = next(placed, op.device)
        # A group is known by its first op: what joins a later member joins that one.
        own = {
            name for anchor in anchors for name in (anchor.colocation or (anchor.name,))
        }
        op.colocation = tuple(sorted(own))


def _source_line() -> str:
    """Return file and line outside of this package that made the op."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("kit.") and module != "kit":
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
