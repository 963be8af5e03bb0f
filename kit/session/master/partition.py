"""From fetches to segments: what must run, and what each task receives and sends.

Pure. Nodes that no fetch needs are left out. A tensor that is used on another task is
sent there once in a run, however many ops use it; a control edge to another task sends
an empty tensor. The nodes of all segments are in one common order, so tasks that wait
for each other's tensors can never form a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kit.errors import InvalidArgumentError, ProtocolError
from kit.graph.dtypes import Array
from kit.graph.node import UNREADABLE, Edge, Node
from kit.graph.node import from_plain as nodes_from_plain
from kit.graph.node import to_plain as nodes_to_plain
from kit.graph.table import lookup
from kit.session.master.devices import Device
from kit.task import Task

DONE = -1  # the "output" that says only that an op is done
# In the name of an op that reads a variable for another task; no name of a graph's own
# has a colon.
READ_FOR: Final = ":read-for:"


class TensorMove(NamedTuple):
    """One tensor's way between two tasks, as each of them sees it.

    `peer` is the other task; `number` identifies the way within the plan. It is sent as
    soon as it is computed.
    """

    edge: Edge
    peer: Task
    number: int

    @property
    def tensor(self) -> str:
        """The tensor's name; of a control edge the op's, after `^`.

        >>> TensorMove(("add", 0), Task("ps", 0), 7).tensor
        'add:0'
        """
        name, index = self.edge
        return f"^{name}" if index == DONE else f"{name}:{index}"


@dataclass
class Segment:
    """One task's part of a plan.

    Attributes:
        nodes: in the order in which they run.
        devices: of each node, in the same order.
        feeds: tensors whose values come with the run.
        receives: tensors that come from another task.
        sends: tensors that others need.
        fetches: tensors that go back to the master.
    """

    nodes: list[Node] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    feeds: list[Edge] = field(default_factory=list)
    receives: list[TensorMove] = field(default_factory=list)
    sends: list[TensorMove] = field(default_factory=list)
    fetches: list[Edge] = field(default_factory=list)

    def to_plain(self) -> tuple[dict[str, Any], list[Array]]:
        """Return it as JSON data and its arrays, for its way to the task."""
        nodes, arrays = nodes_to_plain(self.nodes)
        plain = {
            "nodes": nodes,
            "devices": [[device.type, device.index] for device in self.devices],
            "feeds": self.feeds,
            "receives": [[m.edge, m.peer.short, m.number] for m in self.receives],
            "sends": [[m.edge, m.peer.short, m.number] for m in self.sends],
            "fetches": self.fetches,
        }
        return plain, arrays

    @classmethod
    def from_plain(
        cls, plain: dict[str, Any], arrays: Sequence[Array], me: Task
    ) -> Segment:
        """Return the segment of task `me`; raises `ProtocolError`."""
        try:
            return cls(
                nodes_from_plain(plain["nodes"], arrays),
                [Device(me, str(kind), int(index)) for kind, index in plain["devices"]],
                [_edge(edge) for edge in plain["feeds"]],
                [_move(*row) for row in plain["receives"]],
                [_move(*row) for row in plain["sends"]],
                [_edge(edge) for edge in plain["fetches"]],
            )
        except UNREADABLE as exc:
            raise ProtocolError(f"a segment came that cannot be read: {exc}.") from exc


def _edge(plain: Any) -> Edge:
    name, number = plain
    return str(name), int(number)


def _move(edge: Any, task: Any, number: Any) -> TensorMove:
    return TensorMove(_edge(edge), Task.parse(str(task)), int(number))


def prune(
    nodes: Mapping[str, Node],
    fetches: Sequence[Edge],
    targets: Sequence[str],
    feeds: Collection[Edge],
    done: Collection[str] = (),
) -> list[Node]:
    """Return what must run for fetches and targets, each node after all it needs.

    What may block stands as late as possible, else the graph's own order is kept. Ops
    in `done` have run before, in another part of the same run. Raises
    `InvalidArgumentError` when nodes need each other in a circle.
    """
    fed, past = set(feeds), set(done)
    needs: dict[str, list[str]] = {}
    stack = [name for name, _ in fetches if (name, _) not in fed] + list(targets)
    while stack:
        name = stack.pop()
        if name not in needs:
            node = nodes[name]
            needs[name] = [edge[0] for edge in node.takes if edge not in fed]
            needs[name] += [item for item in node.control if item not in past]
            stack.extend(needs[name])
    return _ordered([node for name, node in nodes.items() if name in needs], needs)


def _ordered(nodes: Sequence[Node], needs: Mapping[str, list[str]]) -> list[Node]:
    """Sort so that each node follows what it needs; blocking ones come last.

    A segment runs in one thread, unless it has several such ops. An op that waits for
    another run, as one that takes from an empty queue does, would hold up all ops after
    it, and what other tasks wait for.
    """
    left = {node.name: node for node in nodes}
    ordered: dict[str, Node] = {}
    late = _behind_blocking(nodes, needs)
    for chosen in (False, True):
        for node in nodes:
            if (node.name in late) is chosen:
                _append(node, left, ordered, needs)
    return list(ordered.values())


def _behind_blocking(nodes: Sequence[Node], needs: Mapping[str, list[str]]) -> set[str]:
    """Return the nodes that may block, and those that need one of them."""
    late: set[str] = set()
    n_known = -1
    # The graph's own order is nearly always sorted, so the second pass finds nothing.
    while len(late) > n_known:
        n_known = len(late)
        for node in nodes:
            if lookup(node.type).blocking or not late.isdisjoint(needs[node.name]):
                late.add(node.name)
    return late


def _append(
    node: Node,
    left: Mapping[str, Node],
    ordered: dict[str, Node],
    needs: Mapping[str, list[str]],
) -> None:
    """Append a node after everything it needs; not recursively, as chains are long."""
    stack, open_names = [(node, False)], set[str]()
    while stack:
        current, is_ready = stack.pop()
        if current.name in ordered:
            continue
        if is_ready:
            open_names.discard(current.name)
            ordered[current.name] = current
            continue
        if current.name in open_names:
            raise InvalidArgumentError(
                f"the graph has a cycle: op {current.name!r} needs its own result."
            )
        open_names.add(current.name)
        stack.append((current, True))
        before = [left[name] for name in needs[current.name] if name not in ordered]
        circle = next((n for n in before if n.name in open_names), None)
        if circle is not None:
            raise InvalidArgumentError(
                f"the graph has a cycle: {circle.name!r} and {current.name!r} need "
                f"each other's result."
            )
        stack.extend((n, False) for n in reversed(before))


def partition(
    order: Sequence[Node],
    placed: Mapping[str, Device],
    fetches: Sequence[Edge],
    feeds: Sequence[Edge],
    done: Collection[str] = (),
) -> dict[Task, Segment]:
    """Cut pruned nodes into one segment for each task that has some.

    A tensor that is both fed and fetched must be handled by the caller, and a variable
    that is read on another task, too; see `read_at_home`.
    """
    cut = _Cut(placed, set(feeds), set(done))
    for node in order:
        cut.add(node)
    for edge in dict.fromkeys(fetches):
        if edge not in cut.fed:
            cut.parts[placed[edge[0]].task].fetches.append(edge)
    return cut.parts


class _Cut:
    """The segments so far."""

    def __init__(
        self, placed: Mapping[str, Device], fed: set[Edge], done: set[str]
    ) -> None:
        self.parts: dict[Task, Segment] = {}
        self.fed = fed
        self._placed, self._done = placed, done
        self._sent: set[tuple[Edge, Task]] = set()

    def add(self, node: Node) -> None:
        here = self._placed[node.name].task
        part = self.parts.setdefault(here, Segment())
        part.nodes.append(node)
        part.devices.append(self._placed[node.name])
        for edge in node.takes:
            if edge not in self.fed:
                self._move(edge, here)
            elif edge not in part.feeds:
                part.feeds.append(edge)
        for name in node.control:
            if name not in self._done:
                self._move((name, DONE), here)

    def _move(self, edge: Edge, here: Task) -> None:
        """Send a tensor to a task that needs it, once."""
        source = self._placed[edge[0]].task
        if source == here or (edge, here) in self._sent:
            return
        number = len(self._sent)
        self._sent.add((edge, here))
        self.parts[here].receives.append(TensorMove(edge, source, number))
        self.parts[source].sends.append(TensorMove(edge, here, number))
