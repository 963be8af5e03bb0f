"""Members in one process whose links have a thread for each direction."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations
from typing import Any

import numpy as np

from kit.exchange.execution.bound_operations import BoundOp
from kit.exchange.execution.program import Program
from kit.exchange.layout import Layout, Range
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import GRAD, NOW
from kit.exchange.ports.connect import Joining, OwnArena
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Stamp
from kit.exchange.ports.pumped_port import PumpedPort
from kit.exchange.topologies.topology import by_name
from kit.testing.group import LocalMember, run_together
from kit.trace.traffic import Meter, Phase
from kit.training.optimizers.rule import MeanUpdate
from kit.wire.frame import Bounds
from kit.wire.records import Direction, RecordStream
from kit.wire.sockets import SocketStream
from kit.wire.stream import ENCRYPTED, ParallelStreams, Stream
from tests.exchange.models import group_on

Pair = Callable[[], tuple[Stream, Stream]]
Ends = tuple[socket.socket, socket.socket]


def clear(ends: Ends) -> tuple[Stream, Stream]:
    """Return streams that do not offer each other their memory, as over TCP."""
    near, far = ends
    return SocketStream(near, "tcp", "far"), SocketStream(far, "tcp", "near")


def sealed(ends: Ends) -> tuple[Stream, Stream]:
    """Return streams of records."""
    keys = b"n" * 32, b"f" * 32
    near, far = (
        RecordStream(stream, sends=Direction(ours), takes=Direction(theirs))
        for stream, ours, theirs in zip(clear(ends), keys, keys[::-1], strict=True)
    )
    return near, far


def side_by_side(n: int, pair: Pair) -> tuple[Stream, Stream]:
    """Return links of n streams."""
    near, far = zip(*(pair() for _ in range(n)), strict=True)
    return ParallelStreams(near), ParallelStreams(far)


def clear_pair() -> tuple[Stream, Stream]:
    return clear(socket.socketpair())


def sealed_pair() -> tuple[Stream, Stream]:
    return sealed(socket.socketpair())


@contextmanager
def pumped_member(
    layout: Layout,
    number: int,
    n_members: int,
    streams: Mapping[int, Stream],
    *,
    native: bool = True,
    deadline_s: float = 10.0,
    pumps: bool = True,
) -> Iterator[LocalMember]:
    """Give one member, with streams to others; if it `pumps`, with threads."""
    names = [f"/job:member/task:{other}" for other in range(n_members)]
    bounds = Bounds(cluster=7, max_length=layout.total_bytes, max_sender=n_members)
    with ExitStack() as stack:
        own = OwnArena(f"member-{number}", layout, n_members)
        stack.callback(own.arena.close)
        endpoint = Endpoint(
            *(names, number, Stamp()),
            deadline_s=deadline_s,
            native=native,
            asleep=own.control.asleep,
        )
        stack.callback(endpoint.close)
        if not pumps:
            Joining(endpoint, own, cluster=7).join(streams, 0.0)
        for peer, stream in streams.items() if pumps else ():
            port = PumpedPort(
                peer=peer,
                memory=own.memory,
                stream=stream,
                endpoint=endpoint,
                bounds=bounds,
                depth=own.depth,
                checksum=stream.kind not in ENCRYPTED,
            )
            endpoint.add(port)
        yield LocalMember(number, own.memory, endpoint, Meter(number))


@contextmanager
def pumped_group(
    layout: Layout,
    n_members: int,
    *,
    pair: Pair = clear_pair,
    native: bool = True,
    deadline_s: float = 10.0,
) -> Iterator[list[LocalMember]]:
    """Give members as `local_group` does; each two have a stream that `pair` makes."""
    streams: list[dict[int, Stream]] = [{} for _ in range(n_members)]
    for near, far in combinations(range(n_members), 2):
        streams[near][far], streams[far][near] = pair()
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                pumped_member(
                    *(layout, number, n_members, own),
                    native=native,
                    deadline_s=deadline_s,
                )
            )
            for number, own in enumerate(streams)
        ]


def performed(executor: Callable[..., Any], ops: Sequence[BoundOp]) -> None:
    """Have an executor do operations of a member that is alone."""
    endpoint = Endpoint(["/job:worker/task:0"], 0, Stamp(), deadline_s=1.0)
    executor(ops, endpoint, Meter(0)).run(0)
    endpoint.close()


def three_steps(
    members: list[LocalMember], layout: Layout, topology: str, rule: Any
) -> list[tuple[bytes, Any]]:
    """Do three steps; return each member's parameters and account after them."""
    n, n_ps = len(members), int(topology == "ps")
    group = group_on(layout, n_ps, n - n_ps)

    def work(member: LocalMember) -> None:
        plan = by_name(topology).plan(layout, group, member.number)
        assert plan is not None
        stamp, dice = member.endpoint.stamp, np.random.default_rng(member.number)
        stamp.epoch = 4
        program = Program(
            pipelined(plan, layout, early=True),
            *(member.endpoint, member.memory, member.meter),
            update=MeanUpdate(rule, n - n_ps),
            n_slots=len(rule.slots),
        )
        for number in range(3):
            stamp.step = number
            if member.number >= n_ps:
                for leaf in member.memory.leaves(stamp.where(GRAD)).values():
                    leaf[:] = dice.standard_normal(leaf.shape)
            program.step()
            stamp.parity ^= 1
        assert program.waited_ns == waited(member.meter)

    run_together(members, work)
    whole = Range(0, layout.n_bytes)
    return [
        (
            bytes(member.memory.raw(member.endpoint.stamp.where(NOW), whole)),
            member.meter.totals().tolist(),
        )
        for member in members
    ]


def waited(meter: Meter) -> int:
    spans, _ = meter.spans.since(0)
    waits = spans[spans["phase"] == int(Phase.WAIT)]
    return int((waits["end"] - waits["start"]).sum())
