"""What a traced run records: which node ran on which device, and when.

Pure. Times are microseconds of the clock of the task that ran the node. In a
Chrome trace each device is a process; what overlaps goes to another thread of it.
"""

from __future__ import annotations

from typing import Any

from kit.session.client.metadata import RunMetadata as NativeMetadata
from kit.tf1.graph.graph_def import GraphDef, NodeDef
from kit.tf1.graph.message import CheckedMessage, Repeated
from kit.tf1.session.config import RunOptions
from kit.trace.events import lanes

_MICROS = 1_000_000


class NodeExecStats(CheckedMessage):
    """When one node ran; `rel` counts from its own start."""

    node_name: str
    all_start_micros: int
    op_start_rel_micros: int
    op_end_rel_micros: int
    all_end_rel_micros: int
    timeline_label: str
    scheduled_micros: int
    thread_id: int
    all_start_nanos: int
    all_end_rel_nanos: int


class DeviceStepStats(CheckedMessage):
    """What ran on one device."""

    device: str
    node_stats: Repeated[NodeExecStats]


class StepStats(CheckedMessage):
    """What ran on all devices."""

    dev_stats: Repeated[DeviceStepStats]


class RunMetadata(CheckedMessage):
    """Filled by a run with `RunOptions(trace_level=RunOptions.FULL_TRACE)`."""

    step_stats: StepStats
    partition_graphs: Repeated[GraphDef]


def wants_metadata(options: RunOptions | None) -> bool:
    """Whether a run has to record what it does."""
    return options is not None and (
        options.trace_level > RunOptions.NO_TRACE or options.output_partition_graphs
    )


def fill(
    metadata: RunMetadata, native: NativeMetadata, options: RunOptions | None
) -> None:
    """Take over what a run of `kit.session` recorded, as far as the options ask."""
    metadata.Clear()
    if options is not None and options.trace_level > RunOptions.NO_TRACE:
        _fill_stats(metadata, native)
    if options is not None and options.output_partition_graphs:
        metadata.partition_graphs.extend(_partitions(native))


def _partitions(native: NativeMetadata) -> list[GraphDef]:
    """Return one graph for each device: what ran there, what was sent and received."""
    graphs: dict[str, GraphDef] = {}
    for node, device, _, _ in native.nodes:
        if device:
            graph = graphs.setdefault(device, GraphDef())
            graph.node.append(NodeDef(name=node, device=device))
    for name, source, destination, *_ in native.transfers:
        for kind, task in (("_Send", source), ("_Recv", destination)):
            device = _cpu_of(task)
            made = NodeDef(name=f"{name}/{kind}", op=kind, device=device)
            graphs.setdefault(device, GraphDef()).node.append(made)
    return [graphs[device] for device in sorted(graphs)]


def _fill_stats(metadata: RunMetadata, native: NativeMetadata) -> None:
    by_device: dict[str, list[NodeExecStats]] = {}
    for node, device, begin, end in native.nodes:
        stats = by_device.setdefault(device, [])
        stats.append(_stats(node, begin, end))
    for name, source, destination, n_bytes, begin, end in native.transfers:
        stats = by_device.setdefault(_cpu_of(destination), [])
        stats_of_move = _stats("RecvTensor", begin, end)
        stats_of_move.timeline_label = (
            f"[{n_bytes} B] {name} from {source} to {destination}"
        )
        stats.append(stats_of_move)
    for device in sorted(by_device):
        rows = DeviceStepStats(device=device, node_stats=by_device[device])
        metadata.step_stats.dev_stats.append(rows)


def _stats(node: str, begin: float, end: float) -> NodeExecStats:
    length = max(0.0, end - begin)
    return NodeExecStats(
        node_name=node,
        all_start_micros=int(begin * _MICROS),
        op_end_rel_micros=int(length * _MICROS),
        all_end_rel_micros=int(length * _MICROS),
        all_start_nanos=int(begin * 1000 * _MICROS),
        all_end_rel_nanos=int(length * 1000 * _MICROS),
        timeline_label=node,
    )


def _cpu_of(task: str) -> str:
    """Return the name of a task's CPU: `/job:ps/replica:0/task:0/device:CPU:0`."""
    job, _, index = task.rpartition("/task:")
    return f"{job}/replica:0/task:{index}/device:CPU:0"


Event = dict[str, Any]


def events_of(stats: StepStats) -> list[Event]:
    """Return the events, in microseconds from the first begin."""
    nodes = [node for device in stats.dev_stats for node in device.node_stats]
    origin = min((node.all_start_micros for node in nodes), default=0)
    events: list[Event] = []
    for pid, device in enumerate(stats.dev_stats):
        events.append(_named(pid, device.device))
        events += _slices(pid, device, origin)
    return events


def _slices(pid: int, device: DeviceStepStats, origin: int) -> list[Event]:
    nodes = list(device.node_stats)
    times = [
        (node.all_start_micros, node.all_start_micros + max(1, node.all_end_rel_micros))
        for node in nodes
    ]
    return [
        {
            "ph": "X",
            "cat": "Op",
            "name": node.node_name,
            "pid": pid,
            "tid": lane,
            "ts": start - origin,
            "dur": end - start,
            "args": {"name": node.node_name, "label": node.timeline_label},
        }
        for node, (start, end), lane in zip(nodes, times, lanes(times), strict=True)
    ]


def _named(pid: int, device: str) -> Event:
    return {
        "ph": "M",
        "name": "process_name",
        "pid": pid,
        "args": {"name": f"{device} Compute"},
    }
