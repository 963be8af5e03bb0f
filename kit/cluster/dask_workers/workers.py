"""The workers of a dask cluster: which there are, and how many tasks each can hold.

Of dask it uses only the client, in the client's own event loop.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import urlsplit

from kit.cluster.launchers import Launcher
from kit.cluster.processes import host_calls
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    StartFailed,
    UnavailableError,
)
from kit.wire.sockets import address_towards

T = TypeVar("T")

_ANSWER_S = 10.0  # of a dask worker
_ENCRYPTED = ("tls", "wss")


class DaskWorker(NamedTuple):
    """A worker, as the scheduler describes it."""

    address: str
    host: str
    name: str
    nthreads: int

    @property
    def in_order(self) -> tuple[object, ...]:
        """A key to sort workers: by host, then by name with its numbers as numbers."""
        parts = re.split(r"(\d+)", self.name)
        named = tuple((int(p), "") if p.isdigit() else (0, p) for p in parts)
        return (self.host, named, self.address)


@dataclass(frozen=True)
class DaskWorkers(Launcher):
    """Start the tasks beside the workers of a dask cluster; see `Cluster.from_dask`."""

    client: Any = field(kw_only=True, repr=False, compare=False)
    launches: ClassVar[str] = "dask"

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return none: dask has started the workers."""
        return {}

    @property
    def reached_at(self) -> str:
        """The address of this machine at which the scheduler's host reaches it."""
        if self.address:
            return self.address
        return address_towards(str(urlsplit(self.client.scheduler.address).hostname))

    async def places(self, n_tasks: int) -> dict[DaskWorker, int]:
        """Choose workers: return how many tasks each holds, in order.

        Raises `StartFailed` if there are too few, or one of them cannot run tasks.
        """
        workers = await self.present()
        workers_of = spread(workers, n_tasks)
        await self.check_workers([worker.address for worker in workers_of])
        return workers_of

    async def present(self) -> list[DaskWorker]:
        """Return the workers that accept work now, host by host."""
        identity = await self.ask(lambda client: client.scheduler.identity())
        running = [
            DaskWorker(address, worker["host"], str(worker["name"]), worker["nthreads"])
            for address, worker in identity["workers"].items()
            if worker["status"] == "running"
        ]
        return sorted(running, key=lambda worker: worker.in_order)

    async def still_there(self, addresses: Sequence[str]) -> set[str]:
        """Return which of the workers the scheduler still has."""
        query = partial(_nthreads, addresses=list(addresses))
        return set(await self.ask(query))

    async def run(
        self, address: str, function: Callable[..., Any], *args: object
    ) -> Any:
        """Run a function in a worker; see `plugin.py`."""

        def begin(client: Any) -> Any:
            return client.run(function, *args, workers=[address])

        try:
            return (await self.ask(begin))[address]
        except KitError:
            raise
        except Exception as error:  # of the function, or dask's
            raise StartFailed(
                f"the dask worker {address} could not do {function.__name__}(): "
                f"{type(error).__name__}: {error}"
            ) from error

    async def ask(self, question: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Await `question(client)` in the client's event loop, and return its value.

        In that loop the methods of a client return coroutines.
        """
        check_open(self.client)

        async def work() -> T:
            return await question(self.client)

        loop = self.client.loop.asyncio_loop
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await answer
        except OSError as error:  # TimeoutError and dask's CommClosedError are some
            why = str(error) or f"no answer within {_ANSWER_S:g} s"
            raise UnavailableError(
                f"the dask cluster at {self.client.scheduler.address} cannot be asked: "
                f"{why}."
            ) from error

    async def check_workers(self, addresses: Sequence[str]) -> None:
        """Raise `StartFailed` for workers that cannot run tasks of this notebook.

        Python first: other versions may not be able to read the second question.
        """
        versions = await self.ask(lambda client: client.get_versions())
        for address in addresses:
            if address not in versions["workers"]:
                raise StartFailed(f"the dask worker {address} does not answer.")
            check_python(address, versions["workers"][address], versions["client"])
        who = who_are_you()
        answers = await self.ask(
            lambda client: client.run(who, workers=list(addresses))
        )
        for address, answer in answers.items():
            check_same(address, answer)


async def _nthreads(client: Any, addresses: list[str]) -> Mapping[str, int]:
    result: Mapping[str, int] = await client.scheduler.ncores(workers=addresses)
    return result


def spread(workers: Sequence[DaskWorker], n_tasks: int) -> dict[DaskWorker, int]:
    """Give each worker as many tasks as the others, and no more than it has threads.

    Raises `StartFailed` if they have too few.
    """
    n_threads = sum(worker.nthreads for worker in workers)
    if n_threads < n_tasks:
        raise StartFailed(
            f"the dask cluster has {len(workers)} workers with {n_threads} threads "
            f"together, and the cluster has {n_tasks} tasks: a worker holds as many "
            f"tasks as it has threads. Have dask start more, such as "
            f"client.cluster.scale({n_tasks}) and client.wait_for_workers({n_tasks})."
        )
    counts = dict.fromkeys(workers, 0)
    while n_tasks:
        for candidate in workers:
            if n_tasks and counts[candidate] < candidate.nthreads:
                counts[candidate] += 1
                n_tasks -= 1
    return {worker: n for worker, n in counts.items() if n}


def who_are_you() -> Callable[[], dict[str, Any]]:
    """Return a function that identifies a worker.

    A function inside a function is pickled with its code, so this one also runs where
    the kit is not installed, and can report that.
    """

    def who() -> dict[str, Any]:
        import os
        import platform
        from importlib.metadata import PackageNotFoundError, version

        versions = {}
        for name in ("psring", "ipyparallel"):
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = ""
        me = (platform.system(), platform.node(), os.getpid())
        return {"versions": versions, "process": me}

    return who


def check_python(
    address: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]
) -> None:
    """Raise `StartFailed` for a worker with another Python; dask gave the versions."""
    there, here = (info["host"]["python"].split(".")[:3] for info in (theirs, ours))
    if there[:2] != here[:2]:
        raise StartFailed(
            f"the dask worker {address} has Python {'.'.join(there)}, the notebook has "
            f"{'.'.join(here)}; start the workers with the same."
        )


def check_same(address: str, answer: Mapping[str, Any]) -> None:
    """Raise `StartFailed` for a worker in which this notebook's tasks cannot run."""
    system, *process = answer["process"]
    if system != "Linux":
        raise StartFailed(
            f"the dask worker {address} runs on {system}; tasks need Linux."
        )
    if process == [platform.node(), os.getpid()]:
        raise StartFailed(
            f"the dask worker {address} is a thread of this process, and tasks need "
            f"workers that are processes: LocalCluster(processes=True)."
        )
    here = host_calls.versions()
    for name, theirs in answer["versions"].items():
        if not theirs:
            raise StartFailed(
                f"the dask worker {address} has no {name}; install {name} {here[name]} "
                f"there, as in the notebook."
            )
        if theirs != here[name]:
            raise StartFailed(
                f"the dask worker {address} has {name} {theirs}, the notebook has "
                f"{here[name]}; install the same there."
            )


def check_client(client: Any, *, insecure: bool) -> None:
    """Raise for a client of dask with which no cluster can be made."""
    if not callable(getattr(client, "get_versions", None)):
        raise InvalidArgumentError(
            f"{client!r} is not a client of dask; give a distributed.Client."
        )
    if client.asynchronous:
        raise InvalidArgumentError(
            "this client of dask is asynchronous, so its calls need the loop that it "
            "was made in; give one made with Client(..., asynchronous=False)."
        )
    check_open(client)
    protocol, _, _ = client.scheduler.address.partition("://")
    if protocol not in _ENCRYPTED and not insecure:
        raise InvalidArgumentError(
            f"the dask cluster at {client.scheduler.address} is not encrypted: anyone "
            f"who reaches it, on this machine too, could act as you and read the keys "
            f"of the tasks. Start it with TLS, such as LocalCluster(security=True), or "
            f"allow it with insecure=True."
        )


def check_open(client: Any) -> None:
    """Raise `FailedPreconditionError` for a client that is closed or cut off."""
    if client.status != "running":
        raise FailedPreconditionError(
            f"the client of dask is {client.status}; make a new one of the same dask "
            f"cluster: Client(cluster)."
        )
