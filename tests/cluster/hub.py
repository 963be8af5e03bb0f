"""An exchange of one's own over a hub, and topologies that a cell defines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from kit.exchange import Topology, register
from kit.exchange.layout import Bucket, Layout
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    Add,
    Apply,
    Copy,
    Group,
    Op,
    Plan,
    Receive,
    Send,
    Term,
    chain,
)
from kit.exchange.topologies import topology as table
from kit.exchange.topologies.counting import Traffic
from kit.trace.traffic import TransferKind


class Hub(Topology):
    """All workers send their gradients to the first one and get parameters back."""

    name = "hub"
    title = "All-reduce by a hub"
    hue = 5

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        hub, *others = group.workers
        if member in group.ps:
            return None
        if member == hub:
            sums = tuple(
                tuple(add_up(bucket, group.workers)) for bucket in layout.buckets
            )
            return Plan(sums, tuple(hand_out(layout, others)))
        sends = tuple(
            (Send(hub, GRAD, bucket.range, TransferKind.REDUCE),)
            for bucket in layout.buckets
        )
        return Plan(sends, tuple(take(layout, hub)))

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        hub, *others = group.workers
        size = layout.payload_bytes
        up = {(other, hub, TransferKind.REDUCE): size for other in others}
        down = {(hub, other, TransferKind.GATHER): size for other in others}
        return up | down

    def rows(self, group: Group) -> tuple[tuple[int, ...], ...]:
        return group.workers[:1], group.workers[1:]


def add_up(bucket: Bucket, workers: tuple[int, ...]) -> Iterator[Op]:
    hub, *others = workers
    for other in others:
        yield Receive(other, GRAD, bucket.range, TransferKind.REDUCE)
    for number, chunk in enumerate(bucket.chunks):
        order = (workers[rank] for rank in chain(number, len(workers)))
        yield Add(chunk, tuple(Term(SELF if w == hub else w, GRAD) for w in order))


def hand_out(layout: Layout, others: list[int]) -> Iterator[Op]:
    for bucket in layout.buckets:
        yield Apply(bucket.range)
        for other in others:
            yield Send(other, NEXT, bucket.range, TransferKind.GATHER)


def take(layout: Layout, hub: int) -> Iterator[Op]:
    for bucket in layout.buckets:
        yield Receive(hub, NEXT, bucket.range, TransferKind.GATHER)
        yield Copy(Term(hub, NEXT), NEXT, bucket.range)


SOURCE = """
from kit.exchange.topologies.ring import Ring

def words():
    return {text!r}

class Circle(Ring):
    name = {name!r}

    @property
    def title(self):
        return words()
"""


def define(name: str, text: str, module: str = "__main__") -> None:
    """Define and register a topology as a cell does, or a module that engines lack."""
    space = ModuleType(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module, space)
        exec(SOURCE.format(name=name, text=text), vars(space))
    if module != "__main__":
        sys.modules[module] = space
    register(vars(space)["Circle"]())


def titles(name: str) -> str:
    return table.by_name(name).title


def forget_topologies(patch: pytest.MonkeyPatch) -> None:
    """Let the topologies registered from now on be forgotten with `patch`."""
    patch.setattr(table, "TABLE", dict(table.TABLE))
