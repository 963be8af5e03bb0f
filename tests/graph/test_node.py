"""A graph as plain data: it comes back whole, and garbage is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit.graph.ops
from kit.errors import InvalidArgumentError, ProtocolError
from kit.graph.gradients import gradients
from kit.graph.graph import Graph
from kit.graph.node import from_plain, node_of, to_plain
from kit.graph.op import Op
from kit.graph.ops.state.source import constant, no_op
from kit.graph.variable import Variable
from tests.cases import for_each
from tests.graph.cases.case import Case, all_cases, listed

assert kit.graph.ops  # fills the table


def sent(ops: list[Op]) -> list[Any]:
    """Return the nodes of ops as they come out at the other end."""
    plain, arrays = to_plain(map(node_of, ops))
    return from_plain(json.loads(json.dumps(plain)), arrays)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        if left.dtype.kind != "f":
            return left.dtype == right.dtype and np.array_equal(left, right)
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=True)
    return type(left) is type(right) and bool(left == right)


def test_a_model_with_scopes_and_gradients_comes_back_whole(graph: Graph) -> None:
    first = no_op(name="first")
    with graph.device("/job:ps/task:1"), graph.in_container("box"):
        v = Variable(np.ones((2, 3), np.float32), name="v")
    with graph.control_dependencies([first]), graph.name_scope("a"):
        loss = np.sum(np.square(v[:, 1:] @ np.ones((2, 2), np.float32)))
    gradients(loss, v)

    nodes = sent(graph.ops)

    assert len(nodes) == graph.version
    for op, node in zip(graph.ops, nodes, strict=True):
        assert (node.name, node.type, node.device) == (op.name, op.type, op.device)
        assert (node.container, node.source_line) == (op.container, op.source_line)
        assert node.inputs == tuple((x.op.name, x.index) for x in op.inputs)
        assert node.control == tuple(
            control_input.name for control_input in op.control_inputs
        )
        assert node.colocation == op.colocation
        assert all(same(op.attrs[key], node.attrs[key]) for key in op.attrs)
        assert op.attrs.keys() == node.attrs.keys()


def test_every_case_of_the_table_can_travel(graph: Graph) -> None:
    for case in all_cases():
        build(case)

    nodes = sent(graph.ops)

    for op, node in zip(graph.ops, nodes, strict=True):
        assert all(same(op.attrs[key], node.attrs[key]) for key in op.attrs), op


def build(case: Case) -> list[Any]:
    return listed(case.build(*[constant(array) for array in case.arrays]))


PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**60), 2**60),
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.binary(max_size=5),
    ),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), parts, max_size=3),
    ),
    max_leaves=6,
)


@given(PLAIN)
def test_any_plain_attribute_comes_back_as_it_was(value: Any) -> None:
    graph = Graph()
    op = graph.create("NoOp")
    op.attrs["x"] = value

    (node,) = sent([op])

    assert same(node.attrs["x"], value)


def test_an_attribute_that_is_no_data_is_refused(graph: Graph) -> None:
    op = no_op(name="odd")
    op.attrs["x"] = object()

    with pytest.raises(InvalidArgumentError, match="'odd'"):
        to_plain([node_of(op)])


@for_each(
    "plain",
    [
        [1],
        [["a", "NoOp"]],
        [["a", "NoOp", 5, [], {}, "", [], "", [], ""]],
        [["a", "NoOp", [["x"]], [], {}, "", [], "", [], ""]],
        [["a", "NoOp", [["x", "y"]], [], {}, "", [], "", [], ""]],
        [["a", "NoOp", [], [], {"k": {"array": 7}}, "", [], "", [], ""]],
        [["a", "NoOp", [], [], {"k": {"array": "x"}}, "", [], "", [], ""]],
        [["a", "NoOp", [], [], {"k": {"dtype": "datetime64"}}, "", [], "", [], ""]],
        [["a", "NoOp", [], [], {"k": {"code": "x"}}, "", [], "", [], ""]],
        [["a", "NoOp", [], [], {"k": {}}, "", [], "", [], ""]],
        [["a", "NoOp", [], [], {"k": {"bytes": "zz"}}, "", [], "", [], ""]],
        [["a", "NoOp", [], [], [], "", [], "", [], ""]],
    ],
    ids=str,
)
def test_what_is_no_graph_is_refused(plain: Any) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        from_plain(plain, [])
