"""A graph with state gives the same values however its ops are placed.

What is expected comes from `Model`, which does the drawn actions one after the other on
plain Python numbers. In the graph each action waits for those before it that used the
same variable, queue or accumulator, so there is one order that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import FailedPreconditionError
from kit.graph.convert import make, make_op, tensor
from kit.graph.default import default_graph
from kit.graph.graph import Graph
from kit.graph.node import node_of
from kit.graph.op import Op, Tensor
from kit.graph.ops.math.cast import cast
from kit.graph.ops.state.source import constant
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.session.master.devices import Device, place_nodes
from kit.session.master.partition import DONE
from kit.session.master.plan import RunSignature, make_plan
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from tests.session.scene import (
    PS,
    W0,
    W1,
    at,
    in_thread,
    until_it_waits,
    variable,
    waits_for_ever,
)

T = TypeVar("T")

TASKS = (PS, W0, W1)
DTYPE, SIZE = np.dtype("int64"), 97
N_EACH = 2  # variables, queues and accumulators
QUEUE: dict[str, Any] = {"dtypes": [DTYPE], "shapes": [()]}
SUM: dict[str, Any] = {"dtype": np.dtype("float64"), "shape": ()}


class Action(NamedTuple):
    """One op of a drawn graph: `a` and `b` choose tensors, `target` what it acts on."""

    kind: str
    target: int
    a: int
    b: int
    task: int
    wait: int


# What an action does to what it acts on: it looks at it, or changes it.
LOOKS = {"read": "v", "use": "v", "mixed": "v", "size": "q", "count": "s"}
CHANGES = {"set": "v", "add": "v", "put": "q", "take": "q", "apply": "s", "mean": "s"}
# Reading and changing variables is what most can go wrong in.
KINDS = ["read", "add", "use", "mixed", "set", "read", "add", "sum", *LOOKS, *CHANGES]
NUMBERS = st.integers(0, 50)
ACTIONS = st.lists(
    st.builds(
        Action,
        *(st.sampled_from(KINDS), st.integers(0, N_EACH - 1)),
        *(NUMBERS, NUMBERS, st.integers(0, 2), NUMBERS),
    ),
    min_size=6,
    max_size=20,
)


class Drawn:
    """The actions that can be done, and what each waits for, by number.

    A queue or accumulator is not asked for what it has not: such actions are left out.
    """

    def __init__(self, actions: list[Action]) -> None:
        self.actions: list[Action] = []
        self.before: list[list[int]] = []
        self._changed: dict[tuple[str, int], int] = {}
        self._looked: dict[tuple[str, int], list[int]] = {}
        self._n_there: dict[tuple[str, int], int] = {}
        for action in actions:
            self._add(action)

    def _add(self, action: Action) -> None:
        what = LOOKS.get(action.kind, CHANGES.get(action.kind, "")), action.target
        n_there = self._n_there.get(what, 0)
        if action.kind in ("take", "mean") and not n_there:
            return
        left = {"put": n_there + 1, "apply": n_there + 1, "take": n_there - 1}
        self._n_there[what] = left.get(
            action.kind, 0 if action.kind == "mean" else n_there
        )
        number = len(self.actions)
        self.actions.append(action)
        last = self._changed.get(what)
        before = [] if last is None else [last]
        if action.kind in CHANGES:
            before += self._looked.pop(what, [])
            self._changed[what] = number
        elif action.kind in LOOKS:
            self._looked.setdefault(what, []).append(number)
        if number and action.wait % 3 == 0:
            before.append(action.wait % number)
        self.before.append(before)

    def needed(self, wanted: set[int]) -> list[int]:
        """Return the numbers of the actions that happen when some are fetched."""
        result, stack = set[int](), list(wanted)
        while stack:
            number = stack.pop()
            if number not in result:
                result.add(number)
                action = self.actions[number]
                stack += self.before[number]
                stack += [item % number for item in self.inputs(action) if number]
        return sorted(result)

    @staticmethod
    def inputs(action: Action) -> list[int]:
        """Return the numbers that choose the tensors which an action takes."""
        if action.kind in ("read", "use", "size", "count", "take", "mean"):
            return []
        return [action.a, action.b] if action.kind == "sum" else [action.a]


class Model:
    """The same with plain numbers, one action after the other."""

    def __init__(self) -> None:
        self.variables = [10 * (i + 1) for i in range(N_EACH)]
        self.queues: list[list[int]] = [[] for _ in range(N_EACH)]
        self.sums: list[list[int]] = [[] for _ in range(N_EACH)]

    def run(self, drawn: Drawn, numbers: list[int]) -> dict[int, float]:
        """Do some actions; return the value of each."""
        values: dict[int, float] = {}
        for number in numbers:
            action = drawn.actions[number]
            taken = [
                values[item % number] if number else 1 for item in drawn.inputs(action)
            ]
            values[number] = self.do(action.kind, action.target, *taken)
        return values

    def do(self, kind: str, i: int, a: Any = 0, b: Any = 0) -> Any:
        """Return the value of one action on the i-th of what it acts on."""
        variables, queue, sums = self.variables, self.queues[i], self.sums[i]
        match kind:
            case "sum":
                return (a + b + i) % SIZE
            case "use":
                return variables[i] + 1
            case "mixed":
                return (variables[i] + a) % SIZE
            case "set":
                variables[i] = a
            case "add":
                variables[i] += a
            case "put" | "apply":
                (queue if kind == "put" else sums).append(a)
                return 1
            case "take":
                return queue.pop(0)
            case "size" | "count":
                return len(queue if kind == "size" else sums)
            case "mean":
                self.sums[i] = []
                return int(sum(sums) / len(sums))
        return variables[i]


class Built:
    """The graph of drawn actions, all placed on the tasks that `places` chooses."""

    def __init__(self, drawn: Drawn, homes: list[int], tasks: tuple[str, ...]) -> None:
        self._tasks = tasks
        self.graph = Graph()
        self.outputs: list[Tensor] = []
        self._ops: list[Op] = []
        with self.graph.as_default():
            self._make_state(homes)
            for action, before in zip(drawn.actions, drawn.before, strict=True):
                waits = [self._ops[item] for item in before]
                inputs = [self._chosen(item) for item in drawn.inputs(action)]
                with self._at(action.task), self.graph.control_dependencies(waits):
                    result = self._made(action.kind, action.target, *inputs)
                self._ops.append(result if isinstance(result, Op) else result.op)
                if isinstance(result, Op):
                    after = self.graph.control_dependencies([result])
                    with self._at(action.task), after:
                        result = constant(1, DTYPE)
                self.outputs.append(result)

    def _at(self, task: int) -> Any:
        return at(self._tasks[task % len(self._tasks)])

    def _make_state(self, homes: list[int]) -> None:
        self.variables, self.queues, self.sums = [], list[Tensor](), list[Tensor]()
        for i in range(N_EACH):
            with self._at(homes[i]):
                first = np.asarray(10 * (i + 1), DTYPE)
                self.variables.append(Variable(first, name=f"v{i}"))
            with self._at(homes[i + 1]):
                self.queues.append(make("FIFOQueueV2", capacity=-1, **QUEUE))
            with self._at(homes[i + 2]):
                kind = "ResourceConditionalAccumulator"
                self.sums.append(make(kind, reduction_type="MEAN", **SUM))
        self.init = initialize_all()

    def _chosen(self, number: int) -> Tensor:
        if not self.outputs:
            return constant(1, DTYPE)
        return self.outputs[number % len(self.outputs)]

    def _made(self, kind: str, i: int, a: Any = None, b: Any = None) -> Any:
        """Build the op of one action."""
        variable, queue, sums = self.variables[i], self.queues[i], self.sums[i]
        accumulator = "ResourceAccumulator"
        match kind:
            case "sum":
                return (a + b + np.int64(i)) % np.int64(SIZE)
            case "read":
                return variable.read_value()
            case "use":  # of the reading that all share
                return variable + np.int64(1)
            case "mixed":
                return (variable.ref + a) % np.int64(SIZE)
            case "set":
                return variable.assign(a)
            case "add":
                return variable.assign_add(a)
            case "put":
                return make_op("QueueEnqueueV2", queue, a, **QUEUE)
            case "take":
                return make("QueueDequeueV2", queue, **QUEUE)
            case "apply":
                number = make("Cast", a, dtype=SUM["dtype"])
                step = tensor(np.int64(99))
                return make_op(f"{accumulator}ApplyGradient", sums, step, number)
            case "mean":
                one_gradient = tensor(np.int32(1))
                result = make(f"{accumulator}TakeGradient", sums, one_gradient, **SUM)
            case "size":
                result = make("QueueSizeV2", queue)
            case "count":
                result = make(f"{accumulator}NumAccumulated", sums)
        return make("Cast", result, dtype=DTYPE)


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    with local_cluster(1, 2) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(500)  # with thousands of examples
@pytest.mark.lasting("descriptor", "thread")
@given(
    ACTIONS,
    st.lists(st.integers(0, 2), min_size=N_EACH + 2, max_size=N_EACH + 2),
    st.permutations(TASKS),
    st.integers(1, 3),
    st.sets(NUMBERS, max_size=3),
)
def test_a_graph_with_state_gives_the_same_on_one_task_two_and_three(
    shared: LocalCluster,
    actions: list[Action],
    homes: list[int],
    tasks: list[str],
    n_tasks: int,
    unwanted: set[int],
) -> None:
    drawn, model = Drawn(actions), Model()
    wanted = sorted(set(range(len(drawn.actions))) - unwanted)
    built = Built(drawn, homes, tuple(tasks[:n_tasks]))
    fetches = [built.outputs[item] for item in wanted]

    with Session(shared.servers[1], built.graph) as session:
        session.run(built.init)
        for _ in range(2):
            result = session.run(fetches, deadline_s=10)
            values = model.run(drawn, drawn.needed(set(wanted)))
            assert [int(number) for number in result] == [
                values[item] for item in wanted
            ]
        assert session.run(built.variables) == model.variables


def read(variable: Variable, device: str) -> Tensor:
    with at(device):
        return variable.read_value()


def after(first: Tensor, make: Callable[[], T]) -> T:
    with default_graph().control_dependencies([first]):
        return make()


@pytest.mark.parametrize("reader", [PS, W0])
def test_readings_before_and_after_an_update_differ_wherever_they_are(
    target: Any, reader: str
) -> None:
    w = variable(PS, "w")
    before = read(w, reader)
    more = after(before, lambda: w.assign_add(np.float32(1)))
    behind = after(more, lambda: read(w, reader))
    used = after(more, lambda: before + np.float32(100))

    with Session(target) as session:
        session.run(w.initializer)
        result = session.run([before, behind, used])

    assert result == [0, 1, 100]  # what was read once does not change


@pytest.mark.parametrize("reader", [PS, W0])
@pytest.mark.parametrize("waiting", [PS, W1])
@pytest.mark.parametrize("by", ["control", "data"])
def test_a_reading_waits_for_what_another_client_does_first(
    cluster: LocalCluster, reader: str, waiting: str, by: str
) -> None:
    w = variable(PS, "w")
    begun, element = waits_for_ever(waiting)
    with at(waiting):
        two = cast(element, "float32")
    with at(reader):
        result = w.ref + two if by == "data" else after(two, lambda: w.ref + 2.0)
    with default_graph().control_dependencies([w.assign(np.float32(5))]):
        new, queue = constant(2, "int32"), element.op.inputs[0]
        put = make_op("QueueEnqueueV2", queue, new, **element.op.attrs)

    with Session(cluster.servers[1]) as first, Session(cluster.servers[2]) as other:
        first.run(w.initializer)
        run = in_thread(lambda: first.run(result, deadline_s=10))
        until_it_waits(other, begun)
        other.run(put)

        assert run.result(10) == 7


@pytest.mark.parametrize("reader", [PS, W0])
def test_a_variable_without_a_value_is_named_wherever_it_is_read(
    target: Any, reader: str
) -> None:
    result = read(variable(PS, "w"), reader)

    refused = pytest.raises(FailedPreconditionError, match="'w' is uninitialized")
    with Session(target) as session, refused as it:
        session.run(result)

    assert it.value.node == "w"


def test_readers_that_wait_for_the_same_get_one_transfer(graph: Graph) -> None:
    w = variable(PS, "w")
    ahead = [read(w, W0) for _ in range(3)]
    more = w.assign_add(ahead[0] + ahead[1] + ahead[2])
    behind = after(more, lambda: [read(w, W0) for _ in range(3)])
    expected = {op.name: node_of(op) for op in graph.ops}
    devices = [Device(Task.parse(item)) for item in ("worker:0", "ps:0")]
    fetches = tuple((item.op.name, 0) for item in behind)

    plan = make_plan(
        expected,
        place_nodes(expected, devices, devices[0].task),
        RunSignature((), fetches, ()),
    )

    values = [m for m in plan.segments[Task("ps", 0)].sends if m.edge[1] != DONE]
    assert len(values) == 2
