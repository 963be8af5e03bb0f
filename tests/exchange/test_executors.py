"""What the compiled loop carries out, what Python does, and what both count."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from kit.errors import ProtocolError
from kit.exchange.execution import native_executor
from kit.exchange.execution.bound_operations import Sum, Take
from kit.exchange.execution.native_executor import loop, suit
from kit.exchange.execution.program import Program
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.plan import GRAD, NEXT, Plan, Receive, Send
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Expected, Stamp
from kit.exchange.ports.shared_port import SharedPort
from kit.testing.group import LocalMember, local_group
from kit.trace.traffic import TransferKind
from kit.wire.shaping import LineOut, LinkSettings
from tests.cases import for_each
from tests.exchange.pumped import pumped_group

has_loop = pytest.mark.skipif(loop() is None, reason="the compiled loop was not built")
LAYOUT = lay_out([Spec("w", (90, 7), "float32")], 2, 1000)
DUE = Expected(GRAD, Range(16, 24), separate=True)


@pytest.fixture
def alone() -> Iterator[Endpoint]:
    endpoint = Endpoint(["/job:worker/task:0"], 0, Stamp(), deadline_s=1.0)
    yield endpoint
    endpoint.close()


@has_loop
def test_what_it_cannot_do_is_left_to_python(alone: Endpoint) -> None:
    whole, half = np.zeros(4, np.float32), np.zeros(4, np.float16)
    assert suit([Sum(whole, whole, whole)], alone)
    assert not suit([Sum(half, half, half)], alone)
    ticking = Endpoint(["a"], 0, Stamp(), deadline_s=1.0, clock=iter(range(9)).__next__)
    assert not suit([], ticking)
    unwanted = Endpoint(["a"], 0, Stamp(), deadline_s=1.0, native=False)
    assert not suit([], unwanted)
    for endpoint in (ticking, unwanted):
        endpoint.close()
    with local_group(LAYOUT, 2, in_place=False) as members:
        endpoint = members[0].endpoint
        assert not suit([Take(endpoint.ports[1], 1, DUE)], endpoint)


@has_loop
def test_a_link_with_a_speed_is_left_to_python() -> None:
    with local_group(LAYOUT, 2) as members:
        endpoint = members[0].endpoint
        port = endpoint.ports[1]
        assert isinstance(port, SharedPort)
        assert suit([Take(port, 1, DUE)], endpoint)
        port.line_out = LineOut(LinkSettings.parse("1gbit"), lambda: 0.5)
        assert not suit([Take(port, 1, DUE)], endpoint)


def test_without_a_build_all_is_left_to_python(
    monkeypatch: pytest.MonkeyPatch, alone: Endpoint
) -> None:
    monkeypatch.setattr(native_executor, "loop", lambda: None)
    assert not suit([], alone)
    assert not suit([Sum(*np.zeros((3, 4), np.float32))], alone)


def run_plans(
    members: list[LocalMember], sent: list[Send], received: list[Receive]
) -> None:
    """Carry out a plan of one member that sends, and one of the other that receives."""
    plans = Plan((tuple(sent),), ()), Plan((tuple(received),), ())
    for member, plan in zip(members, plans, strict=True):
        Program(plan, member.endpoint, member.memory, member.meter).step()


@for_each("make", [local_group, partial(local_group, in_place=False), pumped_group])
@for_each("native", [True, False])
@for_each(
    ("region", "part", "said"),
    [
        (GRAD, Range(16, 20), "bytes 16 to 20 of region 0 (4 bytes)"),
        (GRAD, Range(16, 400), "bytes 16 to 400 of region 0 (384 bytes)"),
        (GRAD, Range(24, 32), "bytes 24 to 32 of region 0 (8 bytes)"),
        (GRAD, Range(16, 16), "bytes 16 to 16 of region 0 (0 bytes)"),
        (NEXT, Range(16, 24), "bytes 16 to 24 of region 2 (8 bytes)"),
    ],
)
def test_what_a_neighbour_posts_against_the_plan_is_refused_and_not_counted(
    make: Any, native: bool, region: int, part: Range, said: str
) -> None:
    kind = TransferKind.REDUCE
    due = Receive(0, GRAD, DUE.range, kind)
    fitting = Send(1, GRAD, DUE.range, kind)
    with make(LAYOUT, 2, native=native, deadline_s=1.0) as members:
        with pytest.raises(ProtocolError) as refused:
            run_plans(members, [fitting, Send(1, region, part, kind)], [due, due])

        assert said in str(refused.value)
        assert "bytes 16 to 24 of region 0 (8 bytes) were due" in str(refused.value)
        counted = [row[4:] for row in members[1].meter.totals().tolist()]
        # The first message as it was sent; a stream may be refused before it is taken.
        assert counted in ([(8, 1)], [] if make is not local_group else [(8, 1)])


@has_loop
@for_each("order", [(True, False), (False, True)])
def test_both_executors_read_the_notes_of_the_other(order: tuple[bool, bool]) -> None:
    kind, parts = TransferKind.GATHER, LAYOUT.buckets[0].chunks
    with local_group(LAYOUT, 2) as members:
        for member, native in zip(members, order, strict=True):
            member.endpoint.native = native
        run_plans(
            members,
            [Send(1, NEXT, part, kind) for part in parts],
            [Receive(0, NEXT, part, kind) for part in parts],
        )

        (counted,) = members[1].meter.totals().tolist()
        assert counted[4:] == (sum(part.size for part in parts), len(parts))
