"""The servers in the engines, which make them tasks: start, connect and stop them.

The engines are asked by calls; what they then do is in the options' `Bootstrap`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kit.cluster.cells import remote
from kit.cluster.cells.calls import TaskCalls
from kit.cluster.options import ClusterOptions
from kit.cluster.training_start import take
from kit.errors import PeerLost
from kit.spec import ClusterSpec
from kit.task import Task
from kit.wire.handshake.credentials import Credentials


def changed_spec(
    spec: ClusterSpec, more: Mapping[Task, str], without: Task | None = None
) -> ClusterSpec:
    """Return a spec with the addresses of more tasks, or without a task."""
    address_of = {
        task: spec.task_address(task.job, task.index) for task in spec.tasks()
    }
    addresses: dict[str, dict[int, str]] = {}
    for task, address in (address_of | dict(more)).items():
        if task != without:
            addresses.setdefault(task.job, {})[task.index] = address
    return ClusterSpec(dict(addresses))


class Servers:
    """The tasks' servers; all methods are for the thread of the cluster's loop."""

    def __init__(
        self,
        options: ClusterOptions,
        calls: TaskCalls,
        where: Callable[[Task], tuple[Path, str, int]],
        credentials: Credentials,
    ) -> None:
        """Take `where`: a task's folder, host address and number among its workers.

        The address is empty if all tasks are on one host.
        """
        self._options, self._calls = options, calls
        self._where, self._credentials = where, credentials
        # The user's own, which a task with a new process needs too.
        self._topologies: dict[str, bytes] = {}
        # A task that gets a new server meanwhile would miss what the others are told.
        self.telling = asyncio.Lock()

    async def start(
        self, tasks: Sequence[Task], threads: int, where: ClusterSpec | None = None
    ) -> dict[Task, Any]:
        """Start servers; return each one's reply, which has its address.

        `threads` are those of BLAS, the same for all tasks of a cluster.
        With `where` each listens at its address there, else it chooses one.
        """
        payloads = {task: self._start_payload(task, threads, where) for task in tasks}
        deadline_s = self._options.start_deadline_s
        return await self._calls.perform(payloads, deadline_s, "start its server")

    async def catch_up(self, tasks: Sequence[Task]) -> None:
        """Give the user's topologies to tasks that were started after `bring`."""
        if self._topologies:
            await self._give(tasks, self._topologies)

    async def tell(
        self,
        in_reach: Callable[[], list[Task]],
        tell: Callable[[list[Task]], Awaitable[None]],
        *new: Task,
    ) -> None:
        """Tell all tasks that can be reached, and new ones, which have to be."""
        while True:
            here = [*in_reach(), *new]
            try:
                await tell(here)
            except PeerLost:
                # The others can do without the lost task. If nothing is lost as far as
                # we know, trying again would never end.
                if [*in_reach(), *new] == here:
                    raise
            else:
                return

    async def bring(
        self, tasks: Sequence[Task], topologies: Mapping[str, bytes]
    ) -> None:
        """Give the user's topologies to tasks; `catch_up` gives them to later ones."""
        self._topologies |= topologies
        await self._give(tasks, topologies)

    async def _give(
        self, tasks: Sequence[Task], topologies: Mapping[str, bytes]
    ) -> None:
        payload = remote.pack(take, [dict(topologies)], {})
        deadline_s, what = self._options.start_deadline_s, "register a topology"
        await self._calls.perform(dict.fromkeys(tasks, payload), deadline_s, what)

    def _start_payload(
        self, task: Task, threads: int, where: ClusterSpec | None
    ) -> bytes:
        folder, host, number_on_host = self._where(task)
        config: dict[str, Any] = {
            "job": task.job,
            "index": task.index,
            "credentials": self._credentials.to_plain(),
            "transport": self._options.transport,
            "insecure": self._options.insecure,
            "runtime_dir": str(folder),
            "threads": threads,
            "host": host,
            "settings": dict(self._options.settings or {}),
        }
        if task.job != "ps":
            config["gpus"] = self._options.gpus
            config["number_on_host"] = number_on_host
        if where is not None:
            config["address"] = where.task_address(task.job, task.index)
        return remote.pack(self._options.bootstrap.start, [config], {})

    async def connect(self, tasks: Sequence[Task], spec: ClusterSpec) -> None:
        """Give the addresses of all tasks to these tasks."""
        payload = remote.pack(self._options.bootstrap.connect, [spec.as_dict()], {})
        deadline_s = self._options.start_deadline_s
        await self._calls.perform(dict.fromkeys(tasks, payload), deadline_s, "connect")

    async def stop(self, tasks: Sequence[Task]) -> None:
        """Stop the tasks' servers that respond; never raises."""
        payload = remote.pack(self._options.bootstrap.stop, [], {})
        deadline_s = self._options.stop_deadline_s
        # A server that does not stop by itself is killed a moment later anyway.
        with contextlib.suppress(Exception):
            await self._calls.perform(dict.fromkeys(tasks, payload), deadline_s, "stop")
