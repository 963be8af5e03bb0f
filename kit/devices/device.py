"""Device names such as `/job:worker/task:1/device:GPU:0`: read, write and merge them.

Pure: no I/O. Any part may be missing; it is then "unset" and decided elsewhere. Device
scopes are in `kit.devices.scope`; `check_device` tells whether a cluster has such a
device. A bad name is a `ValueError` and a wrong type an
`AttributeError`, as in TensorFlow, and not a `KitError`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from kit.errors import PlacementError
from kit.task import Task

_SHORT_TYPES = frozenset({"CPU", "GPU", "TPU"})
_UPPER = {"cpu": "CPU", "gpu": "GPU"}


def _device_type(name: object) -> str:
    return _UPPER.get(str(name), str(name))


# The parts in the order of the canonical form, each with the conversion of its values.
_PARTS: dict[str, Callable[[Any], str | int]] = {
    "job": str,
    "replica": int,
    "task": int,
    "device_type": _device_type,
    "device_index": int,
}


class DeviceSpec:
    """A device name as its parts; a part that is None is unset.

    Setting an attribute converts the value as the constructor does. Specs that print
    the same are equal and have the same hash: do not change one that is a key of a
    dict.

    Parameters
    ----------
    job : str, optional
        Such as "worker".
    replica, task, device_index : int, optional
        Numbers, or numbers as text.
    device_type : str, optional
        Such as "GPU"; `cpu` and `gpu` are converted to upper case.

    Raises
    ------
    ValueError
        A part that must be a number is not.

    Examples
    --------
    >>> DeviceSpec(job="ps", task=1, device_type="cpu").to_string()
    '/job:ps/task:1/device:CPU:*'
    """

    __slots__ = tuple(_PARTS)

    job: str | None
    replica: int | None
    task: int | None
    device_type: str | None
    device_index: int | None

    def __init__(
        self,
        job: object = None,
        replica: int | str | None = None,
        task: int | str | None = None,
        device_type: object = None,
        device_index: int | str | None = None,
    ) -> None:
        values = (job, replica, task, device_type, device_index)
        for part, value in zip(_PARTS, values, strict=True):
            setattr(self, part, value)

    def __setattr__(self, part: str, value: object) -> None:
        if value is not None and part in _PARTS:
            value = _PARTS[part](value)
        object.__setattr__(self, part, value)

    def to_string(self) -> str:
        """Return the canonical form; a device index without a type prints nothing.

        >>> DeviceSpec(task=0, job="ps").to_string()
        '/job:ps/task:0'
        """
        text = "".join(
            f"/{part}:{value}"
            for part, value in (
                ("job", self.job),
                ("replica", self.replica),
                ("task", self.task),
            )
            if value is not None
        )
        if self.device_type is None:
            return text
        index = "*" if self.device_index is None else self.device_index
        return f"{text}/device:{self.device_type}:{index}"

    @staticmethod
    def from_string(spec: str | None) -> DeviceSpec:
        """Return the spec that a device name describes.

        Parameters
        ----------
        spec : str or None
            Parts in any order; if one is repeated, the last one counts. `/cpu:0` is
            short for `/device:CPU:0`; without an index, or with `*`, any index will do.
            None and "" set nothing.

        Raises
        ------
        ValueError
            The text cannot be read.
        AttributeError
            It is not a str.

        Examples
        --------
        >>> DeviceSpec.from_string("/gpu:1/job:ps").to_string()
        '/job:ps/device:GPU:1'
        """
        return DeviceSpec(**_parse(spec))

    def parse_from_string(self, spec: str | None) -> DeviceSpec:
        """Replace all parts by those of a device name, unset ones too; return self.

        Raises as `from_string` does, and changes nothing then.

        >>> DeviceSpec(job="ps").parse_from_string("/task:1").to_string()
        '/task:1'
        """
        parsed = self.from_string(spec)
        for part in _PARTS:
            setattr(self, part, getattr(parsed, part))
        return self

    def merge_from(self, dev: DeviceSpec) -> None:
        """Replace the parts that are set in `dev`.

        >>> spec = DeviceSpec(job="ps", task=0)
        >>> spec.merge_from(DeviceSpec(task=1))
        >>> spec.to_string()
        '/job:ps/task:1'
        """
        merged = self.make_merged_spec(dev)
        for part in _PARTS:
            setattr(self, part, getattr(merged, part))

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Return a new spec with the parts that `dev` sets, else those of self.

        >>> spec = DeviceSpec(job="ps", task=0)
        >>> spec.make_merged_spec(DeviceSpec(task=1)).to_string()
        '/job:ps/task:1'
        """
        parts = {part: getattr(dev, part) for part in _PARTS}
        return self.replace(**{k: v for k, v in parts.items() if v is not None})

    def replace(self, **parts: Any) -> DeviceSpec:
        """Return a new spec with the given parts changed; None unsets a part.

        Raises `TypeError` for a part that a device name does not have.

        >>> DeviceSpec(job="ps", task=0).replace(task=None).to_string()
        '/job:ps'
        """
        return DeviceSpec(**({part: getattr(self, part) for part in _PARTS} | parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        parts = ((part, getattr(self, part)) for part in _PARTS)
        filled = (f"{part}={value!r}" for part, value in parts if value is not None)
        return f"DeviceSpec({', '.join(filled)})"


def merge(outer: DeviceSpec, inner: DeviceSpec) -> DeviceSpec:
    """Return the device that results from the scope `inner` inside the scope `outer`.

    Part by part: the inner scope wins, the outer one fills in unset parts. The index
    `*` counts as unset, so the outer index is used, even with another type.

    >>> outer = DeviceSpec.from_string("/job:ps/device:GPU:1")
    >>> merge(outer, DeviceSpec.from_string("/task:2/cpu")).to_string()
    '/job:ps/task:2/device:CPU:1'
    """
    return outer.make_merged_spec(inner)


def _parse(spec: str | None) -> dict[str, Any]:
    if spec is None:
        return {}
    if not isinstance(spec, str):
        # As in TensorFlow, which calls `split("/")`: bytes refuse a str, others lack
        # it.
        kind = TypeError if isinstance(spec, bytes) else AttributeError
        raise kind(
            f"a device name is a str, not {spec!r} of type {type(spec).__name__}; "
            f"write '/job:worker/task:1' or '/cpu:0'."
        )
    parts: dict[str, Any] = {}
    for text in spec.split("/"):
        part = _parse_part(text, spec)
        if "device_type" in part and "device_type" in parts:
            raise ValueError(
                f"{spec!r} names two devices, {parts['device_type']} and "
                f"{part['device_type']}; leave one of them out."
            )
        parts |= part
    return parts


def _meant(spec: str) -> str:
    """Return what a task's short name would be as a device, in words."""
    match = re.fullmatch(r"/?(?:job:)?([A-Za-z]\w*)(?:[:/](\d+))?", spec)
    if match is None:
        return ""
    job, task = match.groups()
    return f" (for a task write '/job:{job}{f'/task:{task}' if task else ''}')"


def _parse_part(text: str, spec: str) -> dict[str, Any]:
    match text.split(":"):
        case ["", *_]:
            return {}
        case ["job", job]:
            return {"job": job}
        case ["replica" | "task" as name, index]:
            return {name: _number(index, text, spec)}
        case ["device", device_type, index]:
            pass
        case [short, *rest] if short.upper() in _SHORT_TYPES and len(rest) < 2:
            device_type, index = short.upper(), rest[0] if rest else "*"
        case _:
            raise ValueError(
                f"{text!r} in {spec!r} is not part of a device name{_meant(spec)}; the "
                f"parts are /job:NAME, /replica:N, /task:N, /device:TYPE:N, /cpu:N and "
                f"/gpu:N."
            )
    if index == "*":
        return {"device_type": device_type}
    return {"device_type": device_type, "device_index": _number(index, text, spec)}


def _number(index: str, part: str, spec: str) -> int:
    try:
        return int(index)
    except ValueError as exc:
        raise ValueError(
            f"{part!r} in {spec!r} must end in a whole number, not in {index!r}."
        ) from exc


# --------------------------------------------------------------------------------------
# Whether a cluster has the task that a device names, and which may be meant instead.
#
# Pure. It checks job, replica and task only: each task itself checks which devices it
# has. A layer above says which tasks the current cluster has.


def check_known(device: str, tasks: Sequence[Task]) -> None:
    """Refuse a device name that matches none of the tasks of a cluster.

    Parts that are unset, and the job `*`, match anything; there is only replica 0.
    Raises `PlacementError`, which lists the tasks and suggests the nearest name.

    >>> tasks = [Task("ps", 0), Task("worker", 0), Task("worker", 1)]
    >>> check_known("/job:worker/gpu:0", tasks)
    >>> check_known("/job:wroker/task:1", tasks)
    Traceback (most recent call last):
    kit.errors.PlacementError: no task is called '/job:wroker/task:1'; this cluster has\
 ps:0, worker:0..1. Did you mean '/job:worker/task:1'?
    """
    try:
        spec = DeviceSpec.from_string(device)
    except ValueError as exc:
        raise PlacementError(f"{exc} This cluster has {listed(tasks)}.") from exc
    if spec.job == "*":
        spec.job = None
    asks = (spec.job, spec.replica, spec.task) != (None, None, None)
    if asks and not _matching(spec, tasks):
        raise PlacementError(
            f"no task is called {device!r}; this cluster has {listed(tasks)}."
            f"{_advice(spec, tasks)}"
        )


def listed(tasks: Sequence[Task]) -> str:
    """Return the tasks in short, job by job: neighbours are written as a range.

    >>> listed([Task("ps", 0), *(Task("worker", i) for i in (0, 1, 2, 5))])
    'ps:0, worker:0..2, worker:5'
    """
    jobs = dict.fromkeys(task.job for task in tasks)
    texts = [
        f"{job}:{first}" if first == last else f"{job}:{first}..{last}"
        for job in jobs
        for first, last in _ranges(sorted(t.index for t in tasks if t.job == job))
    ]
    return ", ".join(texts) or "no tasks"


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] > numbers[i - 1] + 1:
            yield numbers[start], numbers[i - 1]
            start = i


def _matching(spec: DeviceSpec, tasks: Sequence[Task]) -> list[Task]:
    if spec.replica not in (None, 0):
        return []
    return [
        task
        for task in tasks
        if spec.job in (None, task.job) and spec.task in (None, task.index)
    ]


def _advice(spec: DeviceSpec, tasks: Sequence[Task]) -> str:
    near = spec.replace(job=_nearest_job(spec.job, tasks))
    near.replica = None if spec.replica is None else 0
    indices = [task.index for task in _matching(near.replace(task=None), tasks)]
    if not indices:
        return " Place on one of these." if tasks else " Start a cluster first."
    if spec.task is not None:
        wanted = spec.task
        near.task = min(indices, key=lambda index: (abs(index - wanted), index))
    return f" Did you mean {near.to_string()!r}?"


def _nearest_job(job: str | None, tasks: Sequence[Task]) -> str | None:
    """Return the known job that is most similar to `job`, or `job` if none is."""
    if job is None or any(task.job == job for task in tasks):
        return job
    jobs = {task.job.lower(): task.job for task in tasks}
    near = difflib.get_close_matches(job.lower(), jobs, n=1, cutoff=0.5)
    return jobs[near[0]] if near else job


Find = Callable[[], Sequence[Task] | None]

_find: Find | None = None


def set_known_tasks(find: Find | None) -> None:
    """Set how the current tasks are found; `find` returns None without a cluster."""
    global _find  # the layer above registers itself here
    _find = find


def check_device(device: str) -> None:
    """Raise `PlacementError` if the current cluster has no task of this name."""
    tasks = _find() if _find is not None and device else None
    if tasks is not None:
        _check_once(device, tuple(tasks))


# A graph asks for the same few names again and again.
@lru_cache(maxsize=256)
def _check_once(device: str, tasks: tuple[Task, ...]) -> None:
    check_known(device, tasks)
