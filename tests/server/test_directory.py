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
from tests.cases import for_each

ME, FAR = Task("worker", 1), Task("worker", 0)
LINK = cast("Link", object())
SLOW = DeadlineExceededError("it did not take the connection in time.")
ABSENT = UnavailableError("nobody answers there.")


class Line(Directory):
    """A directory whose attempts end as they are told, each after a second."""

    outcomes: list[KitError | Link]
    pauses: list[float]
    now = 0.0

    def dial(self, *_: Any, **__: Any) -> Link:
        self.now += 1.0
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, KitError):
            raise outcome
        return outcome

    def try_until(
        self,
        deadline: float,
        *outcomes: KitError | Link,
        check: Callable[[], None] = lambda: None,
    ) -> Link:
        self.outcomes, self.pauses = [*outcomes], []
        when: dict[str, Any] = {"deadline": deadline, "clock": lambda: self.now}
        return self.reach(
            *(FAR, ME, Role.DATA), check=check, sleep=self.pauses.append, **when
        )


@pytest.fixture
def line(tmp_path: Path, credentials: Credentials) -> Line:
    return Line({FAR: "unix:/nowhere"}, credentials, tmp_path, Settings())


@for_each("first", [SLOW, ABSENT])
def test_task_that_does_not_answer_at_once_is_dialled_again(
    line: Line, first: KitError
) -> None:
    assert line.try_until(60, first, first, LINK) is LINK
    assert line.pauses == [0.01, 0.02]


@pytest.mark.parametrize("always", [SLOW, ABSENT])
def test_waiting_ends_at_the_deadline_and_says_what_was_met_last(
    line: Line, always: KitError
) -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        line.try_until(3, *[always] * 9)

    assert len(line.outcomes) == 6
    assert caught.value.task == str(FAR)
    assert caught.value.message.endswith(f"did not come up in time: {always.message}")


def test_refusal_is_not_asked_for_twice(line: Line) -> None:
    with pytest.raises(AuthenticationFailed):
        line.try_until(60, AuthenticationFailed("another key."), LINK)

    assert line.outcomes == [LINK]


def test_what_ends_meanwhile_ends_the_waiting(line: Line) -> None:
    def check() -> None:
        if len(line.outcomes) == 2:
            raise ClusterBusy("the training ended.")

    with pytest.raises(ClusterBusy):
        line.try_until(60, SLOW, SLOW, LINK, check=check)

    assert line.outcomes == [SLOW, LINK]
