"""`tf.Variable`: state on a task, with the original's names and methods.

A variable has one copy, on its task: of options about several copies only what they say
about training counts, as in the original without a distribution strategy.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from kit.graph.op import IndexedSlices
from kit.graph.static import is_known
from kit.graph.variable import Variable as NativeVariable
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.graph.message import CheckedMessage
from kit.tf1.session.running import session_for
from kit.tf1.signature import with_options
from kit.tf1.tensor.convert import convert_to_tensor, create
from kit.tf1.tensor.dtypes import as_dtype
from kit.tf1.tensor.operator_table import Operators
from kit.tf1.tensor.shape import TensorShape, static_of
from kit.tf1.tensor.tensor import Reference, Tensor
from kit.tf1.variables import assigning


class VariableSynchronization(enum.Enum):
    """When the copies of a variable are synchronised; ON_READ is not trained."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How changes of several copies are combined; without effect here."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


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


class SaveSliceInfoDef(CheckedMessage):
    """Which part of a whole a variable is."""

    full_name: str
    full_shape: list[int]
    var_offset: list[int]
    var_shape: list[int]


class VariableDef(CheckedMessage):
    """The names of a variable's operations, and how it is used."""

    variable_name: str
    initial_value_name: str
    initializer_name: str
    snapshot_name: str
    save_slice_info_def: SaveSliceInfoDef
    trainable: bool
    synchronization: int
    aggregation: int


