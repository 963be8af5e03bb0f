"""Devices of tasks, and which of them each op is placed on.

Pure. A task has its CPU and the GPUs that its process sees. The order of the rules:
a full name, part of a name, the place of an op it must share, the target's own CPU.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kit.devices.device import DeviceSpec, merge
from kit.errors import InvalidArgumentError, KitError, PlacementError
from kit.graph.dtypes import STRING, DType
from kit.graph.node import Edge, Node
from kit.graph.static import Static
from kit.graph.table import lookup
from kit.task import Task

# --------------------------------------------------------------------------------------
# Which ops stay on the host of their task: those that work with texts or call Python.


_UNKNOWN = np.dtype("float32")


def hosted_nodes(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return the names of these nodes, with the reason: "holds texts".

    `nodes` are in an order in which inputs come first.
    """
    dtypes: dict[Edge, DType] = {}
    reasons: dict[str, str] = {}
    for name, node in nodes.items():
        own = _dtypes(node, dtypes)
        dtypes.update(((name, i), dtype) for i, dtype in enumerate(own))
        if lookup(node.type).hosted:
            reasons[name] = "is computed by Python"
        elif STRING in own or any(dtypes.get(edge) == STRING for edge in node.inputs):
            reasons[name] = "works with texts"
    return reasons


def _dtypes(node: Node, dtypes: Mapping[Edge, DType]) -> list[DType]:
    statics = [Static(None, dtypes.get(edge, _UNKNOWN)) for edge in node.inputs]
    try:
        return [static.dtype for static in lookup(node.type).infer(statics, node.attrs)]
    except (TypeError, ValueError, LookupError, AttributeError):
        return []  # its rule needs a shape, as no rule of an op with texts does


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
        """The full name, as TensorFlow writes it."""
        task = self.task
        return (
            f"/job:{task.job}/replica:0/task:{task.index}"
            f"/device:{self.type}:{self.index}"
        )


def place_nodes(
    nodes: Mapping[str, Node],
    devices: Sequence[Device],
    target: Task,
    *,
    soft: bool = False,
    refused: dict[str, KitError] | None = None,
) -> dict[str, Device]:
    """Return the device of every node.

    Raises `PlacementError` for a request that no device matches, unless `refused` is
    given: then such nodes are left out, and their errors put in there. With `soft`,
    another device of the same task is taken where the type or the number does not
    exist, or cannot do what an op does.
    """
    order = sorted(devices, key=lambda device: (device.task != target, device))
    groups = _Groups(nodes)
    bound = _bound_to_host(nodes, devices, groups)
    placed: dict[str, Device] = {}
    # A graph has many ops and few different requests, each of which takes parsing.
    by_request: dict[tuple[str, bool], Device | KitError] = {}
    groups.let_constants_follow()
    requests = groups.requests()
    for name in nodes:
        root = nodes[groups.root(name)]
        if root.name in requests:
            root = replace(root, device=requests[root.name])
        request = root.device, root.name in bound
        if request not in by_request:
            by_request[request] = _device_or_error(
                root, order, soft, bound.get(root.name)
            )
        choice = by_request[request]
        own = nodes[name].device
        if own and own != root.device and isinstance(choice, Device):
            # It goes with the others, but what it asks for must exist all the same.
            if (own, False) not in by_request:
                by_request[own, False] = _device_or_error(
                    nodes[name], order, soft, None
                )
            if isinstance(error := by_request[own, False], KitError):
                choice = error
        if isinstance(choice, Device):
            placed[name] = choice
        elif refused is None:
            raise choice
        else:
            refused[name] = choice
    return placed


def _device_or_error(
    node: Node, devices: Sequence[Device], soft: bool, why_host: str | None
) -> Device | KitError:
    try:
        return _choose(node, devices, soft, why_host)
    except InvalidArgumentError as error:
        return error


def _bound_to_host(
    nodes: Mapping[str, Node], devices: Sequence[Device], groups: _Groups
) -> dict[str, str]:
    """Return the roots of groups that no GPU can take, with the reason."""
    if all(device.type == "CPU" for device in devices):
        return {}
    return {
        groups.root(name): f"{name!r} {why}"
        for name, why in hosted_nodes(nodes).items()
    }


