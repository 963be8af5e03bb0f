"""Those who look at a training are waited for a moment, and hold nobody else up."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import pytest

from kit.errors import InvalidArgumentError
from kit.hooks import SessionRunHook
from kit.server.watchers import Watchers
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.wire.link import Link
from tests.session.scene import in_thread
from tests.training.toy import begin

RUN, OTHER_RUN = "ab" * 16, "cd" * 16
LATE = Task("worker", 1)


@dataclass(frozen=True)
class Watch:
    """As much of a link as matters here."""

    run_id: bytes
    peer: Task = LATE


def link(run: str) -> Link:
    return cast("Link", Watch(bytes.fromhex(run)))


def is_held_up(watchers: Watchers, *, is_done: bool = True) -> bool:
    """Whether who waits for the watchers of RUN has to wait until the limit."""
    limit_s, begun = 0.05, time.monotonic()
    watchers.see_off(RUN, limit_s, is_done=is_done)
    return time.monotonic() - begun >= limit_s


def test_nobody_is_waited_for_where_nobody_looks() -> None:
    watchers = Watchers()
    watchers.opened(link(OTHER_RUN))
    watchers.expect(OTHER_RUN, LATE)
    watchers.closed(link(RUN))

    watchers.see_off(RUN, 1000.0, is_done=True)


def test_who_looks_is_waited_for_until_the_link_is_closed() -> None:
    watchers, item = Watchers(), link(RUN)
    watchers.opened(item)
    assert is_held_up(watchers)

    waiting = in_thread(lambda: watchers.see_off(RUN, 1000.0, is_done=True))
    watchers.closed(item)

    waiting.result(10)


def test_who_is_to_come_is_waited_for_after_a_good_end_only() -> None:
    watchers = Watchers()
    watchers.expect(RUN, LATE)
    assert not is_held_up(watchers, is_done=False)

    watchers.expect(RUN, LATE)
    assert is_held_up(watchers)
    assert not is_held_up(watchers)  # it had its time


@pytest.mark.slow
def test_observer_is_heard_while_a_training_is_being_made() -> None:
    begins, may_begin = threading.Event(), threading.Event()

    class Slow(SessionRunHook):
        def begin(self) -> None:
            begins.set()
            assert may_begin.wait(30)

    with local_cluster(0, 2) as cluster:
        options: dict[str, Any] = {"topology": "ring", "steps": 2, "hooks": [Slow()]}
        run = in_thread(lambda: begin(cluster, **options).wait(20))
        assert begins.wait(20)

        question = {"run": RUN, "cursors": []}
        with (
            closing(cluster.dial(Task("worker", 0), RUN)) as asking,
            pytest.raises(InvalidArgumentError, match="knows nothing"),
        ):
            asking.call("run.poll", 5.0, question)

        may_begin.set()
        assert run.result(20).step == 2
