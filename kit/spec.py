"""Which tasks a cluster has, and at which address each of them listens.

Pure: no I/O. Addresses are opaque strings here; the code that listens or dials parses
them.

    job      index  address
    ps       0      10.0.0.1:2222
    worker   0      10.0.0.2:2222
    worker   3      10.0.0.5:2222      indices may have holes

Wrong input is a `TypeError` or a `ValueError`, as in TensorFlow, not a `KitError`.
"""

from __future__ import annotations

from typing import Any, cast

from kit.cluster_def import ClusterDef, JobDef, as_text
from kit.task import Task

_Jobs = dict[str, dict[int, str]]


class ClusterSpec:
    """Jobs, their tasks and the tasks' addresses; all tasks are given the same spec.

    Equal to a spec, or to a dict `{job: {index: address}}`, with the same tasks; the
    order of jobs does not matter. Not hashable. False if it has no jobs.

    Parameters
    ----------
    cluster : dict, ClusterDef or ClusterSpec
        A dict of jobs, each with a list or tuple of addresses or a dict
        `{index: address}`; or a `ClusterDef`, which is kept and not copied; or another
        spec, which is copied. Names and addresses are typed as str. Bytes are accepted
        too and are returned as bytes, except by `tasks` and `as_cluster_def`; names of
        both types cannot be mixed.

    Raises
    ------
    TypeError
        Something has another type.
    ValueError
        An index is not a number.

    Examples
    --------
    >>> spec = ClusterSpec({"worker": ["a:1", "b:1"], "ps": {3: "c:1"}})
    >>> spec
    ClusterSpec({'ps': {3: 'c:1'}, 'worker': ['a:1', 'b:1']})
    >>> spec.task_address("worker", 1)
    'b:1'
    """

    def __init__(self, cluster: dict[Any, Any] | ClusterDef | ClusterSpec) -> None:
        if isinstance(cluster, dict):
            self._jobs = {_name(job): _tasks(job, cluster[job]) for job in cluster}
            self._def = _make_def(self._jobs)
        elif isinstance(cluster, ClusterDef):
            self._jobs = {job.name: dict(job.tasks) for job in cluster.job}
            self._def = cluster
        elif isinstance(cluster, ClusterSpec):
            self._def = ClusterDef(
                JobDef(job.name, job.tasks) for job in cluster.as_cluster_def().job
            )
            self._jobs = {job.name: dict(job.tasks) for job in self._def.job}
        else:
            raise TypeError(
                f"a ClusterSpec is made from a dict of jobs, a ClusterDef or a "
                f"ClusterSpec, not from {cluster!r} of type {type(cluster).__name__}."
            )

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs, in the given order.

        A spec made from another spec has them in the order of `as_cluster_def`.
        """
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """Return how many tasks the job has, not counting holes.

        Raises `ValueError` for an unknown job.

        >>> ClusterSpec({"worker": {0: "a:1", 3: "b:1"}}).num_tasks("worker")
        2
        """
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the indices of the job's tasks, ascending.

        Raises `ValueError` for an unknown job.

        >>> ClusterSpec({"worker": {3: "b:1", 0: "a:1"}}).task_indices("worker")
        [0, 3]
        """
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of one task.

        Parameters
        ----------
        job_name : str
            The name of a job.
        task_index : int
            The index of one of its tasks.

        Raises
        ------
        ValueError
            There is no such job, or it has no such index.
        """
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(
                f"job {job_name!r} has no task with the index {task_index!r}; "
                f"it has {sorted(tasks)}."
            )
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Return a job's addresses as a list, each at its task's index.

        Parameters
        ----------
        job_name : str
            The name of a job.

        Returns
        -------
        list of str or None
            None stands at each index that has no task.

        Raises
        ------
        ValueError
            There is no such job, or it has no tasks.
        IndexError
            An index is negative.

        Examples
        --------
        >>> ClusterSpec({"worker": {0: "a:1", 2: "b:1"}}).job_tasks("worker")
        ['a:1', None, 'b:1']
        """
        tasks = self._job(job_name)
        if not tasks:
            raise ValueError(f"job {job_name!r} has no tasks, so it has no addresses.")
        if min(tasks) < 0:
            raise IndexError(
                f"job {job_name!r} has the task index {min(tasks)}, which has no place "
                f"in a list; ask for task_indices() and task_address()."
            )
        return [tasks.get(index) for index in range(max(tasks) + 1)]

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Return the spec as new dicts and lists; the constructor takes them back.

        A job with the indices 0 to n-1 is a list, any other a dict by index; a job
        without tasks is an empty dict.

        >>> ClusterSpec({"a": {1: "y", 0: "x"}, "b": {1: "y"}, "c": []}).as_dict()
        {'a': ['x', 'y'], 'b': {1: 'y'}, 'c': {}}
        """
        return {job: _list_or_dict(tasks) for job, tasks in self._jobs.items()}

    def as_cluster_def(self) -> ClusterDef:
        """Return the `ClusterDef`, the same object in every call.

        Its jobs are sorted by name and its tasks by index; but if the spec was made
        from a `ClusterDef`, it is that one, unchanged.
        """
        return self._def

    def tasks(self) -> list[Task]:
        """Return all tasks: jobs as in `jobs`, in each of them by ascending index.

        >>> spec = ClusterSpec({"worker": {2: "c:1", 0: "a:1"}, "ps": ["b:1"]})
        >>> [task.short for task in spec.tasks()]
        ['worker:0', 'worker:2', 'ps:0']
        """
        return [
            Task(as_text(job, "the name of a job"), index)
            for job, tasks in self._jobs.items()
            for index in sorted(tasks)
        ]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return self._jobs == (other._jobs if isinstance(other, ClusterSpec) else other)

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))!r})"

    def _job(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            names = ", ".join(map(repr, self._jobs)) or "none"
            raise ValueError(
                f"the cluster has no job {job_name!r}; its jobs are: {names}."
            )
        return self._jobs[job_name]


def _name(job: object) -> str:
    as_text(job, "the name of a job")
    return cast(str, job)  # bytes stay bytes, see the class


def _tasks(job: object, tasks: object) -> dict[int, str]:
    if isinstance(tasks, list | tuple):
        pairs = list(enumerate(tasks))
    elif isinstance(tasks, dict):
        pairs = [(_index(job, index), address) for index, address in tasks.items()]
    else:
        raise TypeError(
            f"the tasks of job {job!r} must be a list or tuple of addresses or a dict "
            f"{{index: address}}, not {tasks!r} of type {type(tasks).__name__}."
        )
    for index, address in pairs:
        as_text(address, f"the address of task {index} of job {job!r}")
    return dict(pairs)


def _index(job: object, index: object) -> int:
    # int() accepts "1" and 1.7 too, and so does TensorFlow.
    try:
        return int(index)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError, OverflowError) as exc:
        kind = TypeError if isinstance(exc, TypeError) else ValueError
        raise kind(
            f"the task index {index!r} of job {job!r} is not a number; indices are "
            f"0, 1, 2 and so on."
        ) from exc


def _make_def(jobs: _Jobs) -> ClusterDef:
    if len({type(job) for job in jobs}) > 1:
        raise TypeError(
            f"the names of jobs must be all str or all bytes, not {list(jobs)!r}."
        )
    return ClusterDef(
        JobDef(job, {index: jobs[job][index] for index in sorted(jobs[job])})
        for job in sorted(jobs)
    )


def _list_or_dict(tasks: dict[int, str]) -> list[str] | dict[int, str]:
    indices = sorted(tasks)
    if indices and indices == list(range(len(indices))):
        return [tasks[index] for index in indices]
    return {index: tasks[index] for index in indices}
