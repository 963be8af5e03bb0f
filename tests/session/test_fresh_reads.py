"""Who is put behind an update of a variable reads it there and then."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from kit.graph import ops as ops  # they enter the table of ops
from kit.graph.node import Edge, Node
from kit.session.master.plan import refreshed

V: Edge = ("v", 0)
READ: Edge = ("v/read", 0)


def node(
    name: str, kind: str, inputs: Sequence[Edge] = (), control: Sequence[str] = ()
) -> Node:
    attrs = {"shape": (), "dtype": np.dtype("float32")} if kind == "VariableV2" else {}
    return Node(name, kind, tuple(inputs), tuple(control), attrs, "", (), "", "")


BASE = (
    node("v", "VariableV2"),
    node("one", "Const"),
    node("v/read", "Identity", [V]),
)
ADD = node("add", "AssignAdd", [V, ("one", 0)])


def inputs_of(name: str, *more: Node, feeds: Collection[Edge] = ()) -> tuple[Edge, ...]:
    result = {item.name: item for item in refreshed([*BASE, *more], feeds)}
    return result[name].inputs


def test_op_behind_an_update_by_control_reads_anew() -> None:
    use = node("use", "Neg", [READ], control=["add"])

    assert inputs_of("use", ADD, use) == (V,)


def test_op_behind_an_update_by_data_reads_anew() -> None:
    use = node("use", "Add", [("add", 0), READ])

    assert inputs_of("use", ADD, use) == (("add", 0), V)


def test_op_far_behind_an_update_reads_anew() -> None:
    middle = node("middle", "NoOp", control=["add"])
    use = node("use", "Neg", [READ], control=["middle"])

    assert inputs_of("use", ADD, middle, use) == (V,)


def test_op_beside_an_update_keeps_its_reading() -> None:
    use = node("use", "Neg", [READ])

    assert inputs_of("use", ADD, use) == (READ,)


def test_update_of_another_variable_changes_nothing() -> None:
    other = node("w", "VariableV2")
    add = node("add", "AssignAdd", [("w", 0), ("one", 0)])
    use = node("use", "Neg", [READ], control=["add"])

    assert inputs_of("use", other, add, use) == (READ,)


def test_op_behind_an_op_that_only_looks_keeps_its_reading() -> None:
    look = node("look", "IsVariableInitialized", [V])
    use = node("use", "Neg", [READ], control=["look"])

    assert inputs_of("use", look, use) == (READ,)


def test_reading_that_waits_for_something_itself_stays() -> None:
    late = node("late", "Identity", [V], control=["one"])
    use = node("use", "Neg", [("late", 0)], control=["add"])

    assert inputs_of("use", late, ADD, use) == (("late", 0),)


@pytest.mark.parametrize("fed", [V, READ])
def test_what_is_fed_is_not_read_anew(fed: Edge) -> None:
    use = node("use", "Neg", [READ], control=["add"])

    assert inputs_of("use", ADD, use, feeds=[fed]) == (READ,)


def test_nodes_stay_in_their_order_and_others_are_the_same_objects() -> None:
    use = node("use", "Neg", [READ], control=["add"])
    inputs = [*BASE, ADD, use]

    result = refreshed(inputs)

    assert [item.name for item in result] == [item.name for item in inputs]
    assert all(
        item is other for item, other in zip(result[:-1], inputs[:-1], strict=True)
    )
