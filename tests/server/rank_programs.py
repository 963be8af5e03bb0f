"""Programs of the tests of ranks: `mpiexec -n 2 python -m tests.server.rank_programs`.

The argument names a function; every rank calls it, and prints what it returns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import kit
from kit.errors import KitError
from kit.testing import check_port
from kit.testing.group import local_group
from kit.testing.streams import memory_pair
from kit.wire import frame
from kit.wire.mpi import MpiStream, library
from kit.wire.stream import Stream, write_all
from tests.training.toy import BATCH, DATA, fit, initial, replayed, same_bits

STEPS = 12
SIZE = sum(array.nbytes for array in initial().values())


def contract() -> str:
    """Check ports of which both ends are in this process."""
    mpi = library()
    comm = mpi.COMM_SELF.Dup()

    def pair() -> tuple[Stream, Stream]:
        links = memory_pair()
        near, far = (MpiStream(link, comm) for link in links)
        for link, stream in zip(links, (near, far), strict=True):
            write_all(link, [stream.hello], time.monotonic() + 5)
        return near, far

    check_port(partial(local_group, in_place=False, pair=pair))
    return str(mpi.get_vendor()[0])


def bits_and_bytes() -> list[Any]:
    """Train over each topology; return which had the wrong bits, or wrong counts."""
    wrong: list[Any] = []
    with kit.Server.from_environment(ps=0) as server, counted_by_mpi() as counts:
        n_workers, me = len(server.tasks), server.task
        expected = replayed(STEPS, n_workers, kit.Momentum(0.05))
        for topology in ("ring", "mesh"):
            counts.clear()
            options: dict[str, Any] = {"steps": STEPS, "topology": topology}
            options |= {"batch": BATCH, "optimizer": kit.Momentum(0.05)}
            run = kit.train(fit, initial(), DATA, cluster=server, **options).wait(30)
            (mine,) = (entry for entry in run.traffic if entry.task == me.short)
            # What MPI has received are ranges, and the head of each. The first worker's
            # parameters go to all others before the first step.
            payload = sum(size for size in counts if size != frame.SIZE)
            expected_bytes = mine.formula_received + (SIZE if me.index else 0)
            if not same_bits(run.params, expected):
                wrong.append([topology, "bits"])
            if not mine.agrees or payload != expected_bytes or not mine.received:
                wrong.append([topology, payload, str(mine)])
    return [n_workers, wrong]


@contextmanager
def counted_by_mpi() -> Iterator[list[int]]:
    """Give the sizes of all messages that this rank receives over MPI."""
    sizes: list[int] = []
    read_into = MpiStream.read_into

    def noted(stream: MpiStream, view: memoryview) -> int | None:
        if size := read_into(stream, view):
            sizes.append(size)
        return size

    with patch.object(MpiStream, "read_into", noted):
        yield sizes


def refusals() -> list[str]:
    """Return what is said where there are no ranks of one MPI; not under mpiexec."""
    others = [{"OMPI_COMM_WORLD_SIZE": "2"}, {}, {"PMI_SIZE": "2"}]
    replies = [refusal(variables) for variables in others]
    with patch.object(library(), "Query_thread", lambda: library().THREAD_SERIALIZED):
        replies.append(refusal({"PMI_SIZE": "1"}))
    return [*replies, refusal({"PMI_SIZE": "1"})]


def refusal(variables: dict[str, str]) -> str:
    with patch.dict(os.environ, variables):
        try:
            kit.Server.from_environment(ps=1)
        except KitError as error:
            return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    with kit.settings(transport="mpi"):
        print(json.dumps(globals()[sys.argv[1]]()), flush=True)
