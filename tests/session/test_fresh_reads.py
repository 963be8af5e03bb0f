"""Who is put behind an update of a variable reads it there and then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit.graph import ops as ops  # they enter the table of ops
from kit.graph.node import Edge, Node
from kit.session.master.plan import refreshed
from tests.cases import for_each

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
