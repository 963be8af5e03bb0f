"""A port with a thread for each direction: what it does as others do, and its ends."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import machine
from kit.errors import (
    FailedPreconditionError,
    Fenced,
    PeerLost,
    ProtocolError,
    ResourceExhaustedError,
)
from kit.exchange.execution.bound_operations import Take
from kit.exchange.execution.native_executor import loop, suit
from kit.exchange.group.linked_member import LinkedMember
from kit.exchange.layout import Layout, Range, Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports import endpoint, pumped_port
from kit.exchange.ports.connect import Joining, OwnArena
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Expected, Stamp
from kit.exchange.ports.pumped_port import FORM, PumpedPort
from kit.exchange.ports.stream_port import StreamPort
from kit.native import library
from kit.testing.group import LocalMember, local_group
from kit.testing.streams import memory_pair
from kit.testing.task_process import until
from kit.trace.traffic import Meter
from kit.training.optimizers.rules import GradientDescent, Momentum
from kit.wire import Credentials
from kit.wire.frame import SIZE
from kit.wire.shaping import LineOut, LinkSettings
from kit.wire.sockets import SocketStream
from kit.wire.stream import Stream
from tests.cases import for_each
from tests.exchange.pumped import (
    Ends,
    Pair,
    clear,
    clear_pair,
    pumped_group,
    pumped_member,
    sealed,
    sealed_pair,
    side_by_side,
    three_steps,
)
from tests.wire.conftest import open_streams

has_loop = pytest.mark.skipif(loop() is None, reason="the compiled loop was not built")
LAYOUT = lay_out([Spec("w", (90, 7), "float32"), Spec("b", (90,), "float64")], 3, 1000)
SMALL = lay_out([Spec("x", (25,), "float32")], 2)
LARGE = lay_out([Spec("x", (1 << 21,), "float32")], 2)
DUE = Expected(GRAD, Range(0, 100), separate=True)
ALL = Expected(GRAD, Range(0, LARGE.n_bytes), separate=True)
PAIRS = [
    clear_pair,
    sealed_pair,
    partial(side_by_side, 2, clear_pair),
    partial(side_by_side, 3, sealed_pair),
]
Form = Callable[[Ends], tuple[Stream, Stream]]


@pytest.fixture(autouse=True)
def parts_of_small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let links of several streams cut each message into parts."""
    monkeypatch.setattr(pumped_port, "_LEAST_SHARED", 65)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lost peer be reported at once: nobody else says why it is lost."""
    monkeypatch.setattr(endpoint, "GRACE_S", 0.0)


# -- the same as over others -----------------------------------------------------------


@pytest.mark.parametrize("topology", ["ring", "mesh", "ps"])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("pair", PAIRS)
@for_each("rule", [GradientDescent(0.1), Momentum(0.1)])
def test_bits_and_counts_are_those_of_shared_memory(
    topology: str, native: bool, pair: Pair, rule: Any
) -> None:
    n = 4 if topology == "ps" else 3
    with local_group(LAYOUT, n) as members:
        wanted = three_steps(members, LAYOUT, topology, rule)

    with pumped_group(LAYOUT, n, pair=pair, native=native) as members:
        assert three_steps(members, LAYOUT, topology, rule) == wanted


@has_loop
def test_the_compiled_loop_carries_it_out() -> None:
    with pumped_group(SMALL, 2) as members:
        ends = members[0].endpoint
        assert suit([Take(ends.ports[1], 1, DUE)], ends)


@pytest.mark.parametrize("pair", PAIRS[:2])
@for_each("pumps", [(True, False), (False, True)])
def test_its_frames_are_those_of_a_port_without_threads(
    pair: Pair, pumps: tuple[bool, bool]
) -> None:
    with two(SMALL, pair(), pumps=pumps) as (near, far):
        for sender, taker in ((near, far), (far, near)):
            post(sender, DUE)
            assert received(taker, DUE) == numbers(sender, DUE)


@has_loop
@for_each("to", [0, 1])
def test_an_end_gets_threads_between_two_calls_and_the_other_end_never(to: int) -> None:
    layout, line = (
        lay_out([Spec("x", (25,), "float32")], 2),
        LineOut(FAST, random.random),
    )
    with ExitStack() as stack:
        ends = [joined(stack, layout, n, s) for n, s in enumerate(sealed_pair())]
        members = [member for member, _ in ends]

        def meet() -> None:
            for sender, taker in (members, members[::-1]):
                post(sender, DUE)
                assert received(taker, DUE) == numbers(sender, DUE)

        meet()
        window = port(members[to]).window(*DUE[:2], separate=True)
        port(members[to]).line_out = line
        assert not ends[to][1].suit((1 << 20) - 1)
        assert ends[to][1].suit(1 << 20)
        assert not ends[to][1].suit(1 << 20)
        assert isinstance(port(members[to]), PumpedPort)
        assert port(members[to]).line_out is line
        meet()
        assert window.tolist() == numbers(members[1 - to], DUE)


FAST = LinkSettings.parse("10gbit")


def joined(
    stack: ExitStack, layout: Layout, number: int, stream: Stream
) -> tuple[LocalMember, Joining]:
    """Return one of two members, which does not know yet how much it will exchange."""
    own = OwnArena(f"member-{number}", layout, 2)
    stack.callback(own.arena.close)
    ends = Endpoint(["task:0", "task:1"], number, Stamp(), deadline_s=10.0)
    stack.callback(ends.close)
    joining = Joining(ends, own, 7, pumps=True, most_bytes=0)
    joining.join({1 - number: stream}, 0.0)
    return LocalMember(number, own.memory, ends, Meter(number)), joining


@contextmanager
def two(
    layout: Any,
    streams: tuple[Stream, Stream],
    *,
    pumps: tuple[bool, bool] = (True, True),
    deadline_s: float = 10.0,
) -> Iterator[tuple[LocalMember, LocalMember]]:
    near, far = streams
    with (
        pumped_member(
            *(layout, 0, 2, {1: near}), pumps=pumps[0], deadline_s=deadline_s
        ) as first,
        pumped_member(
            *(layout, 1, 2, {0: far}), pumps=pumps[1], deadline_s=deadline_s
        ) as other,
    ):
        yield first, other


def port(member: LocalMember) -> Any:
    (only,) = member.endpoint.ports.values()
    return only


def numbers(member: LocalMember, message: Expected) -> list[float]:
    first = 1000 * member.number + message.region
    return list(range(first, first + message.range.size // 4))


def post(member: LocalMember, message: Expected) -> None:
    memory = member.memory.typed(message.region, message.range)
    memory[:] = numbers(member, message)
    port(member).post(message.region, message.range)


def received(member: LocalMember, message: Expected) -> list[float]:
    """Expect a message alone, wait for it, and return its numbers."""
    end = port(member)
    member.endpoint.expect({end.peer: ([message], [])}, 0)
    member.endpoint.receive(end, message)
    region, part, separate = message
    values: list[float] = end.window(region, part, separate=separate).tolist()
    return values


@for_each("to", [0, 1])
def test_a_message_waits_for_the_script_that_has_it(to: int) -> None:
    """A part of the gradient is due in the last plan, and in the next one as final."""
    final = Expected(GRAD, DUE.range)
    with two(SMALL, clear_pair()) as members:
        taker, sender = members[to], members[1 - to]
        # In steps of both parities it is kept apart.
        taker.endpoint.expect({sender.number: ([DUE], [DUE])}, 0)
        sender.endpoint.stamp.epoch = 2
        post(sender, final)
        until(port(sender).is_idle)
        assert not port(taker).has_arrived()

        taker.endpoint.stamp.epoch = 2

        assert received(taker, final) == numbers(sender, final)
        own = taker.memory.typed(GRAD, DUE.range)
        assert own.tolist() == numbers(sender, final)


@for_each(("epoch", "error"), [(1, Fenced), (3, ProtocolError)])
def test_a_frame_of_another_epoch_is_refused(epoch: int, error: type) -> None:
    with two(SMALL, clear_pair()) as (near, far):
        near.endpoint.stamp.epoch, far.endpoint.stamp.epoch = epoch, 2
        post(near, DUE)

        with pytest.raises(error, match=f"a frame of epoch {epoch}; .* epoch 2"):
            received(far, DUE)


@pytest.mark.parametrize("pair", PAIRS)
def test_what_is_on_a_slow_line_is_held_back_by_the_receiver(pair: Pair) -> None:
    line = LineOut(LinkSettings.parse("8kbit"), lambda: 0.0)  # 1 byte in 1 ms
    with two(SMALL, pair()) as (near, far):
        port(near).line_out = line
        far.endpoint.expect({0: ([DUE], [])}, 0)
        post(near, DUE)
        until(port(far).has_arrived)

        _, usable, *_ = port(far).take()

        assert usable - time.monotonic_ns() > 50e6  # of 100 ms


# -- damage ----------------------------------------------------------------------------


def taken(sock: socket.socket, n_bytes: int) -> bytearray:
    data = bytearray()
    while len(data) < n_bytes:
        data += sock.recv(n_bytes - len(data))
    return data


@contextmanager
def relayed(form: Form) -> Iterator[tuple[LocalMember, LocalMember, Ends]]:
    """Give two members, and between them the far end of the one's link and the other's.

    What the first one sends comes to the first socket, and goes on if the second one
    sends it.
    """
    ours, theirs = socket.socketpair(), socket.socketpair()
    near, far = form((ours[0], theirs[0]))
    with two(SMALL, (near, far), deadline_s=2.0) as (first, other), ours[1], theirs[1]:
        yield first, other, (ours[1], theirs[1])


@for_each("at", [*range(0, SIZE, 3), SIZE, SIZE + 50, SIZE + 99])
def test_one_bit_that_was_turned_on_the_way_is_found(at: int) -> None:
    with relayed(clear) as (near, far, (source, target)):
        far.endpoint.expect({0: ([DUE], [])}, 0)
        post(near, DUE)
        line = taken(source, SIZE + 100)
        line[at] ^= 0x10
        target.sendall(line)

        with pytest.raises((ProtocolError, Fenced)):
            far.endpoint.receive(port(far), DUE)
        assert not port(far).has_arrived()


@pytest.mark.usefixtures("impatient")
@for_each("at", [0, 3, 4, 80, 180])
def test_a_record_that_was_changed_ends_the_link(at: int) -> None:
    with relayed(sealed) as (near, far, (source, target)):
        far.endpoint.expect({0: ([DUE], [])}, 0)
        post(near, DUE)
        line = taken(source, 20 + SIZE + 100)
        line[at] ^= 0x10
        target.sendall(line)
        target.shutdown(socket.SHUT_WR)  # a longer record would be waited for

        with pytest.raises(PeerLost, match="task:0"):
            far.endpoint.receive(port(far), DUE)


def test_a_peer_that_runs_far_ahead_is_refused_and_overwrites_nothing() -> None:
    empty = Expected(GRAD, Range(0, 0), separate=True)
    with two(SMALL, clear_pair()) as (near, far):
        far.endpoint.expect({0: ([empty], [empty])}, 0)

        for _ in range(port(near).mask + 1):
            port(near).post(*empty[:2])
        until(lambda: port(far).lost)

        with pytest.raises(ProtocolError, match="when no more than 0 were taken"):
            far.endpoint.until(lambda: False)
        assert port(far).n_arrived() == port(far).mask


# -- ends ------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("form", [clear, sealed])
@for_each("n_bytes", [0, 30, SIZE + 90])
def test_a_peer_that_ends_while_it_sends_is_lost(form: Form, n_bytes: int) -> None:
    with relayed(form) as (near, far, (source, target)):
        far.endpoint.expect({0: ([DUE], [])}, 0)
        post(near, DUE)
        target.sendall(taken(source, n_bytes))
        target.close()

        with pytest.raises(PeerLost, match="task:0"):
            far.endpoint.receive(port(far), DUE)
        assert not port(far).has_arrived()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("form", [clear, sealed])
@for_each("n_bytes", [0, 1 << 20])
def test_a_peer_that_ends_while_it_receives_is_lost(form: Form, n_bytes: int) -> None:
    ours, others = socket.socketpair(), socket.socketpair()
    stream, unused = form((ours[0], others[0]))
    with ours[1] as source, others[1], pumped_member(LARGE, 0, 2, {1: stream}) as near:
        port(near).post(*ALL[:2])
        taken(source, n_bytes)
        assert not port(near).is_idle()
        source.close()

        with pytest.raises(PeerLost, match="task:1"):
            near.endpoint.flush()
        unused.close()


def carrying() -> list[str]:
    """Return the names of the threads that carry links to a member 1."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("kit-") and "-1" in name]


