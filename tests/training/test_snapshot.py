"""Parameters that are copied while a training goes on are those of one moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.errors import DeadlineExceededError
from kit.exchange.ports.port import Stamp
from kit.task import Task
from kit.training.core.context import MemberContext
from kit.training.core.member import Member
from kit.training.core.news import parameters


@dataclass
class Busy:
    """A part of a training that goes on while its parameters are copied."""

    goes_on: list[Callable[[Any], None]]
    step: int = 7
    endpoint: Any = field(default_factory=lambda: SimpleNamespace(stamp=Stamp()))
    n_copies: int = 0

    moment = MemberContext.moment

    def parameters(self) -> bytes:
        self.n_copies += 1
        if self.goes_on:
            self.goes_on.pop(0)(self)
            return b"torn"
        return b"whole"


def copy(busy: Busy, clock: Callable[[], float] = lambda: 0.0) -> tuple[int, bytes]:
    task = Task("worker", 0)
    member = SimpleNamespace(context=busy, epochs=[1], task=task, state="running")
    return parameters(cast("Member", member), clock)


def makes_a_step(busy: Busy) -> None:
    busy.step += 1


def commits(busy: Busy) -> None:
    busy.endpoint.stamp.parity ^= 1


def switches(busy: Busy) -> None:
    busy.endpoint.stamp.epoch += 1


@pytest.mark.parametrize("change", [makes_a_step, commits, switches])
def test_what_was_copied_while_it_changed_is_copied_again(
    change: Callable[[Any], None],
) -> None:
    busy = Busy([change, change])

    assert copy(busy) == (busy.step, b"whole")
    assert busy.n_copies == 3


def test_steps_that_are_too_short_to_copy_between_end_in_a_deadline() -> None:
    times = iter(range(1000))

    with pytest.raises(DeadlineExceededError, match=r"pause the run first"):
        copy(Busy([makes_a_step] * 1000), lambda: float(next(times)))
