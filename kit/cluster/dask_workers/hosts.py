"""Beside the workers of a dask cluster: hosts that dask starts and supervises.

    choose workers -> controller here -> a plugin in each starts a host process
        -> hosts register -> place -> fork there -> engines register

From there on they are like those of any launcher. Each dask worker with tasks counts as
a host, so if it is lost, its own tasks are. We ask dask each second which workers it
has lost, because it knows at once what the controller notices only by silence. A task
of a lost worker stays lost until it is restarted; then a worker on the same machine
takes it, such as the one that a nanny has started in place of the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from traitlets.config import Config

from kit.cluster.dask_workers import plugin
from kit.cluster.dask_workers.workers import DaskWorker, DaskWorkers
from kit.cluster.loop import gather
from kit.cluster.processes.engines import Engines
from kit.cluster.processes.forks import HOST_ENGINE
from kit.cluster.processes.launched_hosts import FarHost, LaunchedHosts, host_options
from kit.errors import KitError, StartFailed

_CHECK_S, _ASK_S = 0.1, 1.0
PLACE_S = 20.0  # until dask has a worker again
_END_S = 4.0  # of the plugins in all workers


class DaskHosts(LaunchedHosts):
    """Hosts beside dask's workers."""

    _launcher: DaskWorkers

    def __init__(self, engines: Engines) -> None:
        super().__init__(engines)
        self._name = engines.folder.name  # of our plugins
        self._connection = ""
        self._workers: dict[str, DaskWorker] = {}  # with our plugin, by address
        self._gone: set[str] = set()
        self._moving = asyncio.Lock()
        self._asker: asyncio.Task[None] | None = None

    async def launch(self) -> None:
        """Start the controller here, and a host process in each chosen worker."""
        places = await self._launcher.places(len(self._engines.names))
        await self._launch_controller(Config())
        self._connection = json.dumps(await self._engines.connection("engine"))
        self._order = [worker.address for worker in places]
        begins = [self._begin(worker, slots) for worker, slots in places.items()]
        await gather(begins)
        self._watcher = asyncio.create_task(self._watch())
        self._asker = asyncio.create_task(self._ask_dask())

    async def _begin(self, worker: DaskWorker, slots: int) -> None:
        program = (
            "-P",
            "-m",
            "kit.cluster.processes.host",
            *host_options(self._engines.options.start_deadline_s, self.threads),
            f"--label={worker.address}",
            f"--slots={slots}",
            # The threads of a worker are its share of the machine.
            f"--cores={worker.nthreads}",
        )
        order = plugin.HostOrder(self._name, program, self._connection)
        # First: if this is cancelled, its plugin may have begun, and has to be ended.
        self._workers[worker.address] = worker
        await self._launcher.run(worker.address, plugin.begin, order)

    async def _check_launched(self) -> None:
        """Raise `StartFailed` if the host process of a worker has ended already."""
        met = {host.facts.label for host in self._hosts}
        for address in self._workers.keys() - met:
            await self._check_runs(address)
        await asyncio.sleep(_CHECK_S)

    async def _check_runs(self, address: str) -> None:
        words = await self._launcher.run(address, plugin.why_ended, self._name)
        if words is not None:
            raise StartFailed(
                f"nothing of ours runs beside the dask worker {address} any more.\n"
                f"{words}"
            )

    async def _meet(self, engine: int) -> None:
        await super()._meet(engine)
        await self._share_folder(self._hosts[-1])

    # -- watch -------------------------------------------------------------------

    async def _ask_dask(self) -> None:
        """Learn each second which workers dask has lost; until the client is closed."""
        while self._launcher.client.status != "closed":
            await asyncio.sleep(_ASK_S)
            ours = list(self._workers)
            with contextlib.suppress(KitError):  # asked again in a second
                self._gone = set(ours) - await self._launcher.still_there(ours)
                for host in self._hosts:
                    host.is_lost = host.is_lost or host.facts.label in self._gone
                # Not left to `_watch`: it may be waiting for an answer of a lost host.
                for host in self._hosts:
                    host.tell_ended()

    def _has_lost(self, host: FarHost, engines: frozenset[int]) -> bool:
        is_lost = host.is_lost or host.facts.label in self._gone
        if host.engine not in engines:
            is_lost = True
            host.engine = -1  # the controller may give its number to another host
        return is_lost

    async def why_ended(self, index: int) -> str:
        """Return how the process of engine `index` ended, in words."""
        host = self.of(index)
        if not host.is_lost:
            return await super().why_ended(index)
        address = host.facts.label
        with contextlib.suppress(KitError):
            if address not in await self._launcher.still_there([address]):
                self._gone.add(address)
        worker = f"its dask worker {self._called(address)}"
        if address in self._gone:
            return f"was lost with {worker}, which is gone"
        return f"was lost with the processes beside {worker}, which do not answer"

    def _called(self, address: str) -> str:
        name = self._workers[address].name
        return address if name == address else f"{name} ({address})"

    # -- restart -----------------------------------------------------------------

    def why_no_fork(self, index: int) -> str:
        """Return nothing: dask may have another worker for a task of a lost one."""
        return ""

    async def fork(self, index: int) -> Any:
        """Have a process forked for engine `index`, at another worker if necessary."""
        old = self.of(index)
        if old.is_lost:
            async with self._moving:  # or two would take the same free place
                host = await self._new_host(old)
                old.tasks.remove(index)
                if not old.tasks:
                    self._hosts.remove(old)
                host.tasks.append(index)
        return await super().fork(index)

    async def end(self, index: int, process: Any) -> None:
        """End engine `index` and its children; wait until its controller knows."""
        host, engines = self.of(index), self._engines
        if not host.is_lost:
            await super().end(index, process)
            return
        while ended := {host.engine, index} & engines.connected:
            for engine in ended:
                engines.unregister(engine)  # its nanny would, but it was killed too
            await asyncio.sleep(_CHECK_S)

    async def _new_host(self, old: FarHost) -> FarHost:
        """Return a host with a free place on the machine of a lost one."""
        worker = await self._free_worker(self._workers[old.facts.label].host)
        for host in self._hosts:
            if host.facts.label == worker.address and not host.is_lost:
                return host
        await self._launcher.check_workers([worker.address])
        await self._begin(worker, worker.nthreads)
        return await self._registered_at(worker.address)

    async def _free_worker(self, machine: str) -> DaskWorker:
        """Wait a while for a worker with a free place, such as a nanny's new one."""
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + min(PLACE_S, self._engines.options.start_deadline_s / 2)
        while True:
            free = {
                worker: worker.nthreads - self._n_tasks(worker.address)
                for worker in await self._launcher.present()
                if worker.host == machine
            }
            best = max(free, key=lambda worker: free[worker], default=None)
            if best is not None and free[best] > 0:
                return best
            if clock() > give_up_at:
                raise StartFailed(
                    f"no dask worker with a free thread is on {machine}, where the "
                    f"other tasks look for it; have dask start one there, and restart "
                    f"it again"
                )
            await asyncio.sleep(_CHECK_S)

    def _n_tasks(self, address: str) -> int:
        hosts = [h for h in self._hosts if h.facts.label == address and not h.is_lost]
        return sum(len(host.tasks) for host in hosts)

    async def _registered_at(self, address: str) -> FarHost:
        while True:
            await self._engines.learn()
            met = {host.engine for host in self._hosts}
            for engine in sorted(self._engines.connected - met):
                if engine >= HOST_ENGINE:
                    await self._meet(engine)
            for host in self._hosts:
                if host.facts.label == address and not host.is_lost:
                    return host
            await self._check_runs(address)

    # -- end -----------------------------------------------------------------------

    async def forget(self) -> None:
        """Leave nothing in the workers, and ask nobody anything more."""
        if self._asker is not None:
            self._asker.cancel()
        await self._end_all()
        await super().forget()

    async def _end_all(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_END_S):
                there = await self._launcher.still_there(list(self._workers))
                ends = [self._launcher.run(a, plugin.end, self._name) for a in there]
                await asyncio.gather(*ends, return_exceptions=True)
