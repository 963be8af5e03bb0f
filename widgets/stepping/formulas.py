"""How many messages and bytes an exchange takes by its closed formula.

Pure. The bytes are the topology's own formula (`Topology.traffic`); the messages are
written down here for the topologies that come with the kit, of others there are none.
Counted is what carries something, as the meter does: an empty message that only keeps
two members in step is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.exchange.layout import Layout
from kit.exchange.plan import Group
from kit.exchange.topologies.topology import Topology, per_member


@dataclass(frozen=True)
class Formula:
    """What a whole exchange costs.

    `sent` and `received` are bytes of each member; `n_messages` and `text` are None and
    "" for a topology without a formula of its messages.
    """

    n_bytes: int
    sent: tuple[int, ...]
    received: tuple[int, ...]
    n_messages: int | None
    text: str


def formula(topology: Topology, layout: Layout, group: Group) -> Formula:
    """Return what the formulas say of an exchange."""
    traffic = topology.traffic(layout, group)
    both = [per_member(traffic, member) for member in group.members]
    known = _MESSAGES.get(topology.name)
    count, text = known(layout, group) if known else (None, "")
    if count == 0:
        text = "One worker alone has the sum already, and an empty gradient no sum."
    return Formula(
        sum(traffic.values()),
        tuple(sent for sent, _ in both),
        tuple(received for _, received in both),
        count,
        text,
    )


def _chunks(layout: Layout) -> int:
    """Return how many chunks hold anything: all, where there are enough elements."""
    return sum(chunk.size > 0 for bucket in layout.buckets for chunk in bucket.chunks)


def _ring(layout: Layout, group: Group) -> tuple[int, str]:
    n, full = len(group.workers), _chunks(layout)
    text = (
        f"Each of the {n} chunks goes round twice, n\u22121 messages each time: "
        f"2(n\u22121) messages a worker. A worker sends 2(n\u22121)/n of its "
        f"gradient's bytes: less than twice, however many workers there are."
    )
    return 2 * (n - 1) * full, text


def _mesh(layout: Layout, group: Group) -> tuple[int, str]:
    n, full = len(group.workers), _chunks(layout)
    text = (
        "Every worker sends each other one its chunk, and then gets the sum back: "
        "2(n\u22121) messages a worker, in two rounds, and 2(n\u22121)/n of its "
        "gradient's bytes."
    )
    return 2 * (n - 1) * full, text


def _whole(layout: Layout, group: Group) -> tuple[int, str]:
    n = len(group.workers)
    text = (
        "Every worker passes whole gradients on: n\u22121 messages a worker, and "
        "n\u22121 times the bytes of a gradient, more with every worker."
    )
    return n * (n - 1) * (layout.payload_bytes > 0), text


def _ps(layout: Layout, group: Group) -> tuple[int, str]:
    parts = sum(part.size > 0 for shard in group.shards for part in shard)
    text = (
        "Every worker sends its gradient once and gets the sum once, whatever the "
        "number of workers. The servers send and receive that of all workers: they "
        "have n times as much to do."
    )
    return 2 * len(group.workers) * parts, text


_MESSAGES: dict[str, Callable[[Layout, Group], tuple[int, str]]] = {
    "ring": _ring,
    "mesh": _mesh,
    "ring-whole": _whole,
    "ps": _ps,
}