@pytest.mark.parametrize("pair", PAIRS)
def test_it_closes_while_nobody_reads_and_much_is_posted(pair: Pair) -> None:
    near, far = pair()
    with pumped_member(LARGE, 0, 2, {1: near}) as member:
        port(member).post(*ALL[:2])
    far.close()

    assert not carrying()


@pytest.mark.parametrize("refused", ["kit-send-1", "kit-receive-1", "kit-send-1-1"])
def test_a_thread_that_the_system_refuses_is_told_with_the_link_and_nothing_is_left(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = side_by_side(2, clear_pair)
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name == refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with (
        pytest.raises(ResourceExhaustedError, match=r"link to member 1.*ulimit -u"),
        pumped_member(LARGE, 0, 2, {1: near}),
    ):
        pass
    far.close()

    assert not carrying()


def exchange_for_ever(sock: socket.socket) -> None:
    """Be a process that does nothing else."""
    try:
        stream = SocketStream(sock, "tcp", "near")
        with pumped_member(LARGE, 1, 2, {0: stream}) as member:
            member.endpoint.expect({0: ([ALL], [ALL])}, 0)
            while True:
                port(member).post(*ALL[:2])
                member.endpoint.receive(port(member), ALL)
                member.endpoint.flush()
    finally:
        traceback.print_exc()
        os._exit(1)


def exchange(member: LocalMember, n_times: int) -> None:
    for _ in range(n_times):
        port(member).post(*ALL[:2])
        member.endpoint.receive(port(member), ALL)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@for_each("n_before", [1, 2, 5, 9])
def test_a_process_that_is_killed_while_both_directions_move_is_lost(
    n_before: int,
) -> None:
    ends = socket.socketpair()
    if not (child := os.fork()):
        ends[0].close()
        exchange_for_ever(ends[1])
    ends[1].close()
    near = SocketStream(ends[0], "tcp", "far")
    with pumped_member(LARGE, 0, 2, {1: near}) as member:
        member.endpoint.expect({1: ([ALL], [ALL])}, 0)
        exchange(member, n_before)
        port(member).post(*ALL[:2])
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

        with pytest.raises(PeerLost, match="task:1"):
            exchange(member, 3)  # some may have come whole
        with pytest.raises(PeerLost, match="task:1"):
            member.endpoint.flush()


def test_a_link_that_is_let_go_of_in_one_of_its_threads_is_closed() -> None:
    near, far = clear_pair()
    with pumped_member(LARGE, 0, 2, {1: near}) as member:
        member.endpoint.wake = port(member).close  # type: ignore[method-assign]
        far.close()
        until(lambda: near.fileno() < 0)


def test_a_forked_child_leaves_the_link_to_its_parent() -> None:
    with two(SMALL, clear_pair()) as (near, far):
        child = os.fork()
        if not child:
            port(near).close()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        post(near, DUE)

        assert os.waitstatus_to_exitcode(status) == 0
        assert received(far, DUE) == numbers(near, DUE)


PROGRAM = """
from tests.exchange.pumped import clear_pair, pumped_member
from tests.exchange.test_pumped_port import ALL, LARGE

near, far = clear_pair()
group = pumped_member(LARGE, 0, 2, {1: near})
member = group.__enter__()
member.endpoint.expect({1: ([ALL], [ALL])}, 0)
member.endpoint.ports[1].post(*ALL[:2])
far.write([bytes(30)])
"""


@pytest.mark.slow
def test_a_process_ends_while_its_threads_are_at_work() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


# -- when there is one -----------------------------------------------------------------


def tls_pair() -> tuple[Stream, Stream]:
    return open_streams("tls", Path(), Credentials.new())


def kind_of_port(pair: Pair, n_bytes: int, *, pumps: bool, native: bool = True) -> type:
    layout = lay_out([Spec("x", (n_bytes,), "uint8")], 2)
    near, far = pair()
    own = OwnArena("member", layout, 2)
    ends = Endpoint(["a", "b"], 0, Stamp(), deadline_s=1.0, native=native)
    try:
        Joining(ends, own, 7, pumps=pumps and native).join({1: near}, 0.0)
        return type(ends.ports[1])
    finally:
        ends.close()
        near.close()
        far.close()
        own.arena.close()


@has_loop
@for_each(
    ("pair", "n_bytes", "pumps", "kind"),
    [
        (clear_pair, 1 << 20, True, PumpedPort),
        (clear_pair, 1 << 20, False, StreamPort),
        (clear_pair, 1 << 12, True, PumpedPort),
        (sealed_pair, 1 << 19, True, StreamPort),
        (sealed_pair, 1 << 20, True, PumpedPort),
        (sealed_pair, 1 << 20, False, StreamPort),
        (memory_pair, 1 << 20, True, StreamPort),
        (tls_pair, 1 << 20, True, StreamPort),
    ],
)
def test_threads_carry_what_is_large_where_there_are_cores(
    pair: Pair, n_bytes: int, pumps: bool, kind: type
) -> None:
    assert kind_of_port(pair, n_bytes, pumps=pumps) is kind


@has_loop
@for_each("n_bytes", [1 << 12, 1 << 20])
def test_several_streams_have_threads_also_without_cores(n_bytes: int) -> None:
    pair = partial(side_by_side, 2, sealed_pair)

    assert kind_of_port(pair, n_bytes, pumps=False) is PumpedPort


@for_each("pumps", [False, True])
def test_several_streams_are_refused_without_compiled_code(pumps: bool) -> None:
    pair = partial(side_by_side, 2, sealed_pair)

    with pytest.raises(FailedPreconditionError, match=r"streams=2 needs compiled.*nat"):
        kind_of_port(pair, 1 << 20, pumps=pumps, native=False)


@contextmanager
def linked(
    layout: Layout, hosts: tuple[str, ...], streams: dict[int, Stream]
) -> Iterator[LinkedMember]:
    """Give a member of two that may have threads."""
    with ExitStack() as stack:
        member = LinkedMember(
            *(["a", "b"], 0, layout),
            label="member",
            meter=Meter(0),
            streams=lambda dialled, awaited, deadline: streams,
            cluster=7,
            deadline_s=1.0,
            hosts=hosts,
            stack=stack,
        )
        yield member
    member.release()


@for_each(
    ("n_cores", "hosts", "pumps"),
    [
        (2, (), False),
        (4, (), True),
        (3, (), False),
        (2, ("a", "b"), True),
        (2, ("a", "a"), False),
        (1, ("a", "b"), False),
    ],
)
def test_a_task_needs_two_cores_of_its_host(
    monkeypatch: pytest.MonkeyPatch, n_cores: int, hosts: tuple[str, ...], pumps: bool
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: n_cores)
    with linked(SMALL, hosts, {}) as member:
        assert member.joining.pumps == pumps


class Watched(SocketStream):
    """A stream that notes which threads of a link run when it is closed."""

    at_work: list[str] | None = None

    def close(self) -> None:
        if self.at_work is None:
            self.at_work = carrying()
        super().close()


def test_its_stream_is_closed_when_its_threads_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 64)
    near, far = socket.socketpair()
    stream = Watched(near, "tcp", "far")
    with far, linked(LARGE, (), {1: stream}) as member:
        member.links.open([1], time.monotonic() + 10)
        assert isinstance(member.endpoint.ports[1], PumpedPort)

    assert stream.at_work == []


# -- checksums -------------------------------------------------------------------------


@has_loop
@pytest.mark.parametrize("way", [0, 1, 2])
@given(size=st.integers(0, 1200), skip=st.integers(0, 17), seed=st.integers(0, 99))
def test_checksums_are_those_of_zlib(way: int, size: int, skip: int, seed: int) -> None:
    data = random.Random(seed).randbytes(skip + size)
    room = ctypes.create_string_buffer(data)
    compiled: Any = library("kit.exchange.ports._pump", FORM)
    compiled.kit_crc32.restype = ctypes.c_uint32
    start = zlib.crc32(b"before")

    checksum = compiled.kit_crc32(
        start, ctypes.byref(room, skip), ctypes.c_uint64(size), way
    )

    assert checksum == zlib.crc32(data[skip:], start)
