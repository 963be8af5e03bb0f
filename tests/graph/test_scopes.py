"""Scopes of the default graph, and names that the current cluster does not have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.devices.device import set_known_tasks
from kit.errors import PlacementError
from kit.graph.default import (
    colocate_with,
    container,
    control_dependencies,
    device,
    name_scope,
)
from kit.graph.graph import Graph
from kit.graph.ops.state.source import constant, no_op
from kit.task import Task

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
