"""What one asks of a stepper: its arguments, its positions, and topologies beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from kit.exchange.layout import Layout
from kit.exchange.plan import Group, Plan
from kit.exchange.topologies import topology
from kit.exchange.topologies.ring import Ring
from kit.exchange.topologies.topology import Topology
from tests.cases import for_each
from tests.widgets.insides import bundle_of
from widgets import ExchangeStepper, RingStepper, ServerStepper


def test_a_worker_alone_needs_no_message() -> None:
    stepper = RingStepper(1)

    assert stepper.last == 0
    assert stepper.recording.states[0].rows[0][0].is_result
    assert "no message" in repr(stepper)


def test_next_and_back_stop_at_the_ends_and_no_position_is_beyond() -> None:
    stepper = RingStepper(n=2, size=2)

    stepper.back()
    assert stepper.position == 0
    for _ in range(10):
        stepper.next()
    assert stepper.position == stepper.last == 4
    stepper.back()
    for beyond in (-1, 5):
        with pytest.raises(OutOfRangeError, match="to 4"):
            stepper.position = beyond
    assert stepper.position == 3


def test_numbers_of_a_task_are_asked_for_by_its_name() -> None:
    stepper = ServerStepper(n=2, size=2)

    assert np.isnan(stepper.held("ps:0")).all()
    with pytest.raises(NotFoundError, match="ps:0, worker:0, worker:1"):
        stepper.held("worker:2")


@for_each(
    ("options", "said"),
    [
        ({"n": 0}, "from 1 to 8"),
        ({"n": 9}, "9 workers"),
        ({"n": 2.5}, "2.5 workers"),
        ({"size": -1}, "elements"),
        ({"size": 5000}, "4096"),
        ({"values": []}, "0 workers"),
        ({"values": [[1.0], [1.0, 2.0]]}, r"\(1,\), \(2,\)"),
        ({"values": [[1], [2]], "n": 3}, "n=3"),
        ({"values": [[1], [2]], "size": 2}, "size=2"),
        ({"values": [["a"], ["b"]]}, "float32"),
        ({"values": [[1j], [2j]]}, "complex128"),
    ],
)
def test_what_cannot_be_shown_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        RingStepper(**options)


def test_a_topology_that_is_unknown_or_has_no_servers_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="from 1 to 4"):
        ServerStepper(n_ps=0)
    with pytest.raises(InvalidArgumentError, match="is 0"):
        ExchangeStepper("ring", n_ps=1)
    with pytest.raises(InvalidArgumentError, match="Did you mean 'mesh'"):
        ExchangeStepper("mash")


def test_a_topology_of_ones_own_needs_a_plan_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mine(Topology):
        name = "mine"

        def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
            return Ring().plan(layout, group, member)

    monkeypatch.setitem(topology.TABLE, "mine", Mine())

    stepper, ring = ExchangeStepper("mine", n=3), RingStepper(n=3)

    assert replace(stepper.formula, text=ring.formula.text) == ring.formula
    assert stepper.recording.states == ring.recording.states
    assert "Topology mine: 3 workers" in bundle_of(stepper)["text/html"]


def test_plans_that_do_not_fit_together_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(Ring):
        name = "silent"

        def plan(self, layout: Any, group: Any, member: int) -> Any:
            return super().plan(layout, group, member) if member else None

    monkeypatch.setitem(topology.TABLE, "silent", Silent())

    with pytest.raises(FailedPreconditionError, match=r"worker:1.*wait without end"):
        ExchangeStepper("silent", n=3)
