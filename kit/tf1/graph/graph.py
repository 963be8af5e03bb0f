"""The original's `Graph`, and which graph is the default.

`kit.graph` does the work; added here are collections, lookups by name, and the rule
that an op need not wait for what its inputs have waited for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from kit.graph.graph import Graph as NativeGraph
from kit.graph.graph import entered
from kit.graph.op import Op
from kit.graph.op import Tensor as NativeTensor
from kit.tf1.graph.graph_def import GraphDef, VersionDef, graph_def_of, versions
from kit.tf1.graph.operation import Operation
from kit.tf1.graph.stack import DefaultStack
from kit.tf1.tensor.dtypes import as_dtype
from kit.tf1.tensor.tensor import Tensor

# --------------------------------------------------------------------------------------
# The original's names for the operations of a gradient, by type: in the gradients of
# all operations, and of some.


_ALWAYS: Final = {"SumLike": "Reshape", "ReshapeLike": "Reshape"}

_NAMES: Final[dict[str, dict[str, str]]] = {
    **{name: {"Mul": "mul"} for name in ("Abs", "Exp", "Expm1", "Sin", "L2Loss")},
    **{name: {"Mul": "mul"} for name in ("Max", "Min", "Pow", "SquaredDifference")},
    **{name: {"RealDiv": "mul"} for name in ("Log", "Log1p")},
    **{name: {"Select": "SelectV2"} for name in ("Maximum", "Minimum")},
    **{name: {"ConcatV2": "concat"} for name in ("Split", "SplitV")},
    "Cos": {"Mul": "Neg", "Neg": "mul"},
    "LogSoftmax": {"Sub": "sub"},
    "Mean": {"Spread": "truediv"},
    "MirrorPad": {"PadGrad": "MirrorPadGrad"},
    "Pack": {"Unpack": "unstack"},
    "Pad": {"PadGrad": "Slice_1"},
    "Prod": {"Mul": "Reshape_4"},
    "Reciprocal": {"MulNoNan": "ReciprocalGrad"},
    "Rsqrt": {"MulNoNan": "RsqrtGrad"},
    "Sign": {"ZerosLike": "zeros_like"},
    "Slice": {"PlaceAt": "Pad"},
    "Softplus": {"SoftplusGrad": "mul"},
    "SparseSoftmaxCrossEntropyWithLogits": {"ScaleRows": "mul"},
    "Sqrt": {"MulNoNan": "SqrtGrad"},
    "Softmax": {"Mul": "mul"},
    "Sum": {"Spread": "Tile"},
    "Tile": {"SumOfTiles": "Sum"},
    "Transpose": {"Transpose": "transpose"},
    "Unpack": {"Pack": "stack"},
}


class _Controller:
    """One block of control dependencies, and the operations made in it so far."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops, self.seen = tuple(ops), set[Op]()


