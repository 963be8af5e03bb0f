"""Lanes: which strip of the picture a task gets, and which strips are neighbours.

Pure. Tasks that send each other much become neighbours, so that few lines pass below
the boxes of a third one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations

from kit.devices.device import DeviceSpec

NOT_PLACED = "not placed"
# All 720 orders are tried in a millisecond. Of more lanes only the busiest is moved, to
# the middle.
_MOST_TRIED = 6


@lru_cache(maxsize=1024)
def lane_of(device: str) -> str:
    """Return the lane of a device name: its task, as far as the name has one.

    >>> lane_of("/job:ps/task:1/device:CPU:0"), lane_of("/job:ps"), lane_of("")
    ('ps:1', 'ps', 'not placed')
    """
    try:
        spec = DeviceSpec.from_string(device)
    except ValueError:
        return device
    if spec.job is None and spec.task is None:
        return NOT_PLACED
    job = spec.job or "task"
    return job if spec.task is None else f"{job}:{spec.task}"


def device_of(device: str) -> str:
    """Return what to show of the device besides its task: an accelerator.

    >>> device_of("/job:ps/device:GPU:1"), device_of("/job:ps/device:CPU:0")
    ('GPU:1', '')
    """
    _, mark, rest = device.rpartition("/device:")
    return rest if mark and not rest.startswith("CPU") else ""


def lane_order(
    lanes: Sequence[str], traffic: Mapping[tuple[str, str], int]
) -> tuple[str, ...]:
    """Return the lanes, sorted, unless another order brings traffic closer together.

    >>> lane_order(["ps:0", "worker:0", "worker:1"],
    ...            {("ps:0", "worker:0"): 4, ("worker:1", "ps:0"): 4})
    ('worker:0', 'ps:0', 'worker:1')
    """
    tasks = sorted({lane for lane in lanes if lane != NOT_PLACED}, key=_sort_key)
    between = {pair: n for pair, n in traffic.items() if NOT_PLACED not in pair}
    rest = (NOT_PLACED,) if NOT_PLACED in lanes else ()
    if len(tasks) > _MOST_TRIED:
        return _busiest_in_the_middle(tasks, between) + rest

    def distance(order: Sequence[str]) -> int:
        at = {lane: i for i, lane in enumerate(order)}
        return sum(n * abs(at[a] - at[b]) for (a, b), n in between.items())

    # Of equally good orders `min` takes the first, and the first is the sorted one.
    return min(permutations(tasks), key=distance) + rest


def _busiest_in_the_middle(
    tasks: Sequence[str], traffic: Mapping[tuple[str, str], int]
) -> tuple[str, ...]:
    load = dict.fromkeys(tasks, 0)
    for (a, b), n in traffic.items():
        load[a] += n
        load[b] += n
    busiest = max(tasks, key=lambda lane: load[lane])
    others = [lane for lane in tasks if lane != busiest]
    half = len(others) // 2
    return (*others[:half], busiest, *others[half:])


def _sort_key(lane: str) -> tuple[str, int]:
    job, _, index = lane.partition(":")
    return job, int(index) if index.isdigit() else -1
