"""Which device an op gets, and what is said when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from kit.errors import InvalidArgumentError, PlacementError
from kit.graph.graph import Graph
from kit.graph.node import node_of
from kit.graph.op import Op
from kit.graph.ops.state.source import constant, identity
from kit.graph.variable import Variable
from kit.session.master.devices import Device, place_nodes
from kit.task import Task
from tests.cases import for_each
from tests.session.scene import PS, W0, W1, value, variable

TARGET = Task("worker", 0)
DEVICES = [
    Device(Task("worker", 0)),
    Device(Task("ps", 0)),
    Device(Task("ps", 0), "CPU", 1),
    Device(Task("worker", 1)),
    Device(Task("worker", 1), "GPU", 0),
]


def places(graph: Graph, *, soft: bool = False) -> dict[str, str]:
    expected = {op.name: node_of(op) for op in graph.ops}
    result = place_nodes(expected, DEVICES, TARGET, soft=soft)
    return {name: device.name for name, device in result.items()}


def full(job: str, index: int, kind: str = "CPU", number: int = 0) -> str:
    return f"/job:{job}/replica:0/task:{index}/device:{kind}:{number}"


@for_each(
    ("request_", "expected"),
    [
        ("", full("worker", 0)),
        ("/job:ps", full("ps", 0)),
        ("/job:worker", full("worker", 0)),
        ("/job:worker/task:1", full("worker", 1)),
        ("/task:1", full("worker", 1)),
        ("/job:ps/cpu:1", full("ps", 0, "CPU", 1)),
        ("/job:worker/task:1/gpu:0", full("worker", 1, "GPU", 0)),
        ("/gpu:0", full("worker", 1, "GPU", 0)),
        ("/cpu:0", full("worker", 0)),
        ("/job:ps/device:CPU:*", full("ps", 0)),
    ],
)
def test_a_part_of_a_name_takes_the_first_that_fits(
    graph: Graph, request_: str, expected: str
) -> None:
    op: Op = graph.create("NoOp", device=request_)

    assert places(graph)[op.name] == expected


@for_each(
    ("request_", "soft"),
    [
        *(("/job:moon", None), ("/job:ps/task:3", None), ("/replica:1", None)),
        *(("/job:ps/gpu:0", full("ps", 0)), ("/cpu:7", full("worker", 0))),
    ],
)
def test_a_device_that_does_not_exist_is_refused_with_those_that_do_or_softened(
    request_: str, soft: str | None
) -> None:
    graph = Graph()
    graph.create("NoOp", name="lonely", device=request_)

    with pytest.raises(PlacementError, match="lonely") as caught:
        places(graph)
    if soft is None:  # no task is invented
        with pytest.raises(PlacementError):
            places(graph, soft=True)
    else:
        assert places(graph, soft=True) == {"lonely": soft}

    assert "/device:CPU:0" in str(caught.value)
    assert "test_placement.py" in str(caught.value)


def test_a_text_that_is_no_device_is_an_error_of_the_run(graph: Graph) -> None:
    graph.create("NoOp", name="odd", device="/zzz:0")

    with pytest.raises(InvalidArgumentError, match="odd"):
        places(graph)


def test_what_changes_a_variable_is_where_the_variable_is(graph: Graph) -> None:
    v = variable(PS, "v")
    operand = value(W1)
    with graph.device(W1), graph.colocate_with(None, ignore_existing=True):
        change: Op = graph.create("AssignAdd", v.ref, operand, device=W1)

    result = places(graph)
    assert result[change.name] == full("ps", 0)
    assert result[operand.op.name] == full("worker", 1)


def test_a_group_follows_its_anchor(graph: Graph) -> None:
    anchor = value(PS)
    with graph.device(W1), graph.colocate_with(anchor.op):
        follower = identity(constant(np.float32(1)))

    assert places(graph)[follower.op.name] == full("ps", 0)


def test_a_constant_that_nobody_placed_is_where_its_only_user_is(graph: Graph) -> None:
    v = Variable(np.float32(0), name="free")
    tensor = constant(np.float32(1))
    with graph.device(W1):
        identity(tensor)
    shared = constant(np.float32(2))
    with graph.device(PS):
        identity(shared)
        identity(shared)
    with graph.device(W0):
        placed = constant(np.float32(3))
    with graph.device(PS):
        identity(placed)

    result = places(graph)
    assert result[v.op.name] == full("worker", 0)
    assert result[tensor.op.name] == full("worker", 1)
    assert result[shared.op.name] == full("worker", 0)
    assert result[placed.op.name] == full("worker", 0)
