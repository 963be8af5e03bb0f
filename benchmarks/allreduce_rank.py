"""One process of the all-reduce comparison: `python -m benchmarks.allreduce_rank`.

Arguments: rank, number of ranks, system. Each system answers `prepare` (make an array
of this size, exchange once and say what came out), `measure` (the times of so many
exchanges), `look` (what came out of the last one) and `spent` (the processor time of
each thread). Before each exchange the array is
written anew, as a backward pass does. Systems over TCP first `listen`, then `meet`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from benchmarks.rank_group import obey

Float32 = np.ndarray[tuple[int], np.dtype[np.float32]]


class System(Protocol):
    """An array and what is measured on it."""

    array: Any  # None where a process brings none: a parameter server

    def call(self) -> None:
        """Exchange, or copy, the array."""

    def values(self) -> Any:
        """Return what came out: the mean over all ranks that bring an array."""

    def close(self) -> None:
        """Give everything back."""


class Copy:
    """The limit: every rank copies its array once, all at the same time."""

    def __init__(self, rank: int, n_ranks: int, n_bytes: int) -> None:
        self.array = np.zeros(n_bytes // 4, np.float32)
        self._target = np.zeros_like(self.array)
        self._n = n_ranks

    def call(self) -> None:
        np.copyto(self._target, self.array)

    def values(self) -> Float32:
        return self._target

    def close(self) -> None:
        self.array = self._target = np.zeros(0, np.float32)


class Gloo:
    """`torch.distributed.all_reduce` on a CPU tensor, in place."""

    def __init__(self, rank: int, n_ranks: int, n_bytes: int) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        if not dist.is_initialized():
            init = f"file://{os.environ['BENCH_LINE']}.gloo"
            dist.init_process_group("gloo", init, rank=rank, world_size=n_ranks)
        self._tensor = torch.zeros(n_bytes // 4)
        self.array = self._tensor.numpy()
        self._reduce, self._n = dist.all_reduce, n_ranks

    def call(self) -> None:
        self._reduce(self._tensor)

    def values(self) -> Any:
        return self.array / np.float32(self._n)

    def close(self) -> None:
        del self._tensor, self.array


class Mpi:
    """`MPI_Allreduce` in place, on private memory."""

    def __init__(self, rank: int, n_ranks: int, n_bytes: int) -> None:
        from mpi4py import MPI

        self.array = np.zeros(n_bytes // 4, np.float32)
        self._reduce, self._in_place = MPI.COMM_WORLD.Allreduce, MPI.IN_PLACE
        self._n = n_ranks

    def call(self) -> None:
        self._reduce(self._in_place, self.array)

    def values(self) -> Float32:
        return self.array / np.float32(self._n)

    def close(self) -> None:
        del self.array


class Ours:
    """The plan of a topology, over shared memory or over TCP.

    It sums in place as the peers do; `ring-step` and `ps` do what a training does, with
    the mean as the update, in a second array.
    """

    def __init__(
        self, system: str, rank: int, n_ranks: int, n_bytes: int, door: Any
    ) -> None:
        """Join the others in shared memory, or through the `door` if there is one."""
        from benchmarks.bare_member import BareMember, paired
        from kit.wire.mpi import over_mpi

        plan, _, over = system.partition(" ")
        topology = plan.removesuffix("-step")
        self._n = n_ranks if topology == plan != "ps" else 0
        if door is None:
            streams = paired([int(fd) for fd in os.environ["BENCH_PEERS"].split(",")])
        else:
            streams = door.open()
        if over == "mpi":
            streams = {peer: over_mpi(link, 5.0) for peer, link in streams.items()}
        self._member = BareMember(
            topology,
            rank,
            n_bytes,
            streams,
            sums=self._n > 0,
            cluster=1 if door is None else door.cluster,
            checksum=door is None or door.checksum,
            pumps=None if door is None else door.pumps,
        )
        is_server = topology == "ps" and rank == 0
        self.array = None if is_server else self._member.array
        self.call = self._member.step

    def values(self) -> Any:
        if self._n:
            return self._member.array / np.float32(self._n)
        return self._member.result

    def close(self) -> None:
        self._member.close()


class Rank:
    """Prepares and measures one system, one size after the other."""

    def __init__(self, make: Callable[[int], System]) -> None:
        self._make = make
        self._system: System | None = None
        self._fresh: Any = None

    def prepare(self, n_bytes: int, value: float) -> float:
        """Exchange once an array full of `value`; returns what came out, see `look`."""
        if self._system is not None:
            self._system.close()
        self._system = system = self._make(n_bytes)
        self._fresh = np.full(n_bytes // 4, value, np.float32)
        self._rewrite()
        system.call()
        return self.look()

    def measure(self, repeats: int) -> list[tuple[int, int]]:
        """Return begin and end of so many exchanges, in machine-wide nanoseconds."""
        assert self._system is not None
        call, clock = self._system.call, time.monotonic_ns
        times = []
        for _ in range(repeats):
            self._rewrite()
            begin = clock()
            call()
            times.append((begin, clock()))
        return times

    def look(self) -> float:
        """Return the value that all elements have now; NaN if they differ."""
        assert self._system is not None
        values = self._system.values()
        return float(values[0]) if (values == values[0]).all() else float("nan")

    def _rewrite(self) -> None:
        if self._system is not None and self._system.array is not None:
            np.copyto(self._system.array, self._fresh)


def spent() -> dict[str, float]:
    """Return the processor time of each thread of Python, by its name, in seconds."""
    return {
        thread.name: time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.ident
    }


def main() -> None:
    rank, n_ranks, system = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if system == "mpi" or system.endswith(" mpi"):
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.Get_rank()
    door: Any = None

    def listen(credentials: dict[str, str], **form: Any) -> str:
        from benchmarks.allreduce_links import Door
        from benchmarks.group_member import GroupDoor

        nonlocal door
        kind: Any = GroupDoor if system.startswith("group ") else Door
        door = kind(rank, credentials, **form)
        return str(door.address)

    plain: dict[str, Callable[[int, int, int], System]]
    plain = {"copy": Copy, "gloo": Gloo, "mpi": Mpi}

    def make(n_bytes: int) -> System:
        if system in plain:
            return plain[system](rank, n_ranks, n_bytes)
        if system.startswith("bytes "):
            from benchmarks.allreduce_links import Flow

            return Flow(rank, n_ranks, n_bytes, door)
        if system.startswith("group "):
            from benchmarks.group_member import OfGroup

            return OfGroup(n_ranks, n_bytes, door)
        return Ours(system, rank, n_ranks, n_bytes, door)

    first = Rank(make)
    obey(
        rank,
        {
            "prepare": lambda n_bytes, values: first.prepare(n_bytes, values[rank]),
            "measure": first.measure,
            "look": first.look,
            "spent": spent,
            "listen": listen,
            "meet": lambda addresses: door.meet(addresses),
        },
    )
    if door is not None:
        door.close()


if __name__ == "__main__":
    main()
