"""A port over a stream: what it notices, and where it puts what comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from benchmarks.sum_in_place import in_place
from kit.errors import ProtocolError
from kit.exchange.execution.program import Program
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import GRAD, NEXT
from kit.exchange.ports.port import Expected
from kit.exchange.topologies.topology import by_name
from kit.testing.contracts.port import MakePorts
from kit.testing.group import LocalMember, local_group, run_together
from kit.testing.streams import StreamAround, memory_pair, sliced
from kit.wire.frame import SIZE, Buffer
from kit.wire.stream import Stream
from tests.cases import for_each
from tests.exchange.models import group_on
from tests.exchange.pumped import pumped_group

LAYOUT = lay_out([Spec("x", (25,), "float32")], n_workers=2)
WHOLE = Range(0, 100)


class Spoiling(StreamAround):
    """An end that changes the byte number `at` that it sends, or `ends` before it."""

    def __init__(self, stream: Stream, at: int, ends: bool = False) -> None:
        super().__init__(stream)
        self._at, self._ends, self._sent = at, ends, 0

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        data, at = bytearray(b"".join(buffers)), self._at - self._sent
        self._sent += len(data)
        if 0 <= at < len(data) and self._ends:
            super().write([data[:at]])
            self.shutdown()
            return len(data)
        if 0 <= at < len(data):
            data[at] ^= 0x10
        return super().write([data])


def as_it_is(stream: Stream) -> Stream:
    return stream


def spoiling_pair(
    at: int, wrap: Callable[[Stream], Stream], *, ends: bool = False
) -> tuple[Stream, Stream]:
    near, far = memory_pair()
    return Spoiling(near, at, ends), wrap(far)


@contextmanager
def two(
    pair: Callable[[], tuple[Stream, Stream]] = memory_pair,
) -> Iterator[tuple[LocalMember, LocalMember]]:
    with local_group(LAYOUT, 2, in_place=False, pair=pair) as (near, far):
        for leaf in near.memory.gradients().values():
            leaf[:] = np.arange(25)
        far.memory.gradients()["x"][:] = -1
        yield near, far


def carry(near: LocalMember, far: LocalMember, expected: Expected) -> None:
    """Send a range of `near` to `far`."""
    far.endpoint.expect({near.number: ([expected], [])}, 0)
    near.endpoint.ports[far.number].post(expected.region, expected.range)
    far.endpoint.receive(far.endpoint.ports[near.number], expected)


@for_each("wrap", [sliced, as_it_is])
@for_each(
    ("at", "part"),
    [
        *((at, WHOLE) for at in (SIZE, SIZE + 50, SIZE + 99, 56, 59)),
        (57, Range(0, 0)),
    ],
)
def test_a_damaged_frame_is_noticed_however_it_is_cut(
    at: int, wrap: Callable[[Stream], Stream], part: Range
) -> None:
    pair = partial(spoiling_pair, at, wrap)
    damaged = pytest.raises(ProtocolError, match="frame 1 is damaged")

    with two(pair) as (near, far), damaged:
        carry(near, far, Expected(GRAD, part, separate=True))


@for_each("at", [0, 30, SIZE, SIZE + 90])
def test_a_link_that_ends_within_a_frame_is_lost_and_shows_none_of_it(at: int) -> None:
    due = Expected(GRAD, WHOLE, separate=True)
    with two(partial(spoiling_pair, at, as_it_is, ends=True)) as (near, far):
        port = far.endpoint.ports[0]
        port.expect(([due], []), 0)
        near.endpoint.ports[1].post(*due[:2])

        for _ in range(9):
            port.pump()

        assert port.lost
        assert not port.has_arrived()


def test_a_whole_frame_is_taken_byte_by_byte() -> None:
    with two(partial(spoiling_pair, -1, sliced)) as (near, far):
        carry(near, far, Expected(GRAD, WHOLE, separate=True))

        result = far.endpoint.ports[0].window(GRAD, WHOLE, separate=True)
        np.testing.assert_array_equal(result, np.arange(25))


@pytest.mark.parametrize("region", [GRAD, NEXT])
def test_what_is_final_lies_in_the_receivers_own_memory(region: int) -> None:
    with two() as (near, far):
        near.memory.typed(region, WHOLE)[:] = np.arange(25)

        carry(near, far, Expected(region, WHOLE))

        result = far.memory.typed(region, WHOLE)
        np.testing.assert_array_equal(result, np.arange(25))


@pytest.mark.parametrize("topology", ["ring", "mesh"])
@pytest.mark.parametrize("n", [2, 3])
@for_each("make", [partial(local_group, in_place=False), pumped_group])
def test_sums_in_place_are_the_same_on_all_members(
    n: int, topology: str, make: MakePorts
) -> None:
    layout = lay_out([Spec("x", (25,), "float32")], n, bucket_bytes=16 * n)
    group = group_on(layout, 0, n)
    fresh = threading.Barrier(n)

    def sum_up(member: LocalMember) -> None:
        plan = by_name(topology).plan(layout, group, member.number)
        assert plan is not None
        plan = in_place(pipelined(plan, layout, early=True))
        program = Program(plan, member.endpoint, member.memory, member.meter)
        array, stamp = member.memory.gradients()["x"], member.endpoint.stamp
        for step in range(3):
            array[:] = np.arange(25) * 10**member.number + step
            fresh.wait(10)
            program.step()
            stamp.parity, stamp.step = 1 - stamp.parity, step + 1
            whole = np.arange(25) * sum(10**number for number in range(n)) + n * step
            np.testing.assert_array_equal(array, whole)

    with make(layout, n) as members:
        run_together(members, sum_up)