def _scattering(op_type: str, doc: str) -> Callable[..., Any]:
    def method(
        self: Any,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Any:
        rows = sparse_delta
        if not isinstance(rows, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {rows!r}")
        return assigning.scatter(op_type, self, rows.indices, rows.values, name)

    method.__doc__ = f"Return a tensor that {doc} when it is run: the new value."
    return method


class Variable(Operators, NativeVariable):
    """State that outlives runs and sessions; in an expression it stands for its value.

    It lives where its operation is placed and is shared, by its name there, with all
    sessions and clients of the cluster. It has no value until its initializer ran.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: Any = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        """Add the variable and its operations to the default graph.

        `initial_value` is anything that can be a tensor, or a function that returns it.
        Raises `ValueError` without one, for one of an unknown shape (unless
        `validate_shape` is False), and for `collections` that are not a list.
        `caching_device` is where its value is read: once a run for all that use it.
        """
        if variable_def is not None:
            self._read(variable_def, initial_value, import_scope)
            return
        keys = _collections(collections)
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        self.synchronization = _mode(VariableSynchronization, synchronization)
        self.aggregation = _mode(VariableAggregation, aggregation)
        if trainable is None:
            trainable = self.synchronization != VariableSynchronization.ON_READ
        self.trainable, self.constraint = bool(trainable), constraint
        self._graph: Graph = get_default_graph()
        self._save_slice_info: Any = None
        wanted = None if dtype is None else as_dtype(dtype).base_dtype
        graph = self._graph
        # Without control dependencies: what a block waits for may need this variable.
        with (
            graph.as_default(),
            graph.control_dependencies(None),
            graph.variable_scopes(),
            graph.name_scope("Variable" if name is None else name) as scope,
        ):
            self._build(scope, initial_value, wanted, validate_shape, shape)
            scope_context = (
                graph.colocate_with(self.op)
                if caching_device is None
                else graph.device(caching_device)
            )
            with scope_context:
                self._snapshot = create("Identity", self.ref, name="read")
        if self.trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys = [*keys, GraphKeys.TRAINABLE_VARIABLES]
        graph.add_to_collections(keys, self)
        graph.variables.append(self)

    def _build(
        self, scope: str, value: Any, dtype: Any, validate: bool, wanted: Any
    ) -> None:
        graph = self._graph
        initial = _initial(graph, scope[:-1], value, dtype)
        shape = initial.static.shape
        if validate and not is_known(shape):
            raise ValueError(
                f"initial_value must have a shape specified: {initial}; give its "
                f"shape, or validate_shape=False."
            )
        self.op = graph.create(
            "VariableV2",
            name=scope,
            shape=static_of(shape if wanted is None else wanted) if validate else None,
            dtype=initial.static.dtype,
        )
        self.ref: Tensor = self.op.outputs[0]
        self._initial_value = initial
        others = {var.op: var._safe_initial_value for var in graph.variables}
        self._safe_initial_value = assigning.from_initial_values(initial, others)
        self.initializer = assigning.assign(
            self.ref, self._safe_initial_value, validate_shape=validate
        ).op

    def _read(
        self, definition: VariableDef, initial_value: Any, scope: str | None
    ) -> None:
        """Take over the operations, in the default graph, that a message names."""
        if initial_value is not None:
            raise ValueError("variable_def and initial_value are mutually exclusive.")
        if not isinstance(definition, VariableDef):
            raise TypeError(f"variable_def must be a VariableDef, not {definition!r}.")
        self._graph = graph = get_default_graph()

        def find(name: str) -> Any:
            return graph.as_graph_element(f"{scope}/{name}" if scope else name)

        self.ref = find(definition.variable_name)
        self.op, self.initializer = self.ref.op, find(definition.initializer_name)
        self._snapshot = find(definition.snapshot_name)
        initial: Any = self.initializer.inputs[1]
        self._safe_initial_value = initial
        self._initial_value = find(definition.initial_value_name)
        self.trainable, self.constraint = definition.trainable, None
        self.synchronization = VariableSynchronization(definition.synchronization)
        self.aggregation = VariableAggregation(definition.aggregation)
        part = definition.save_slice_info_def
        names = ("full_shape", "var_offset", "var_shape")
        whole = f"{scope}/{part.full_name}" if scope else part.full_name
        self._save_slice_info = (
            SaveSliceInfo(whole, *[getattr(part, name) for name in names])
            if part.full_name
            else None
        )

    # -- as a message ------------------------------------------------------------------

    def to_proto(self, export_scope: str | None = None) -> VariableDef | None:
        """Return it as a message; None if it is not below `export_scope`."""
        begin = f"{export_scope}/" if export_scope else ""
        if not self.name.startswith(begin):
            return None
        made = VariableDef(
            variable_name=self.name.removeprefix(begin),
            initial_value_name=self._initial_value.name.removeprefix(begin),
            initializer_name=self.initializer.name.removeprefix(begin),
            snapshot_name=self._snapshot.name.removeprefix(begin),
            trainable=self.trainable,
            synchronization=self.synchronization.value,
            aggregation=self.aggregation.value,
        )
        if self._save_slice_info is not None:
            part = self._save_slice_info._asdict()
            part["full_name"] = part["full_name"].removeprefix(begin)
            made.save_slice_info_def.CopyFrom(SaveSliceInfoDef(**part))
        return made

    @classmethod
    def from_proto(
        cls, variable_def: VariableDef, import_scope: str | None = None
    ) -> Variable:
        """Return the variable that a message describes, in the default graph."""
        return cls(variable_def=variable_def, import_scope=import_scope)

    # -- what it is --------------------------------------------------------------------

    @property
    def initial_value(self) -> Any:
        """The tensor that its initializer assigns."""
        return self._initial_value

    @initial_value.setter
    def initial_value(self, value: Any) -> None:
        self._initial_value = value

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._graph

    @property
    def dtype(self) -> Any:
        """The type of a reference to its elements: `float32_ref`."""
        return self.ref.dtype

    @property
    def shape(self) -> TensorShape:
        """Its shape."""
        return self.ref.shape

    def get_shape(self) -> TensorShape:
        """Return its shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Add to what the graph has inferred about the shape."""
        self.ref.set_shape(shape)
        self.value().set_shape(shape)

    @property
    def _shared_name(self) -> str:
        return self.op.name

    def _ref(self) -> Tensor:
        return self.ref

    def _as_graph_element(self) -> Tensor:
        return self.ref

    # -- its value ---------------------------------------------------------------------

    def value(self) -> Any:
        """Return the value as read where the variable lives."""
        return self._snapshot

    def read_value(self) -> Any:
        """Return the value as read by a new operation in the current scopes."""
        with self._graph.as_default():
            return create("Identity", self.ref, name="read")

    def initialized_value(self) -> Any:
        """Return the value, or the initial value while there is none."""
        return assigning.value_or(self.ref, self._safe_initial_value)

    def experimental_ref(self) -> Reference:
        """Return a key for dictionaries and sets, whose `deref()` is the variable."""
        return Reference(self)

    def eval(self, session: Any = None) -> Any:
        """Return the value, computed by `session` or the default one."""
        return session_for(self, session, "eval").run(self.ref)

    def load(self, value: Any, session: Any = None) -> None:
        """Set the value to one from this process, by `session` or the default one."""
        chosen = session_for(self, session, "load")
        chosen.run(self.initializer, {self.initializer.inputs[1]: value})

    # -- its changes -------------------------------------------------------------------

    @with_options(assigning.ChangeOptions)
    def assign(self, value: Any, options: Any) -> Any:
        """Return a tensor that sets the variable when it is run: the new value."""
        return options.made(assigning.assign, self.ref, value)

    @with_options(assigning.ChangeOptions)
    def assign_add(self, delta: Any, options: Any) -> Any:
        """Return a tensor that adds to the variable when it is run: the new value."""
        return options.made(assigning.assign_add, self.ref, delta)

    @with_options(assigning.ChangeOptions)
    def assign_sub(self, delta: Any, options: Any) -> Any:
        """Return a tensor that subtracts from it when it is run: the new value."""
        return options.made(assigning.assign_sub, self.ref, delta)

    def count_up_to(self, limit: int) -> Any:
        """Return a tensor that adds 1 when it is run; see `tf.count_up_to`."""
        return assigning.count_up_to(self, limit)

    def is_initialized(self, name: str | None = None) -> Any:
        """Return whether it has a value."""
        return assigning.is_variable_initialized(self, name)

    scatter_add = _scattering("ScatterAdd", "adds rows to it")
    scatter_sub = _scattering("ScatterSub", "subtracts rows")
    scatter_update = _scattering("ScatterUpdate", "sets rows")

    def __bool__(self) -> bool:  # type: ignore[override]
        # As an object, not as a value: programs write `variable or default`.
        return True

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError("'Variable' object is not iterable.")

    def __repr__(self) -> str:
        return f"<tf.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}>"


def _mode(kind: type[enum.Enum], value: Any) -> Any:
    """Return one of the modes; None is the usual one.

    Raises `ValueError` for what is none of them.
    """
    try:
        return kind(0 if value is None else value)
    except ValueError as exc:
        what = kind.__name__.removeprefix("Variable").lower()
        names = ", ".join(mode.name for mode in kind)
        raise ValueError(
            f"Invalid variable {what} mode: {value!r}; the modes are {names}."
        ) from exc


def _collections(keys: Any) -> list[Any]:
    if keys is None:
        return [GraphKeys.GLOBAL_VARIABLES]
    if not isinstance(keys, list | tuple | set):
        raise ValueError(
            f"collections argument to Variable constructor must be a list, tuple, or "
            f"set, not {keys!r} of type {type(keys).__name__}."
        )
    return list(keys)


def _initial(graph: Graph, name: str, value: Any, dtype: Any) -> Any:
    if not callable(value):
        return convert_to_tensor(value, dtype, name="initial_value")
    before = graph.version
    with graph.name_scope("Initializer"), graph.device(None):
        made = convert_to_tensor(value(), dtype, name="initial_value")
    # These are made before the variable, and live where it will.
    for op in graph.ops[before:]:
        op.colocation = tuple(sorted({*op.colocation, name}))
    return made