class _Groups:
    """Which nodes must share a device, and whose request counts.

    A forest: each node points to the one that it follows, a variable or an anchor.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes, self._above = nodes, {}  # type: ignore[var-annotated]
        for name, node in nodes.items():
            for edge in _taken_by_reference(node):
                self._join(name, edge)
            for group in node.colocation:
                if group in nodes and group != name:
                    self._join(name, group)

    def root(self, name: str) -> str:
        while name in self._above:
            name = self._above[name]
        return name

    def requests(self) -> dict[str, str]:
        """Return the requests of groups, by root, where members complete the root's."""
        requested: dict[str, str] = {}
        for name in self._above:
            root, request = self.root(name), self._nodes[name].device
            before = requested.get(root, self._nodes[root].device)
            if request and request != before:
                requested[root] = _completed(before, request)
        return requested

    def let_constants_follow(self) -> None:
        """Place a constant without a request with the only op that uses it.

        Else it would be sent there in every run.
        """
        users: dict[str, list[str]] = {}
        for name, node in self._nodes.items():
            for input_name, _ in node.inputs:
                users.setdefault(input_name, []).append(name)
        anchors = set(self._above.values())
        for name, node in self._nodes.items():
            is_said = node.device or node.colocation or node.control or name in anchors
            if node.type == "Const" and not is_said and len(users.get(name, ())) == 1:
                self._join(name, users[name][0])

    def _join(self, name: str, to: str) -> None:
        """Let `name` follow `to`: the variable, or the anchor, decides."""
        own, other = self.root(name), self.root(to)
        if own != other:
            self._above[own] = other


@lru_cache(maxsize=1024)
def _completed(device: str, request: str) -> str:
    """Return a device with what another adds to it, or as it is if they contradict."""
    try:
        mine, other = DeviceSpec.from_string(device), DeviceSpec.from_string(request)
    except ValueError:
        return device  # what cannot be read is reported when its op is placed
    both = merge(outer=other, inner=mine).to_string()
    return both if merge(outer=mine, inner=other).to_string() == both else device


def _taken_by_reference(node: Node) -> Iterable[str]:
    refs = lookup(node.type).refs
    return [node.inputs[i][0] for i in refs if i < len(node.inputs)]


def _choose(
    node: Node, devices: Sequence[Device], soft: bool, why_host: str | None
) -> Device:
    try:
        wanted = DeviceSpec.from_string(node.device)
    except ValueError as exc:
        raise InvalidArgumentError(f"op {node.name!r}{_made_at(node)}: {exc}") from exc
    here = [device for device in devices if _is_task(device.task, wanted)]
    able = [device for device in here if device.type == "CPU" or why_host is None]
    fitting = [device for device in able if _is_device(device, wanted)]
    if fitting:
        # Only an op that asks for an accelerator gets one.
        return min(
            fitting, key=lambda device: (device.type != "CPU", fitting.index(device))
        )
    if soft and here:
        return next((device for device in here if device.type == "CPU"), here[0])
    if why_host is not None and any(_is_device(device, wanted) for device in here):
        raise PlacementError(
            f"op {node.name!r}{_made_at(node)} was placed on {wanted.to_string()!r}, "
            f"but {why_host}, which a GPU cannot; place it on a CPU of {here[0].task}, "
            f"or allow that with soft_placement=True."
        )
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
    names = sorted({device.name for device in (here or devices)})
    near = difflib.get_close_matches(node.device, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near and not here else ""
    is_one = len({device.task for device in here}) == 1
    where = f"{here[0].task} has" if is_one else "the cluster has"
    return (
        f"op {node.name!r}{_made_at(node)} was placed on {wanted.to_string()!r}, but "
        f"{where} only: {', '.join(names)}.{hint}"
    )


def _made_at(node: Node) -> str:
    return f" ({node.source_line})" if node.source_line else ""