class Graph(NativeGraph):
    """Operations, in the order in which they were made."""

    op_class = Operation
    tensor_class = Tensor

    def __init__(self) -> None:
        super().__init__()
        self._called: ContextVar[Mapping[str, str] | None] = ContextVar(
            "called", default=None
        )
        self._unfetchable: set[Op] = set()
        self._unfeedable: set[Any] = set()
        self._controllers: ContextVar[tuple[_Controller, ...]] = ContextVar(
            "controllers", default=()
        )
        # Under the original's private name: programs move variables through it.
        self._collections: dict[Any, list[Any]] = {}

    @property
    def collections(self) -> list[Any]:
        """The names of all collections."""
        return list(self._collections)

    def get_all_collection_keys(self) -> list[Any]:
        """Return the names of all collections that are names."""
        return [
            collection
            for collection in self._collections
            if isinstance(collection, str)
        ]

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Add a value to a collection; raises `RuntimeError` in a finalized graph."""
        self._check_open()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Add a value to several collections, once to each."""
        chosen = [names] if isinstance(names, str) else dict.fromkeys(names)
        for name in chosen:
            self.add_to_collection(name, value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """Return a copy of a collection.

        With `scope`, a regular expression, only what has a name that begins like that.
        """
        items = self._collections.get(name, [])
        if scope is None:
            return list(items)
        begin = re.compile(scope).match
        return [item for item in items if hasattr(item, "name") and begin(item.name)]

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Return the collection itself, not a copy."""
        return self._collections.setdefault(name, [])

    def clear_collection(self, name: Any) -> None:
        """Empty a collection."""
        self._check_open()
        self._collections.pop(name, None)

    def create(
        self,
        op_type: str,
        *inputs: NativeTensor,
        name: str | None = None,
        device: str | None = None,
        **attrs: Any,
    ) -> Op:
        """Add an operation; see `kit.graph.Graph.create`. An empty name is refused."""
        if name == "":
            raise ValueError("'' is not a valid node name")
        name = name.decode() if isinstance(name, bytes) else name
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of an operation is a string, not {name!r}.")
        name = name or (self._called.get() or {}).get(op_type)
        op = super().create(op_type, *inputs, name=name, device=device, **attrs)
        for controller in self._controllers.get():
            controller.seen.add(op)
        return op

    def create_op(
        self,
        op_type: str,
        inputs: Any,
        dtypes: Any = None,
        input_types: Any = None,
        name: str | None = None,
        attrs: Any = None,
        op_def: Any = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Op:
        """Add an operation by its type, with the attributes of ours, and return it.

        Raises `LookupError` for a type that the table does not have, `TypeError` if its
        outputs are not of `dtypes`.
        """
        op = self.create(op_type, *inputs, name=name, **dict(attrs or {}))
        dtypes_made = [output.dtype.base_dtype for output in op.outputs]
        if dtypes is not None and dtypes_made != [
            as_dtype(dtype).base_dtype for dtype in dtypes
        ]:
            raise TypeError(f"{op_type} gives {dtypes_made}, not {list(dtypes)}.")
        return op

    def switch_to_thread_local(self) -> None:
        """Do nothing: scopes of devices, names and controls are of one thread here."""

    @contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Make new operations run after `control_inputs`; None clears outer ones."""
        if control_inputs is None:
            controllers: tuple[_Controller, ...] = ()
        else:
            ops = [
                self.as_op(self._named(control_input))
                for control_input in control_inputs
            ]
            controllers = (*self._controllers.get(), _Controller(ops))
        token = self._controllers.set(controllers)
        # Without control inputs means outside of all branches too, as in the original.
        guards = () if control_inputs is None else self.guards
        try:
            with self.guarded(guards):
                yield
        finally:
            self._controllers.reset(token)

    def _named(self, value: Any) -> Any:
        is_one = isinstance(value, Op | NativeTensor) or hasattr(value, "op")
        return value if is_one else self.as_graph_element(value)

    def _control_for(self, inputs: Sequence[NativeTensor]) -> list[Op]:
        direct = {tensor.op for tensor in inputs}
        wanted: dict[Op, None] = {}
        for controller in self._controllers.get():
            # An input that was made in the block has waited already.
            if not direct & controller.seen:
                wanted.update(
                    dict.fromkeys(op for op in controller.ops if op not in direct)
                )
        return list(wanted)

    def variable_scopes(self) -> AbstractContextManager[None]:
        """Apply device scopes from outside a colocation too, as variables do."""
        return self._devices.replaced(self._devices.hidden())

    @contextmanager
    def gradient_scope(self, op: Op) -> Iterator[None]:
        """Name new operations as the original does in the gradient of one."""
        token = self._called.set({**_ALWAYS, **_NAMES.get(op.op_def.name, {})})
        try:
            with super().gradient_scope(op):
                yield
        finally:
            self._called.reset(token)

    def as_default(self) -> AbstractContextManager[Graph]:
        """Make this the default graph of this thread."""
        return self._as_default()

    @contextmanager
    def _as_default(self) -> Iterator[Graph]:
        # On both stacks: the thread's, which `kit.tf1` asks, and that of `kit.graph`,
        # whose builders make some of the operations.
        with graphs.installed(self), entered(self):
            yield self

    def _install(self) -> None:
        """Make this the default graph until `_uninstall`, not nested with others."""
        graphs.push(self)

    def _uninstall(self) -> None:
        graphs.remove(self)

    # -- what it consists of -----------------------------------------------------------

    def get_operations(self) -> list[Op]:
        """Return all operations in the order in which they were made."""
        return self.ops

    def get_operation_by_name(self, name: Any) -> Op:
        """Return an operation by name; raises `KeyError`, `ValueError`, `TypeError`."""
        self._check_text(name, "operation")
        op = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(op, Op)
        return op

    def get_tensor_by_name(self, name: Any) -> Any:
        """Return a tensor by name; raises `KeyError`, `ValueError`, `TypeError`."""
        self._check_text(name, "tensor")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Any:
        """Return the tensor or operation that an object or a name stands for.

        Raises `KeyError` for a name that is not there, `ValueError` for a name of the
        wrong kind and for what is of another graph, `TypeError` for anything else.
        """
        if isinstance(obj, str | bytes):
            name = obj.decode() if isinstance(obj, bytes) else obj
            return self._by_name(name, allow_tensor, allow_operation)
        convert = getattr(obj, "_as_graph_element", None)
        element: Any = obj if convert is None else convert()
        if isinstance(element, str):
            return self._by_name(element, allow_tensor, allow_operation)
        kinds: Any = (*(NativeTensor,) * allow_tensor, *(Op,) * allow_operation)
        if not isinstance(element, kinds):
            raise TypeError(
                f"Can not convert a {type(obj).__name__} into a "
                f"{_wanted(allow_tensor, allow_operation)}."
            )
        if element.graph is not self:
            raise ValueError(f"{element!r} is not an element of this graph.")
        return element

    def _by_name(self, name: str, allow_tensor: bool, allow_operation: bool) -> Any:
        if ":" in name and allow_tensor:
            return self.tensor(name)
        if ":" in name or not allow_operation:
            raise ValueError(
                f"The name {name!r} does not refer to a "
                f"{_wanted(allow_tensor, allow_operation)}; a tensor is written "
                f"'add:0', an operation 'add'."
            )
        if name not in self._ops:
            raise KeyError(f"The graph has no operation {name!r}.")
        return self.op(name)

    @staticmethod
    def _check_text(name: Any, what: str) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"The name of a {what} is a string, not {name!r} of type "
                f"{type(name).__name__}."
            )

    def as_graph_def(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> GraphDef:
        """Return all operations as a message, whatever `from_version` is.

        With `add_shapes` the shapes of the outputs are attributes too.
        """
        return graph_def_of(self.ops, add_shapes)

    @property
    def graph_def_versions(self) -> VersionDef:
        """What the graph's message says about who wrote it."""
        return versions()

    @property
    def building_function(self) -> bool:
        """Whether it is the body of a function: never."""
        return False

    @property
    def finalized(self) -> bool:
        """Whether it refuses further operations."""
        return self.is_finalized

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def unique_name(self, name: str, mark_as_used: bool = True, **_: Any) -> str:
        """Return a name that no operation has, below the current name scope."""
        return super().unique_name(name, taken=mark_as_used)

    def get_name_scope(self) -> str:
        """Return the current name scope, without a slash at its end."""
        return self.scope

    def container(self, container_name: str) -> AbstractContextManager[None]:
        """Keep the state of new stateful operations in a container of this name."""
        return self.in_container(container_name)

    # -- what may be fetched and fed ---------------------------------------------------

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Whether it may be fetched: everything, unless it was prevented."""
        return getattr(tensor_or_op, "op", tensor_or_op) not in self._unfetchable

    def prevent_fetching(self, op: Any) -> None:
        """Refuse all further fetches of an operation and its outputs."""
        self._unfetchable.add(getattr(op, "op", op))

    def is_feedable(self, tensor: Any) -> bool:
        """Whether it may be fed: everything, unless it was prevented."""
        return tensor not in self._unfeedable

    def prevent_feeding(self, tensor: Any) -> None:
        """Refuse all further feeds of a tensor."""
        self._unfeedable.add(tensor)


def _wanted(allow_tensor: bool, allow_operation: bool) -> str:
    words = ["Tensor"] * allow_tensor + ["Operation"] * allow_operation
    return " or ".join(words)


class _Root(threading.local):
    graph: Graph | None = None


graphs: DefaultStack[Graph] = DefaultStack()
_root = _Root()


def get_default_graph() -> Graph:
    """Return the graph that new operations of this thread enter.

    It is that of the innermost `as_default`, or one that the thread has for itself.
    """
    top = graphs.top()
    if top is not None:
        return top
    if _root.graph is None:
        _root.graph = Graph()
    return _root.graph


def reset_default_graph() -> None:
    """Give the thread a new default graph.

    Raises `AssertionError`, as the original does, inside of `graph.as_default()`.
    """
    if not graphs.is_empty:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. Leave "
            "as_default() first."
        )
    _root.graph = Graph()


# --------------------------------------------------------------------------------------
# Switches between the original's first and second version: this is the first, so that a
# program that begins with `tf.disable_v2_behavior()` works unchanged.


def disable_v2_behavior() -> None:
    """Do nothing: graphs are built, and run in sessions, in any case."""


def disable_eager_execution() -> None:
    """Do nothing: a line builds a graph in any case."""


def executing_eagerly() -> bool:
    """Return False: a line builds a graph, and nothing is computed yet."""
    return False
