"""The servers in the engines, which make them tasks: start, connect and stop them.

The engines are asked by calls; what they then do is in the plan's `Bootstrap`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kit.cluster.cells import remote
from kit.cluster.cells.calls import TaskCalls
from kit.cluster.own_topologies import take
from kit.cluster.plan import ClusterPlan
from kit.spec import ClusterSpec
from kit.task import Task
from kit.wire.handshake.credentials import Credentials


class Servers:
    """The tasks' servers; all methods are for the thread of the cluster's loop."""

    def __init__(
        self,
        plan: ClusterPlan,
        calls: TaskCalls,
        where: Callable[[Task], tuple[Path, str]],
        credentials: Credentials,
    ) -> None:
        """`where` tells a task's folder and its host's address, if it needs one."""
        self._plan, self._calls = plan, calls
        self._where, self._credentials = where, credentials
        self._topologies: dict[str, bytes] = {}  # of one's own, that all tasks have

    async def start(
        self, tasks: Sequence[Task], where: ClusterSpec | None = None
    ) -> dict[Task, Any]:
        """Start servers; return what each tells of itself, its address above all.

        With `where` each listens at its address there, else at one of its own choice.
        """
        payloads = {task: self._start_payload(task, where) for task in tasks}
        deadline_s = self._plan.start_deadline_s
        told = await self._calls.perform(payloads, deadline_s, "start its server")
        if self._topologies:
            await self._give(tasks, self._topologies)
        return told

    async def bring(
        self, tasks: Sequence[Task], topologies: Mapping[str, bytes]
    ) -> None:
        """Give tasks topologies of one's own, and those that start later as well."""
        self._topologies |= topologies
        await self._give(tasks, topologies)

    async def _give(
        self, tasks: Sequence[Task], topologies: Mapping[str, bytes]
    ) -> None:
        payload = remote.pack(take, [dict(topologies)], {})
        deadline_s, what = self._plan.start_deadline_s, "register a topology"
        await self._calls.perform(dict.fromkeys(tasks, payload), deadline_s, what)

    def _start_payload(self, task: Task, where: ClusterSpec | None) -> bytes:
        folder, host = self._where(task)
        config: dict[str, Any] = {
            "job": task.job,
            "index": task.index,
            "credentials": self._credentials.to_plain(),
            "transport": self._plan.transport,
            "insecure": self._plan.insecure,
            "runtime_dir": str(folder),
            "host": host,
            "settings": dict(self._plan.settings or {}),
        }
        if where is not None:
            config["address"] = where.task_address(task.job, task.index)
        return remote.pack(self._plan.bootstrap.start, [config], {})

    async def connect(self, tasks: Sequence[Task], spec: ClusterSpec) -> None:
        """Tell the tasks where all tasks are."""
        payload = remote.pack(self._plan.bootstrap.connect, [spec.as_dict()], {})
        deadline_s = self._plan.start_deadline_s
        await self._calls.perform(dict.fromkeys(tasks, payload), deadline_s, "connect")

    async def stop(self, tasks: Sequence[Task]) -> None:
        """Stop the tasks' servers as far as they react; never raises."""
        payload = remote.pack(self._plan.bootstrap.stop, [], {})
        deadline_s = self._plan.stop_deadline_s
        # What does not stop by itself is ended a moment later anyway.
        with contextlib.suppress(Exception):
            await self._calls.perform(dict.fromkeys(tasks, payload), deadline_s, "stop")
