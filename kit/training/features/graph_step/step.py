"""A loss and its gradients as a plain local function: the worker's part of a step.

A `GraphStep` is plain data and travels with the job's work. Each worker makes it into a
`CompiledStep`, once: the graph as bound calls over registers, in which parameters and
examples are fed. No op costs a message, and places in the graph mean nothing here,
except that a GPU which was asked for is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from kit.devices.device import DeviceSpec
from kit.errors import InternalError, InvalidArgumentError, PlacementError
from kit.graph.dtypes import Array, DType, dtype_of
from kit.graph.node import Edge, Node, from_plain
from kit.graph.static import Shape, agrees, text
from kit.session.master.devices import Device
from kit.session.master.partition import Segment, TensorMove
from kit.session.worker.program import SegmentProgram
from kit.session.worker.step import SessionKey, Step, Ways
from kit.session.worker.task_runtime import TaskRuntime
from kit.task import Task

# --------------------------------------------------------------------------------------
# The streams of a graph's random ops in a training: fixed by seeds, none shared. Each
# step has its own stream, so a worker that repeats a step, or begins with it, draws the
# same.


_WORD = 2**64 - 1
_SEEDS = "seeds"  # the attribute of an op that draws: two numbers, None if unseeded


def is_random(node: Node) -> bool:
    """Whether an op's only state is its stream of random numbers."""
    return _SEEDS in node.attrs


def seeded(nodes: Sequence[Node], seed: int, rank: int | None = None) -> list[Node]:
    """Return the nodes with seeds for the worker number `rank`.

    Without a rank, for what is computed once for all, an op's own seeds are kept and
    only those that have none get some.
    """
    return [_seeded(node, seed, rank) if is_random(node) else node for node in nodes]


def _seeded(node: Node, seed: int, rank: int | None) -> Node:
    own = node.attrs[_SEEDS]
    if own is not None and rank is None:
        return node
    seeds = _mixed(seed, rank, node.name if own is None else tuple(own))
    return replace(node, attrs={**node.attrs, _SEEDS: seeds})


def stream_of(node: Node, number: int, piece: int = 0) -> np.random.Generator:
    """Return what a seeded op draws from in a mini-batch, or a piece of it."""
    key = [int(seed) & _WORD for seed in node.attrs[_SEEDS]]
    # In the counter's last words: nobody draws so many numbers that they count up.
    bits = np.random.Philox(
        key=np.array(key, np.uint64), counter=np.array([0, 0, piece, number], np.uint64)
    )
    return np.random.Generator(bits)


