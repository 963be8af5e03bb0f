"""A segment as plain data, for its way from the master to a task. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.errors import ProtocolError
from kit.graph.dtypes import Array
from kit.graph.node import UNREADABLE
from kit.graph.node import from_plain as nodes_from_plain
from kit.graph.node import to_plain as nodes_to_plain
from kit.session.master.devices import Device
from kit.session.master.partition import Segment, TensorMove
from kit.task import Task


def to_plain(segment: Segment) -> tuple[dict[str, Any], list[Array]]:
    """Return a segment as JSON data and its arrays."""
    nodes, arrays = nodes_to_plain(segment.nodes)
    plain = {
        "nodes": nodes,
        "devices": [[one.type, one.index] for one in segment.devices],
        "feeds": segment.feeds,
        "receives": [
            [one.edge, one.peer.short, one.number] for one in segment.receives
        ],
        "sends": [
            [one.edge, one.peer.short, one.number, one.after] for one in segment.sends
        ],
        "fetches": segment.fetches,
    }
    return plain, arrays


def from_plain(plain: dict[str, Any], arrays: Sequence[Array], me: Task) -> Segment:
    """Return the segment of task `me`; raises `ProtocolError`."""
    try:
        return Segment(
            nodes_from_plain(plain["nodes"], arrays),
            [Device(me, str(kind), int(index)) for kind, index in plain["devices"]],
            [_edge(edge) for edge in plain["feeds"]],
            [_move(*one) for one in plain["receives"]],
            [_move(*one) for one in plain["sends"]],
            [_edge(edge) for edge in plain["fetches"]],
        )
    except UNREADABLE as exc:
        raise ProtocolError(f"a segment came that cannot be read: {exc}.") from exc


def _edge(plain: Any) -> tuple[str, int]:
    name, number = plain
    return str(name), int(number)


def _move(edge: Any, task: Any, number: Any, after: Any = "") -> TensorMove:
    return TensorMove(_edge(edge), Task.parse(str(task)), int(number), str(after))
