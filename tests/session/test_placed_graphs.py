"""Any graph is cut into parts with the fewest transfers; readings wait for updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.graph import ops as ops  # they enter the table of ops
from kit.graph.graph import Graph
from kit.graph.node import Edge, Node, node_of
from kit.graph.op import Tensor
from kit.graph.ops.state.source import constant, placeholder
from kit.session.master.devices import Device, place_nodes
from kit.session.master.partition import DONE, prune
from kit.session.master.plan import RunSignature, make_plan, refreshed
from kit.task import Task
from tests.cases import for_each
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


V: Edge = ("v", 0)
READ: Edge = ("v/read", 0)


def node(
    name: str, kind: str, inputs: Sequence[Edge] = (), control: Sequence[str] = ()
) -> Node:
    attrs = {"shape": (), "dtype": np.dtype("float32")} if kind == "VariableV2" else {}
    return Node(name, kind, tuple(inputs), tuple(control), attrs, "", (), "", "")


BASE = [
    node("v", "VariableV2"),
    node("w", "VariableV2"),
    node("one", "Const"),
    node("v/read", "Identity", [V]),
    node("late", "Identity", [V], control=["one"]),
    node("add", "AssignAdd", [V, ("one", 0)]),
    node("add w", "AssignAdd", [("w", 0), ("one", 0)]),
    node("middle", "NoOp", control=["add"]),
    node("look", "IsVariableInitialized", [V]),
]
USES: dict[str, tuple[Node, Sequence[Edge]]] = {
    "behind an update by control": (node("use", "Neg", [READ], ["add"]), [V]),
    "by data": (node("use", "Add", [("add", 0), READ]), [("add", 0), V]),
    "far behind": (node("use", "Neg", [READ], ["middle"]), [V]),
    "beside": (node("use", "Neg", [READ]), [READ]),
    "behind another variable's": (node("use", "Neg", [READ], ["add w"]), [READ]),
    "behind an op that only looks": (node("use", "Neg", [READ], ["look"]), [READ]),
    "by a reading that waits": (
        node("use", "Neg", [("late", 0)], ["add"]),
        [("late", 0)],
    ),
}


@for_each(("use", "inputs"), USES.values(), ids=USES)
def test_op_behind_an_update_reads_anew_and_no_other_node_changes(
    use: Node, inputs: Sequence[Edge]
) -> None:
    result = refreshed([*BASE, use])

    assert [item.name for item in result] == [*(item.name for item in BASE), "use"]
    assert result[-1].inputs == tuple(inputs)
    assert all(item is other for item, other in zip(result, BASE, strict=False))


@for_each("fed", [V, READ])
def test_what_is_fed_is_not_read_anew(fed: Edge) -> None:
    use = node("use", "Neg", [READ], control=["add"])

    assert refreshed([*BASE, use], [fed])[-1].inputs == (READ,)
