"""A member of an exchange in a separate process, without server, thread or training.

The ports, programs and waits are those of a training; only what surrounds them is gone.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from benchmarks.sum_in_place import in_place
from kit.exchange.execution.program import Program
from kit.exchange.layout import Layout, Spec, lay_out
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import GRAD, NOW, Group
from kit.exchange.ports.connect import Joining, OwnArena
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array, physical
from kit.exchange.ports.port import Stamp
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import by_name
from kit.settings import current
from kit.trace.traffic import Meter
from kit.wire.handshake.tls import make_stream
from kit.wire.stream import Stream

_DEADLINE_S = 60.0
_SPINS = 100


def mean_of(n: int, now: Array, total: Array, out: Array) -> None:
    """Write the mean where a training would write new parameters."""
    np.multiply(total, total.dtype.type(1 / n), out=out)


def paired(fds: Sequence[int]) -> dict[int, Stream]:
    """Return streams over our ends of the socket pairs, given by rank."""
    return {
        peer: make_stream(socket.socket(fileno=os.dup(fd)), "unix", f"rank {peer}")
        for peer, fd in enumerate(fds)
        if fd >= 0
    }


class Links:
    """A member's arena, its endpoint, and a port to each other member."""

    def __init__(
        self,
        stack: ExitStack,
        rank: int,
        layout: Layout,
        streams: Mapping[int, Stream],
        cluster: int = 1,
        *,
        checksum: bool = True,
        pumps: bool | None = None,
    ) -> None:
        """Join the others, over a stream to each; `cluster` is what frames carry.

        `pumps`: whether streams may have threads; None: as a task decides it.
        """
        n_ranks = len(streams) + 1
        self.own_arena = own_arena = OwnArena(f"bench-{rank}", layout, n_ranks)
        stack.callback(own_arena.arena.close)
        cores = len(os.sched_getaffinity(0))
        self.endpoint = endpoint = Endpoint(
            [f"/job:bench/task:{number}" for number in range(n_ranks)],
            rank,
            Stamp(),
            deadline_s=_DEADLINE_S,
            spins=_SPINS if n_ranks <= cores else 0,
            native=current().native,
            asleep=own_arena.control.asleep,
        )
        stack.callback(endpoint.close)
        deadline = time.monotonic() + _DEADLINE_S
        if pumps is None:
            pumps = cores >= 2 * n_ranks and current().native
        joining = Joining(endpoint, own_arena, cluster, checksum, pumps)
        for arena in joining.join(streams, deadline).values():
            stack.callback(arena.close)


class BareMember:
    """Exchanges one float32 array; the sum is in `array`, or the mean in `result`."""

    def __init__(
        self,
        topology: str,
        rank: int,
        n_bytes: int,
        streams: Mapping[int, Stream],
        *,
        sums: bool,
        cluster: int = 1,
        checksum: bool = True,
        pumps: bool | None = None,
    ) -> None:
        """Join the others, over a stream to each, as `Links` does.

        It `sums` in place, or does what a training does in a step.
        """
        self._stack = ExitStack()
        n_ranks = len(streams) + 1
        n_ps = 1 if topology == "ps" else 0
        n_workers = n_ranks - n_ps
        layout = lay_out([Spec("x", (n_bytes // 4,), "float32")], n_workers)
        servers, workers = range(n_ps), range(n_ps, n_ranks)
        group = Group(tuple(servers), tuple(workers), shards_of(layout, n_ps))
        links = Links(
            *(self._stack, rank, layout, streams, cluster),
            checksum=checksum,
            pumps=pumps,
        )
        self._endpoint, memory = links.endpoint, links.own_arena.memory
        plan = by_name(topology).plan(layout, group, rank)
        assert plan is not None
        plan = pipelined(plan, layout, early=True)
        plan = in_place(plan) if sums else plan
        self.meter = Meter(rank)
        self._program = Program(
            plan,
            self._endpoint,
            memory,
            self.meter,
            update=lambda now, total, slots, out, step: mean_of(
                n_workers, now, total, out
            ),
        )
        self.array = memory.leaf(GRAD, layout.leaves[0])
        self._results = [
            memory.leaf(physical(NOW, parity), layout.leaves[0]) for parity in (0, 1)
        ]

    @property
    def result(self) -> Array:
        """The mean over all workers, after a `step` that does not sum in place."""
        return self._results[self._endpoint.stamp.parity]

    def step(self) -> None:
        """Exchange once: afterwards every worker has the mean."""
        stamp = self._endpoint.stamp
        self._program.step()
        stamp.parity ^= 1
        stamp.step += 1

    def close(self) -> None:
        """Give links and memory back."""
        self._stack.close()
