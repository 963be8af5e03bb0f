"""What a stateful op can use when it runs: its task's and session's state, its step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from kit.checkpoint import bundle
from kit.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from kit.graph.dtypes import DType
from kit.graph.node import Node, from_plain
from kit.graph.static import Shape
from kit.session.master.devices import Device
from kit.session.master.partition import Segment
from kit.session.worker import record_files
from kit.session.worker.accumulators import (
    Accumulator,
    DenseAccumulator,
    RowAccumulator,
)
from kit.session.worker.datasets import DatasetIterator
from kit.session.worker.queues import (
    Element,
    FifoQueue,
    PaddingQueue,
    ShuffleQueue,
    stacked,
)
from kit.session.worker.record_files import Reader
from kit.session.worker.state import VariableState
from kit.session.worker.step import Step
from kit.session.worker.task_runtime import TaskRuntime


class StepCall:
    """The call of one node in one step; `xp` is numpy, or cupy on a GPU."""

    # What saves and restores tensors on the disk of this task, and reads its files.
    disk = bundle
    files = record_files
    __slots__ = ("_device", "_make", "_node", "_runtime", "step", "xp")

    def __init__(
        self,
        step: Step,
        runtime: TaskRuntime,
        node: Node,
        xp: ModuleType,
        device: Device,
        make_program: Callable[[Segment, TaskRuntime], Any],
    ) -> None:
        self.step, self.xp = step, xp
        self._make = make_program
        self._runtime, self._node, self._device = runtime, node, device

    @property
    def node(self) -> str:
        """The op's name, for messages."""
        return self._node.name

    @property
    def container(self) -> str:
        """Where shared state of this op lives; '' is the default container."""
        return self._node.container

    def state(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return this op's state on this task, made by `make` at the first use.

        It is found by container and `shared_name` (or the op's name), shared by all
        sessions of the server, and kept until the server ends or the container is
        reset.
        """
        name = self._node.attrs.get("shared_name") or self._node.name
        store = self.step.session_state.store
        return store.find(self._node.container, f"{kind} {name}", make)

    def own(self, make: Callable[[], Any]) -> Any:
        """Return this op's state within this session, made at the first use."""
        return self.step.session_state.own(self._node.name, make)

    def variable(self, shape: Shape, dtype: DType, shared_name: str) -> VariableState:
        """Return the variable that this op stands for; each GPU has its own."""
        name = shared_name or self._node.name
        if self._device.type != "CPU":
            name = f"{name} on {self._device.type}:{self._device.index}"
        store = self.step.session_state.store
        return store.cell(self._node.container, name, shape, dtype)

    def temporary(self, shape: Shape, dtype: DType, var_name: str) -> VariableState:
        """Return a new variable of zeros that ends with the step at the latest.

        Raises `AlreadyExistsError` if the step has one of this name on this device.
        """
        key = f"{self._device.name} {var_name}"
        made = VariableState(var_name, shape, dtype)
        made.assign(self.xp.zeros(shape, dtype))
        if self.step.temporary.setdefault(key, made) is not made:
            raise AlreadyExistsError(
                f"this run has a temporary variable {var_name!r} already; give each a "
                f"var_name of its own."
            )
        return made

    def end_temporary(self, var_name: str) -> None:
        """End a temporary variable; raises `NotFoundError` if there is none."""
        if self.step.temporary.pop(f"{self._device.name} {var_name}", None) is None:
            raise NotFoundError(
                f"this run has no temporary variable {var_name!r}; give the var_name "
                f"that it was made with, and end it once."
            )

    def queue(
        self,
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[Shape] | None,
        shared_name: str,
        *,
        pads: bool = False,
        n_kept: int | None = None,
        seeds: Sequence[int] | None = None,
    ) -> FifoQueue:
        """Return the queue that this op stands for; one with `n_kept` shuffles."""
        name = shared_name or self._node.name
        plain = PaddingQueue if pads else FifoQueue

        def make() -> FifoQueue:
            if n_kept is None:
                return plain(name, capacity, dtypes, shapes)
            draws = seeds or [self.entropy()]
            return ShuffleQueue(name, capacity, dtypes, shapes, n_kept, draws)

        # Without a shared name it belongs to this session alone, as in TensorFlow.
        queue: FifoQueue = self.state("queue", make) if shared_name else self.own(make)
        kind = plain if n_kept is None else ShuffleQueue
        queue.check(kind, capacity, dtypes, shapes)
        return queue

    def reader(self, shared_name: str, settings: dict[str, Any]) -> Reader:
        """Return the reader that this op stands for, made at the first use."""
        name, op_type = shared_name or self._node.name, self._node.type

        def make() -> Reader:
            return Reader(name, partial(record_files.READERS[op_type], **settings))

        reader: Reader = self.state("reader", make) if shared_name else self.own(make)
        return reader

    def accumulator(
        self,
        is_sparse: bool,
        dtype: DType,
        shape: Shape,
        reduction: str,
        shared_name: str,
    ) -> Accumulator:
        """Return the accumulator that this op stands for, made at the first use."""
        name = shared_name or self._node.name
        kind = RowAccumulator if is_sparse else DenseAccumulator

        def make() -> Accumulator:
            return kind(name, dtype, shape, reduction)

        accumulator: Accumulator = (
            self.state("accumulator", make) if shared_name else self.own(make)
        )
        return accumulator

    def iterator(self, shared_name: str, dataset: Any) -> DatasetIterator:
        """Return the iterator that this op stands for, made at the first use."""

        def make() -> DatasetIterator:
            return DatasetIterator(dataset)

        iterator: DatasetIterator = (
            self.state("iterator", make) if shared_name else self.own(make)
        )
        return iterator

    def iterator_handle(self, iterator: DatasetIterator) -> bytes:
        """Return a text by which this session finds an iterator on this task."""
        handle = f"iterator {id(iterator)}"
        self.step.session_state.put(handle, iterator)
        return handle.encode()

    def iterator_of(self, handle: bytes) -> DatasetIterator:
        """Return the iterator of a handle; raises `InvalidArgumentError` for others."""

        def missing() -> DatasetIterator:
            raise InvalidArgumentError(
                f"there is no iterator with the handle {handle!r} in this session on "
                f"this task; feed what session.run(iterator.string_handle()) gave."
            )

        iterator: DatasetIterator = self.step.session_state.own(
            handle.decode(errors="replace"), missing
        )
        if not isinstance(iterator, DatasetIterator):
            missing()
        return iterator

    def program(self, function: Any) -> Any:
        """Return a function of the graph made ready: `run(step, values)` calls it.

        It computes on the device of this op; see `kit.graph.subgraph`.
        """
        nodes = from_plain(function["nodes"], function["arrays"])
        feeds, fetches = (
            [(str(name), int(number)) for name, number in function[key]]
            for key in ("feeds", "fetches")
        )
        devices = [self._device] * len(nodes)
        segment = Segment(nodes, devices, feeds, fetches=fetches)
        return self._make(segment, self._runtime)

    def stacked(self, elements: Sequence[Element], queue: FifoQueue) -> Any:
        """Return elements of a queue as one array for each component."""
        return stacked(elements, queue)

    def wait(
        self, ready: Callable[[], bool], changed: Any, what: Callable[[], str]
    ) -> None:
        """Wait on the condition `changed` (held) until `ready()`.

        `what()` says what has not come. Raises `CancelledError` or
        `DeadlineExceededError` when the step ends before.
        """
        self.step.wait(ready, changed, what)

    def function(self, token: str) -> Callable[..., Any]:
        """Return a Python function that a client registered."""
        return self._runtime.function(token)

    def entropy(self) -> int:
        """Return 128 bits that nobody can predict."""
        return self._runtime.entropy()
