"""A task that is to be reached is dialled until it answers, or for good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kit.errors import (
    AuthenticationFailed,
    ClusterBusy,
    DeadlineExceededError,
    KitError,
    UnavailableError,
)
from kit.server.directory import Directory
from kit.settings import Settings
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.link import Link

ME, FAR = Task("worker", 1), Task("worker", 0)
LINK = cast("Link", object())
SLOW = DeadlineExceededError("it did not take the connection in time.")
ABSENT = UnavailableError("nobody answers there.")


class Line(Directory):
    """A directory whose attempts end as they are told, each after a second."""

    def script(self, *outcomes: KitError | Link) -> Line:
        self.__dict__.update(outcomes=list(outcomes), now=0.0, pauses=[])
        return self

    def dial(self, *_: Any, **__: Any) -> Link:
        self.__dict__["now"] += 1.0
        outcome = self.__dict__["outcomes"].pop(0)
        if isinstance(outcome, KitError):
            raise outcome
        return cast("Link", outcome)

    def try_until(
        self, deadline: float, check: Callable[[], None] = lambda: None
    ) -> Link:
        return self.reach(
            FAR,
            ME,
            Role.DATA,
            deadline=deadline,
            check=check,
            clock=lambda: float(self.__dict__["now"]),
            sleep=self.__dict__["pauses"].append,
        )

    @property
    def left(self) -> int:
        return len(self.__dict__["outcomes"])


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line({FAR: "unix:/nowhere"}, Credentials.new(), tmp_path, Settings())


@pytest.mark.parametrize("first", [SLOW, ABSENT])
def test_task_that_does_not_answer_at_once_is_dialled_again(
    line: Line, first: KitError
) -> None:
    assert line.script(first, first, LINK).try_until(60) is LINK
    assert line.__dict__["pauses"] == [0.01, 0.02]


@pytest.mark.parametrize("always", [SLOW, ABSENT])
def test_waiting_ends_at_the_deadline_and_says_what_was_met_last(
    line: Line, always: KitError
) -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        line.script(*[always] * 9).try_until(3)

    assert line.left == 6
    assert caught.value.task == str(FAR)
    assert caught.value.message.endswith(f"did not come up in time: {always.message}")


def test_refusal_is_not_asked_for_twice(line: Line) -> None:
    with pytest.raises(AuthenticationFailed):
        line.script(AuthenticationFailed("another key."), LINK).try_until(60)

    assert line.left == 1


def test_what_ends_meanwhile_ends_the_waiting(line: Line) -> None:
    def check() -> None:
        if line.left == 2:
            raise ClusterBusy("the training ended.")

    with pytest.raises(ClusterBusy):
        line.script(SLOW, SLOW, LINK).try_until(60, check)

    assert line.left == 2
