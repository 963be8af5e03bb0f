"""The step stats of a run as events of a Chrome trace.

Pure. One process for each device; what overlaps in time goes to another thread of it.
"""

from __future__ import annotations

from typing import Any

from kit.tf1.session.run_metadata import DeviceStepStats, NodeExecStats, StepStats
from kit.trace.events import lanes

Event = dict[str, Any]


def events_of(stats: StepStats) -> list[Event]:
    """Return the events, in microseconds from the first begin."""
    nodes = [node for device in stats.dev_stats for node in device.node_stats]
    origin = min((one.all_start_micros for one in nodes), default=0)
    found: list[Event] = []
    for pid, device in enumerate(stats.dev_stats):
        found.append(_named(pid, device.device))
        found += _slices(pid, device, origin)
    return found


def _slices(pid: int, device: DeviceStepStats, origin: int) -> list[Event]:
    nodes = list(device.node_stats)
    times = [
        (one.all_start_micros, one.all_start_micros + max(1, one.all_end_rel_micros))
        for one in nodes
    ]
    return [
        {
            "ph": "X",
            "cat": "Op",
            "name": one.node_name,
            "pid": pid,
            "tid": lane,
            "ts": start - origin,
            "dur": end - start,
            "args": _details(one),
        }
        for one, (start, end), lane in zip(nodes, times, lanes(times), strict=True)
    ]


def _details(node: NodeExecStats) -> dict[str, str]:
    return {"name": node.node_name, "label": node.timeline_label}


def _named(pid: int, device: str) -> Event:
    return {
        "ph": "M",
        "name": "process_name",
        "pid": pid,
        "args": {"name": f"{device} Compute"},
    }
