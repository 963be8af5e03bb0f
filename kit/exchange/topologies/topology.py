"""How gradients meet: the interface of a topology, and the table of those there are.

Pure. A topology is a plan for each member and the closed formula of its cost; nothing
else knows it by name. To add one, write these four members and `register` it:

    class Tree:
        name = "tree"
        needs_ps = False
        def plan(self, layout, group, member): ...
        def owners(self, layout, group): ...
        def traffic(self, layout, group): ...

The cost is written down independently of the plan, and a test compares the two.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Protocol

from kit.errors import InvalidArgumentError
from kit.exchange.layout import Layout
from kit.exchange.plan import Group, Owned, Plan
from kit.trace.traffic import TransferKind

Traffic = dict[
    tuple[int, int, TransferKind], int
]  # (source, destination, kind) -> bytes a step


class Topology(Protocol):
    """How the gradients of one step meet and how the parameters come back."""

    name: str
    needs_ps: bool

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return what `member` does in a step; None if it does nothing at all."""

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Return who updates which parameters; together they cover all of them."""

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Return the bytes of a step by a closed formula, not by walking the plan."""


_table: dict[str, Topology] = {}


def register(topology: Topology) -> Topology:
    """Add a topology to the table under its name; it replaces one of that name."""
    _table[topology.name] = topology
    return topology


def names() -> tuple[str, ...]:
    """Return the names of all topologies, sorted."""
    return tuple(sorted(_table))


def by_name(name: str) -> Topology:
    """Return a topology; `InvalidArgumentError` lists the known ones."""
    try:
        return _table[name]
    except (KeyError, TypeError):
        near = get_close_matches(str(name), _table, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidArgumentError(
            f"no topology is called {name!r}; there are {', '.join(names())}.{hint}"
        ) from None


def per_member(traffic: Traffic, member: int) -> tuple[int, int]:
    """Return the bytes that a member sends and receives in a step.

    >>> per_member({(0, 1, TransferKind.PUSH): 8, (1, 0, TransferKind.PULL): 4}, 0)
    (8, 4)
    """
    sent = sum(size for (source, _, _), size in traffic.items() if source == member)
    got = sum(size for (_, target, _), size in traffic.items() if target == member)
    return sent, got
