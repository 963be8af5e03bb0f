"""A graph: names, scopes, control dependencies, and tasks that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

from kit.devices.device import set_known_tasks
from kit.errors import PlacementError
from kit.graph.default import (
    colocate_with,
    container,
    control_dependencies,
    default_graph,
    device,
    name_scope,
    reset_default_graph,
)
from kit.graph.graph import Graph
from kit.graph.op import Op
from kit.graph.ops.state.source import constant, group, no_op
from kit.graph.variable import Variable
from kit.session.client.session import Session
from kit.task import Task


@pytest.mark.parametrize("name", ["a b", "-a", "", "ü"])
def test_a_text_that_is_no_name_is_refused(graph: Graph, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        graph.unique_name(name)


def test_a_scope_ends_when_its_block_raises(graph: Graph) -> None:
    def fail() -> None:
        with (
            graph.name_scope("layer"),
            graph.device("/cpu:0"),
            graph.control_dependencies([no_op()]),
            graph.in_container("box"),
        ):
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()

    op = no_op(name="after")
    result = (op.name, op.device, op.control_inputs, op.container)
    assert result == ("after", "", (), "")


def test_a_device_function_sees_the_op_it_places(graph: Graph) -> None:
    seen: list[Op] = []

    def choose(op: Op) -> str:
        seen.append(op)
        return "/job:ps/task:1" if op.type == "VariableV2" else "/job:worker"

    with graph.device(choose):
        v = Variable(np.zeros(2, np.float32), name="v")

    assert v.device == "/job:ps/task:1"
    assert [op.type for op in seen] == ["Const", "VariableV2"]
    assert v.initializer.device == "/job:ps/task:1"


def test_what_reads_or_changes_a_variable_is_where_it_is(graph: Graph) -> None:
    with graph.device("/job:ps/task:0"):
        v = Variable(np.zeros(2, np.float32), name="v")
    with graph.device("/job:worker/task:1"):
        change = v.assign_add([1.0, 2.0])
        sum_of = v + 1.0

    assert change.op.device == "/job:ps/task:0"
    assert v.value().op.device == "/job:ps/task:0"
    assert sum_of.op.device == "/job:worker/task:1"


def test_nested_anchors_all_count_and_can_be_forgotten(graph: Graph) -> None:
    a, b = constant(1.0, name="a"), constant(1.0, name="b")
    with graph.colocate_with(b), graph.colocate_with(a):
        both = constant(2.0)
        with graph.colocate_with(None, ignore_existing=True):
            free = constant(2.0)

    assert both.op.colocation == ("a", "b")
    assert free.op.colocation == ()
    with pytest.raises(ValueError, match="ignore_existing"), graph.colocate_with(None):
        pass


def test_a_group_waits_for_all_of_its_ops(graph: Graph) -> None:
    a, b = no_op(), constant(1.0)

    assert group(a, b).control_inputs == (a, b.op)


def test_tensors_of_two_graphs_do_not_meet(graph: Graph) -> None:
    here = constant(1.0)
    with Graph().as_default():
        there = constant(2.0)

    with pytest.raises(ValueError, match="another graph"):
        here + there


def test_numbers_join_the_graph_of_the_tensor_they_meet(graph: Graph) -> None:
    x = constant(1.0)
    with Graph().as_default() as other:
        y = 2.0 * x + 1.0

    assert y.graph is graph
    assert other.version == 0


def test_ops_and_tensors_are_found_by_name(graph: Graph) -> None:
    x = constant(1.0, name="x")

    assert graph.op("x") is x.op
    assert graph.tensor("x:0") is x
    with pytest.raises(KeyError):
        graph.tensor("y:0")
    with pytest.raises(KeyError):
        graph.tensor("x:1")
    with pytest.raises(ValueError, match="add:0"):
        graph.tensor("x")


def test_an_op_knows_the_line_that_made_it(graph: Graph) -> None:
    op = constant(1.0).op

    file, line = op.source_line.rsplit(":", 1)
    assert file == __file__
    assert int(line) > 1


def test_a_thread_begins_without_the_scopes_of_another(graph: Graph) -> None:
    result: list[str] = []
    with graph.device("/job:ps"), graph.name_scope("layer"):
        thread = Thread(target=lambda: result.append(_made_in(graph)))
        thread.start()
        thread.join(5)

    assert result == ["x on ''"]


def _made_in(graph: Graph) -> str:
    op = graph.create("NoOp", name="x")
    return f"{op.name} on {op.device!r}"


def test_the_common_graph_can_be_replaced_but_not_inside_of_another() -> None:
    with pytest.raises(RuntimeError, match="as_default"):
        reset_default_graph()
    assert default_graph().version == 0


def test_a_constant_keeps_its_value_when_the_array_it_came_from_changes() -> None:
    inputs = np.ones(3, np.float32)
    with Graph().as_default():
        kept, added = constant(inputs), constant(1.0) + inputs
        inputs += 5

        with Session() as session:
            first, two = session.run([kept, added])

    assert (first.tolist(), two.tolist()) == ([1.0] * 3, [2.0] * 3)


TASKS = [Task("ps", 0), Task("worker", 0), Task("worker", 1)]


@pytest.fixture
def cluster() -> Iterator[None]:
    set_known_tasks(lambda: TASKS)
    try:
        yield
    finally:
        set_known_tasks(None)


def test_each_scope_acts_on_the_default_graph(graph: Graph) -> None:
    first = no_op(name="first")
    with (
        device("/job:ps"),
        name_scope("a"),
        container("box"),
        control_dependencies([first]),
    ):
        op = no_op(name="x")
    with device("/cpu:0"), colocate_with(op):
        beside = no_op()

    assert (op.name, op.device, op.container) == ("a/x", "/job:ps", "box")
    assert op.control_inputs == (first,)
    assert beside.device == "/job:ps"


def test_without_a_cluster_every_name_is_allowed() -> None:
    with device("/job:moon/task:7"):
        assert constant(1.0).device == "/job:moon/task:7"


@pytest.mark.usefixtures("cluster")
def test_an_unknown_task_is_refused_where_the_scope_is_opened() -> None:
    with pytest.raises(PlacementError, match="Did you mean '/job:worker/task:1'"):
        device("/job:wroker/task:1")


@pytest.mark.usefixtures("cluster")
def test_a_known_task_and_a_part_of_a_name_are_allowed() -> None:
    with device("/job:worker/task:1"), device("/gpu:0"):
        assert constant(1.0).device == "/job:worker/task:1/device:GPU:0"


@pytest.mark.usefixtures("cluster")
def test_an_unknown_task_from_a_function_is_refused_where_the_op_is_made(
    graph: Graph,
) -> None:
    refused = pytest.raises(PlacementError, match=r"ps:0, worker:0\.\.1")
    with device(lambda op: "/job:ps/task:4"), refused:
        constant(1.0)

    assert graph.version == 0


@pytest.mark.usefixtures("cluster")
def test_two_scopes_that_are_known_can_make_an_unknown_name() -> None:
    refused = pytest.raises(PlacementError, match="'/job:ps/task:1'")
    with device("/task:1"), device("/job:ps"), refused:
        constant(1.0)


def test_a_cluster_that_is_gone_forbids_nothing() -> None:
    set_known_tasks(lambda: None)

    with device("/job:moon"):
        assert constant(1.0).device == "/job:moon"

    set_known_tasks(None)
