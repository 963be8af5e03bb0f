"""When the compiled loop carries an exchange out, and when Python does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kit.exchange.execution import native_executor
from kit.exchange.execution.bound_operations import Sum, Take
from kit.exchange.execution.native_executor import loop, suit
from kit.exchange.layout import Spec, lay_out
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Stamp
from kit.exchange.ports.shared_port import SharedPort
from kit.testing.group import local_group
from kit.wire.shaping import LineOut, LinkSettings

has_loop = pytest.mark.skipif(loop() is None, reason="the compiled loop was not built")
LAYOUT = lay_out([Spec("w", (90, 7), "float32")], 2, 1000)


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
        assert not suit([Take(endpoint.ports[1], 1, 8)], endpoint)


@has_loop
def test_a_link_with_a_speed_is_left_to_python() -> None:
    with local_group(LAYOUT, 2) as members:
        endpoint = members[0].endpoint
        port = endpoint.ports[1]
        assert isinstance(port, SharedPort)
        assert suit([Take(port, 1, 8)], endpoint)
        port.line_out = LineOut(LinkSettings.parse("1gbit"), lambda: 0.5)
        assert not suit([Take(port, 1, 8)], endpoint)


def test_without_a_build_all_is_left_to_python(
    monkeypatch: pytest.MonkeyPatch, alone: Endpoint
) -> None:
    monkeypatch.setattr(native_executor, "loop", lambda: None)
    assert not suit([], alone)
    assert not suit([Sum(*np.zeros((3, 4), np.float32))], alone)
