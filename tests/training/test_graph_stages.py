"""Nodes cut into stages compute what they computed whole, each node once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kit.graph.node import Edge, Node
from kit.training.features.graph_step.step import GraphSection, cut, grouped


def node(name: str, *inputs: str, control: tuple[str, ...] = ()) -> Node:
    edges = tuple((item, 0) for item in inputs)
    return Node(name, "AddN", edges, control, {}, "", (), "", "")


def names(stage: GraphSection) -> list[str]:
    return [item.name for item in stage.nodes]


def test_a_stage_has_what_its_goals_need_and_no_stage_before_it_has() -> None:
    nodes = [node("h", "x"), node("loss", "h"), node("d2", "h", "w2"), node("d1", "d2")]
    fed: list[Edge] = [("x", 0), ("w2", 0)]

    first, second = cut(nodes, fed, [[("d2", 0)], [("d1", 0), ("loss", 0)]])

    assert (names(first), names(second)) == (["h", "d2"], ["loss", "d1"])
    assert first.takes == (("x", 0), ("w2", 0))
    assert first.gives == (("d2", 0), ("h", 0))
    assert second.takes == (("h", 0), ("d2", 0))
    assert second.gives == (("d1", 0), ("loss", 0))


def test_a_goal_that_is_fed_is_passed_on() -> None:
    (stage,) = cut([node("a", "x")], [("x", 0)], [[("x", 0)]])

    assert (names(stage), stage.takes, stage.gives) == ([], (("x", 0),), (("x", 0),))


def test_what_a_node_waits_for_is_in_its_stage_or_before() -> None:
    nodes = [node("first", "x"), node("then", "x", control=("first",))]

    (stage,) = cut(nodes, [("x", 0)], [[("then", 0)]])

    assert names(stage) == ["first", "then"]


@st.composite
def graphs(draw: Any) -> tuple[list[Node], list[list[Edge]]]:
    """Draw sums of earlier nodes, `x` being fed, and goals in groups."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 12))):
        expected = ["x", *(item.name for item in nodes)]
        chosen = draw(st.lists(st.sampled_from(expected), min_size=1, max_size=3))
        nodes.append(node(f"n{number}", *chosen))
    goal = st.sampled_from([("x", 0), *((item.name, 0) for item in nodes)])
    groups = draw(st.lists(st.lists(goal, min_size=1, max_size=3), min_size=1))
    return nodes, groups


def summed(nodes: list[Node], values: dict[Edge, int]) -> dict[Edge, int]:
    result = dict(values)
    for item in nodes:
        result[item.name, 0] = sum(result[edge] for edge in item.inputs) + 1
    return result


@given(graphs())
def test_stages_give_every_goal_its_value(
    drawn: tuple[list[Node], list[list[Edge]]],
) -> None:
    nodes, groups = drawn
    fed: dict[Edge, int] = {("x", 0): 1}

    stages, expected = cut(nodes, [*fed], groups), dict(fed)

    ran: list[str] = []
    for stage, goals in zip(stages, groups, strict=True):
        ran += names(stage)
        result = summed(
            list(stage.nodes), {edge: expected[edge] for edge in stage.takes}
        )
        expected |= {edge: result[edge] for edge in stage.gives}
        whole = summed(nodes, fed)
        assert {edge: expected[edge] for edge in goals} == {e: whole[e] for e in goals}
    assert len(ran) == len(set(ran))


@given(st.lists(st.integers(0, 100)), st.integers(1, 200))
def test_groups_keep_the_order_and_all_but_the_last_are_large(
    sizes: list[int], least: int
) -> None:
    groups = grouped(sizes, least)

    assert [number for group in groups for number in group] == [*range(len(sizes))]
    assert all(sum([sizes[n] for n in group]) >= least for group in groups[:-1])
