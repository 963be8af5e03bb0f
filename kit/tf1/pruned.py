"""A session in this process that looks only at what it runs.

An ordinary session places the whole graph, so one operation that no device fits ends
every run. The master of this one is told of an operation when a run first needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.graph.node import Node
from kit.session.connection import Direct
from kit.session.devices import place
from kit.session.master import Master
from kit.session.options import Options
from kit.session.partition import prune
from kit.session.plan import Kind


class PrunedDirect(Direct):
    """A connection that holds nodes back until they are needed."""

    def __init__(self, master: Master, options: Options, *, owns: bool = False) -> None:
        super().__init__(master, options, owns=owns)
        self._nodes: dict[str, Node] = {}
        self._told: set[str] = set()

    def extend(self, version: int, nodes: Sequence[Node], deadline_s: float) -> int:
        """See `Connection`."""
        self._nodes.update((one.name, one) for one in nodes)
        return len(self._nodes)

    def prepare(self, kind: Kind, deadline_s: float) -> int:
        """See `Connection`."""
        needed = prune(self._nodes, kind.fetches, kind.targets, kind.feeds, kind.done)
        fed = [self._nodes[name] for name, _ in kind.feeds]
        new = {one.name: one for one in (*needed, *fed) if one.name not in self._told}
        # Before it is told: what has no place would end its later runs too.
        devices = [one for one, _ in self.devices(deadline_s)]
        nodes = {name: self._nodes[name] for name in (*self._told, *new)}
        place(nodes, devices, devices[0].task, soft=self._options.soft)
        super().extend(len(self._told), list(new.values()), deadline_s)
        self._told.update(new)
        return super().prepare(kind, deadline_s)
