"""Any graph is cut into parts with the fewest transfers, in an order that works."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.graph.graph import Graph
from kit.graph.node import Edge, Node, node_of
from kit.graph.op import Tensor
from kit.graph.ops.state.source import constant, placeholder
from kit.session.master.devices import Device, place_nodes
from kit.session.master.partition import DONE, prune
from kit.session.master.plan import RunSignature, make_plan
from kit.task import Task
from tests.session.scene import PS, W0, W1, never

TASKS = (PS, W0, W1)
NODES = st.lists(
    st.tuples(
        st.sampled_from("+-*"),
        st.integers(0, 100),
        st.integers(0, 100),
        st.integers(0, 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


class Drawn(NamedTuple):
    """A graph, its fed tensor, and all its tensors."""

    graph: Graph
    fed: Tensor
    tensors: list[Tensor]


def drawn(nodes: list[tuple[str, int, int, int, bool]]) -> Drawn:
    """Return a graph in which each node takes two of those before it."""
    with Graph().as_default() as graph:
        fed = placeholder("int64", ())
        tensors = [fed]
        for sign, a, b, task, has_control in nodes:
            x, y = tensors[a % len(tensors)], tensors[b % len(tensors)]
            before = [tensors[(a + b) % len(tensors)]] if has_control else []
            with graph.device(TASKS[task]), graph.control_dependencies(before):
                tensors.append({"+": x + y, "-": x - y, "*": x * y}[sign])
    return Drawn(graph, fed, tensors)


def nodes_of(graph: Graph) -> dict[str, Node]:
    return {op.name: node_of(op) for op in graph.ops}


DEVICES = [Device(Task.parse(item)) for item in ("worker:0", "ps:0", "worker:1")]


@given(NODES, st.integers(0, 100))
def test_each_tensor_goes_once_to_each_task_that_needs_it(
    nodes: list[tuple[str, int, int, int, bool]], wanted: int
) -> None:
    graph, fed, tensors = drawn(nodes)
    target = tensors[wanted % len(tensors)]
    expected = nodes_of(graph)
    placed = place_nodes(expected, DEVICES, DEVICES[0].task)
    feeds = ((fed.op.name, 0),) if target is not fed else ()
    kind = RunSignature(feeds, ((target.op.name, target.index),), ())

    plan = make_plan(expected, placed, kind)

    ran = [node.name for segment in plan.segments.values() for node in segment.nodes]
    assert len(ran) == len(set(ran))
    assert set(ran) == needed(expected, target.op.name, {*feeds})
    for task, part in plan.segments.items():
        inside = {node.name for node in part.nodes}
        fed_names = {name for name, _ in feeds}
        used = {edge for node in part.nodes for edge in edges_into(node)}
        foreign = {edge for edge in used if edge[0] not in inside | fed_names}
        assert sorted(move.edge for move in part.receives) == sorted(foreign)
        for move in part.receives:
            sent = [
                send
                for send in plan.segments[move.peer].sends
                if (send.edge, send.peer) == (move.edge, task)
            ]
            assert [item.number for item in sent] == [move.number]


def needed(nodes: dict[str, Node], name: str, fed: set[Edge]) -> set[str]:
    """Return all that a node needs, itself included, by recursion."""
    before = {edge[0] for edge in edges_into(nodes[name])} - {edge[0] for edge in fed}
    return {name}.union(*(needed(nodes, item, fed) for item in before))


def edges_into(node: Node) -> list[Edge]:
    return [*node.inputs, *((name, DONE) for name in node.control)]


@given(NODES)
def test_segments_stand_in_one_order_on_all_tasks(
    nodes: list[tuple[str, int, int, int, bool]],
) -> None:
    graph, _, tensors = drawn(nodes)
    expected = nodes_of(graph)
    order = prune(expected, [(tensor.op.name, 0) for tensor in tensors], [], [])

    done: set[str] = set()
    for node in order:
        assert {edge[0] for edge in edges_into(node)} <= done
        done.add(node.name)
    assert len(done) == len(tensors)


def test_what_may_block_runs_after_all_that_need_not(graph: Graph) -> None:
    waits = never(W0)
    behind = waits + 1
    free = constant(1) + constant(2)

    order = prune(nodes_of(graph), [edge_of(behind), edge_of(free)], [], [])

    names = [node.name for node in order]
    assert names.index(free.op.name) < names.index(waits.op.name)
    assert names.index(waits.op.name) < names.index(behind.op.name)


def edge_of(tensor: Tensor) -> Edge:
    return tensor.op.name, tensor.index


def test_a_graph_with_a_cycle_is_refused() -> None:
    a = Node("a", "Identity", (("b", 0),), (), {}, "", (), "", "")
    b = Node("b", "Identity", (("a", 0),), (), {}, "", (), "", "")

    with pytest.raises(InvalidArgumentError, match="cycle"):
        prune({"a": a, "b": b}, [("a", 0)], [], [])