def _mixed(*parts: object) -> tuple[int, int]:
    """Return two 64-bit numbers that every part decides.

    >>> _mixed(1, 0, "dropout") == _mixed(1, 0, "dropout") != _mixed(1, 1, "dropout")
    True
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


# --------------------------------------------------------------------------------------
# A graph's nodes in the order in which gradients leave: section by section.
#
#     nodes     x  h1  h2  loss  | dh2  dw2 |  dh1  dw1
#     goals                             dw2         dw1, loss


class GraphSection(NamedTuple):
    """Some nodes in their order, what they take, and what is wanted of them."""

    nodes: tuple[Node, ...]
    takes: tuple[Edge, ...]
    goals: tuple[Edge, ...]
    gives: tuple[Edge, ...]
    """The goals first, then what later sections take."""


def cut(
    nodes: Sequence[Node], feeds: Sequence[Edge], goals: Sequence[Sequence[Edge]]
) -> list[GraphSection]:
    """Return one section for each group of goals; `nodes` stand in running order.

    A section holds the nodes that its goals need and that no section before it has.
    """
    by_name = {node.name: node for node in nodes}
    fed, done = set(feeds), set[str]()
    parts: list[list[Node]] = []
    for wanted in goals:
        needed = _needed(by_name, [edge for edge in wanted if edge not in fed], fed)
        parts.append([node for node in nodes if node.name in needed - done])
        done |= needed
    return [_stage(parts, goals, at) for at in range(len(parts))]


def _stage(
    parts: Sequence[Sequence[Node]], goals: Sequence[Sequence[Edge]], at: int
) -> GraphSection:
    own, wanted = parts[at], tuple(dict.fromkeys(goals[at]))
    names = {node.name for node in own}
    outside = [edge for edge in _inputs(own) if edge[0] not in names]
    takes = dict.fromkeys([*outside, *(e for e in wanted if e[0] not in names)])
    later = [*_inputs(node for part in parts[at + 1 :] for node in part)]
    later += [edge for group in goals[at + 1 :] for edge in group]
    kept = [edge for edge in later if edge[0] in names]
    return GraphSection(
        tuple(own), tuple(takes), wanted, tuple(dict.fromkeys([*wanted, *kept]))
    )


def _inputs(nodes: Iterable[Node]) -> list[Edge]:
    return [edge for node in nodes for edge in node.inputs]


def _needed(
    nodes: Mapping[str, Node], wanted: Sequence[Edge], fed: set[Edge]
) -> set[str]:
    names_needed: set[str] = set()
    stack = [name for name, _ in wanted]
    while stack:
        name = stack.pop()
        if name not in names_needed:
            names_needed.add(name)
            node = nodes[name]
            stack += [edge[0] for edge in node.inputs if edge not in fed]
            stack += node.control
    return names_needed


def grouped(sizes: Sequence[int], least: int) -> list[list[int]]:
    """Return the numbers of things of these sizes in groups of at least `least`.

    >>> grouped([10, 90, 10], least=50)
    [[0, 1], [2]]
    """
    groups: list[list[int]] = [[]]
    size = 0
    for number, own in enumerate(sizes):
        if size >= least:
            groups.append([])
            size = 0
        groups[-1].append(number)
        size += own
    return groups


# A shorter stretch of gradients is not worth a separate section.
_STAGE_BYTES = 256 * 1024
_FOREVER_S = 1e9  # nothing in a compiled step waits


class Feed(NamedTuple):
    """A placeholder: which tensor it is, and what may be fed."""

    edge: Edge
    dtype: str
    shape: Shape


class Goal(NamedTuple):
    """A parameter: its name, the variable's tensor, its gradient's and its size."""

    name: str
    variable: Edge
    gradient: Edge
    n_bytes: int


@dataclass(frozen=True)
class GraphStep:
    """What every worker computes, as plain data.

    Attributes:
        nodes, arrays: the graph, in running order (`kit.graph.node.to_plain`).
        feeds: the placeholders, in the order of a batch's arrays.
        goals: the parameters, in their order.
        loss: the tensor whose mean over the split is reported.
        functions: the user's Python functions that ops call, by token. They are the
            one part that is not plain data, and travel as a step function would.
    """

    nodes: Sequence[Any]
    arrays: Sequence[Array]
    feeds: tuple[Feed, ...]
    goals: tuple[Goal, ...]
    loss: Edge
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def for_worker(
        self, task: Task, rank: int, seed: int, *, in_parts: bool
    ) -> Callable[..., Any]:
        """Compile it for one worker, whose random ops have streams of their own.

        `in_parts`: it hands the gradients over one by one, last layers first.
        """
        nodes = seeded(from_plain(self.nodes, self.arrays), seed, rank)
        runtime = TaskRuntime(task)
        for token, function in self.functions.items():
            runtime.add_function(token, function)
        # Between two parts all values are on the host: for a GPU one part is faster.
        on_host = all(_device(node, runtime).type == "CPU" for node in nodes)
        return CompiledStep(
            self, nodes, runtime, in_parts=in_parts and on_host
        ).function


class CompiledStep:
    """A step on one worker: `function(params, batch)`, as `kit.train` takes it.

    It may be given the numbers of mini-batch and piece by name; else it counts its
    calls.
    """

    def __init__(
        self,
        step: GraphStep,
        nodes: Sequence[Node],
        runtime: TaskRuntime,
        *,
        in_parts: bool,
    ) -> None:
        self._feeds, self._goals, self._loss = step.feeds, step.goals, step.loss
        self._random = [node for node in nodes if is_random(node)]
        self._runtime, self._n_calls = runtime, 0
        self._dtypes = [dtype_of(feed.dtype) for feed in step.feeds]
        fed = [*(goal.variable for goal in step.goals), *(f.edge for f in step.feeds)]
        self._fed, self.function = fed, self._in_parts if in_parts else self._at_once
        position = {node.name: number for number, node in enumerate(nodes)}
        # As they become ready: the last layers' gradients are computed first.
        order = sorted(step.goals, key=lambda goal: position.get(goal.gradient[0], -1))
        groups = [order]
        if in_parts:
            numbers = grouped([goal.n_bytes for goal in order], _STAGE_BYTES)
            groups = [[order[number] for number in group] for group in numbers]
        wanted = [[goal.gradient for goal in group] for group in groups]
        wanted[-1].append(step.loss)
        self._sections = [
            _Local(section, runtime) for section in cut(nodes, fed, wanted)
        ]
        self._handed = [[(goal.name, goal.gradient) for goal in g] for g in groups]

    def _at_once(
        self,
        params: Mapping[str, Array],
        batch: Sequence[Any],
        _number: tuple[int, int] | None = None,
    ) -> tuple[Any, dict[str, Array]]:
        """Return the loss and the gradients by name."""
        self._begin(_number)
        values = self._fed_values(params, batch)
        self._sections[0].run(values)
        gradients = {goal.name: values[goal.gradient] for goal in self._goals}
        return values[self._loss], gradients

    def _in_parts(
        self,
        params: Mapping[str, Array],
        batch: Sequence[Any],
        _number: tuple[int, int] | None = None,
    ) -> Generator[tuple[str, Array], None, Any]:
        """Yield (name, gradient) as they are ready; return the loss."""
        self._begin(_number)
        values = self._fed_values(params, batch)
        for section, handed in zip(self._sections, self._handed, strict=True):
            section.run(values)
            for name, edge in handed:
                yield name, values[edge]
        return values[self._loss]

    def _begin(self, numbered: tuple[int, int] | None) -> None:
        number, piece = (self._n_calls, 0) if numbered is None else numbered
        self._n_calls = number + 1
        state = self._runtime.begin_session(_session_of(self._runtime))
        for node in self._random:
            state.put(node.name, stream_of(node, number, piece))

    def _fed_values(
        self, params: Mapping[str, Array], batch: Sequence[Any]
    ) -> dict[Edge, Any]:
        if len(batch) != len(self._feeds):
            raise InvalidArgumentError(
                f"a mini-batch has {len(batch)} arrays, but the loss is fed "
                f"{len(self._feeds)}: {', '.join(f.edge[0] for f in self._feeds)}."
            )
        values = {goal.variable: params[goal.name] for goal in self._goals}
        for feed, dtype, array in zip(self._feeds, self._dtypes, batch, strict=True):
            values[feed.edge] = _checked(feed, dtype, array)
        return values


class _Local:
    """A section as a program of this process."""

    def __init__(self, section: GraphSection, runtime: TaskRuntime) -> None:
        devices = [_device(node, runtime) for node in section.nodes]
        takes, gives = list(section.takes), list(section.gives)
        segment = Segment(list(section.nodes), devices, takes, fetches=gives)
        self._takes, self._gives = section.takes, section.gives
        self._program = SegmentProgram(segment, runtime)
        session = _session_of(runtime)
        self._step = Step(0, session, runtime.task, _NoWays(), _FOREVER_S)
        self._step.session_state = runtime.begin_session(session)

    def run(self, values: dict[Edge, Any]) -> None:
        """Take from `values`, and add what it gives."""
        taken = [values[edge] for edge in self._takes]
        results = self._program.run(self._step, taken)
        values.update(zip(self._gives, results, strict=True))


def _session_of(runtime: TaskRuntime) -> SessionKey:
    return runtime.task, 0


class _NoWays(Ways):
    """All of a compiled step is in one place."""

    def send(self, step: Step, move: TensorMove, value: Any) -> None:
        raise InternalError(f"a compiled step wants to send {move.tensor!r}.")

    def receive(self, step: Step, move: TensorMove) -> Any:
        raise InternalError(f"a compiled step waits for {move.tensor!r}.")


def compute(
    nodes: Sequence[Node], feeds: Mapping[Edge, Any], goals: Sequence[Edge]
) -> list[Any]:
    """Return the values of `goals`, computed here from nodes in running order."""
    values: dict[Edge, Any] = dict(feeds)
    (section,) = cut(nodes, list(feeds), [goals])
    _Local(section, TaskRuntime(Task("localhost", 0))).run(values)
    return [values[edge] for edge in goals]


def _checked(feed: Feed, dtype: DType, array: Any) -> Any:
    if array.dtype != dtype:
        array = np.asarray(array).astype(dtype)
    if not agrees(feed.shape, array.shape):
        raise InvalidArgumentError(
            f"the placeholder {feed.edge[0]!r} has the shape {text(feed.shape)}, but "
            f"a worker's split of the mini-batch has {text(array.shape)}; leave its "
            f"first size open: (None, ...)."
        )
    return array


def _device(node: Node, runtime: TaskRuntime) -> Device:
    """Return the GPU that a node asks for, else the processor."""
    wanted = DeviceSpec.from_string(node.device)
    if wanted.device_type not in (None, "CPU"):
        fitting = [item for item in runtime.devices if item.type == wanted.device_type]
        for device in fitting:
            if wanted.device_index in (None, device.index):
                return device
        names = ", ".join(device.name for device in runtime.devices)
        raise PlacementError(
            f"op {node.name!r} asks for {node.device!r}, but {runtime.task} has only: "
            f"{names}."
        )
    return runtime.devices[0]
