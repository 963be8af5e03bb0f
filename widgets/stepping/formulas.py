"""How many messages and bytes an exchange takes, as its topology says.

Pure. Counted is what carries something, as the meter does: an empty message that only
keeps two members in step is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.exchange.layout import Layout
from kit.exchange.plan import Group
from kit.exchange.topologies.topology import Topology, per_member


@dataclass(frozen=True)
class Formula:
    """What a whole exchange costs; `sent` and `received` are bytes of each member."""

    n_bytes: int
    sent: tuple[int, ...]
    received: tuple[int, ...]
    n_messages: int
    text: str


def formula(topology: Topology, layout: Layout, group: Group) -> Formula:
    """Return what the formulas say of an exchange."""
    traffic = topology.traffic(layout, group)
    both = [per_member(traffic, member) for member in group.members]
    count = topology.n_messages(layout, group)
    text = topology.cost_in_words(len(group.workers))
    if not count:
        text = "One worker alone has the sum already, and an empty gradient no sum."
    return Formula(
        sum(traffic.values()),
        tuple(sent for sent, _ in both),
        tuple(received for _, received in both),
        count,
        text,
    )
