"""Devices of tasks, and which of them an op gets.

Pure. A task has its CPU and the GPUs that its process sees. The order of the rules:
a full name, part of a name, the place of an op it must share, the target's own CPU.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit.device import DeviceSpec
from kit.errors import InvalidArgumentError, PlacementError
from kit.graph.node import Node
from kit.graph.table import lookup
from kit.task import Task


@dataclass(frozen=True, order=True, slots=True)
class Device:
    """One device of one task.

    >>> Device(Task("ps", 0), "CPU", 0).name
    '/job:ps/replica:0/task:0/device:CPU:0'
    """

    task: Task
    type: str = "CPU"
    index: int = 0

    @property
    def name(self) -> str:
        """The full name, as the original writes it."""
        task = self.task
        return (
            f"/job:{task.job}/replica:0/task:{task.index}"
            f"/device:{self.type}:{self.index}"
        )


def place(
    nodes: Mapping[str, Node],
    devices: Sequence[Device],
    target: Task,
    *,
    soft: bool = False,
) -> dict[str, Device]:
    """Return the device of every node.

    Raises `PlacementError` for a request that no device matches. With `soft` another
    device of the same task is taken where the type or the number does not exist.
    """
    order = sorted(devices, key=lambda one: (one.task != target, one))
    groups = _Groups(nodes)
    placed: dict[str, Device] = {}
    by_request: dict[str, Device] = {}
    for name, node in nodes.items():
        leader = nodes[groups.leader(name)]
        if leader.device not in by_request:
            by_request[leader.device] = _choose(leader, order, soft)
        placed[name] = by_request[leader.device]
    return placed


class _Groups:
    """Which nodes must share a device, and whose request counts."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes, self._above = nodes, {}  # type: ignore[var-annotated]
        for name, node in nodes.items():
            for edge in _taken_by_reference(node):
                self._join(name, edge)
            for group in node.colocation:
                if group in nodes and group != name:
                    self._join(name, group)

    def leader(self, name: str) -> str:
        while name in self._above:
            name = self._above[name]
        return name

    def _join(self, name: str, to: str) -> None:
        """Let `name` follow `to`: the variable, or the anchor, decides."""
        own, other = self.leader(name), self.leader(to)
        if own != other:
            self._above[own] = other


def _taken_by_reference(node: Node) -> Iterable[str]:
    refs = lookup(node.type).refs
    return [node.inputs[i][0] for i in refs if i < len(node.inputs)]


def _choose(node: Node, devices: Sequence[Device], soft: bool) -> Device:
    try:
        wanted = DeviceSpec.from_string(node.device)
    except ValueError as exc:
        raise InvalidArgumentError(f"op {node.name!r}{_made_at(node)}: {exc}") from exc
    here = [one for one in devices if _is_task(one.task, wanted)]
    fitting = [one for one in here if _is_device(one, wanted)]
    if fitting:
        # An accelerator is taken only by those who ask for it.
        return min(fitting, key=lambda one: (one.type != "CPU", fitting.index(one)))
    if soft and here:
        return next((one for one in here if one.type == "CPU"), here[0])
    raise PlacementError(_refusal(node, wanted, devices, here))


def _is_task(task: Task, wanted: DeviceSpec) -> bool:
    return (
        wanted.job in (None, task.job)
        and wanted.task in (None, task.index)
        and wanted.replica in (None, 0)
    )


def _is_device(device: Device, wanted: DeviceSpec) -> bool:
    if wanted.device_type not in (None, device.type):
        return False
    return wanted.device_index in (None, device.index) or wanted.device_type is None


def _refusal(
    node: Node, wanted: DeviceSpec, devices: Sequence[Device], here: Sequence[Device]
) -> str:
    known = sorted({one.name for one in (here or devices)})
    near = difflib.get_close_matches(node.device, known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near and not here else ""
    where = f"{here[0].task} has" if here else "the cluster has"
    return (
        f"op {node.name!r}{_made_at(node)} was placed on {wanted.to_string()!r}, but "
        f"{where} only: {', '.join(known)}.{hint}"
    )


def _made_at(node: Node) -> str:
    return f" ({node.place})" if node.place else ""
