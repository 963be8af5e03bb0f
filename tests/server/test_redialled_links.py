"""A link that its dialler gave up, when the other end had it already, harms nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kit
from kit.errors import DeadlineExceededError, LinkLost, PeerLost
from kit.server.directory import Directory
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.core import questions
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.rpc import ReconnectingCaller
from tests.training.toy import begin, quick_cluster, replayed, same_bits

DIALLER = Task("worker", 1)


@pytest.fixture
def ring() -> Iterator[LocalCluster]:
    with quick_cluster(0, 2) as result:
        yield result


def give_up_the_first(
    monkeypatch: pytest.MonkeyPatch, role: Role, until: threading.Event
) -> list[Link]:
    """Let worker:1 not hear of the first link that it is given, and dial again.

    It does so when the other end has seen what `until` says.
    """
    plain: Callable[..., Link] = Directory.dial
    given_up: list[Link] = []

    def dial(self: Directory, task: Task, me: Task, *rest: Any, **more: Any) -> Link:
        link = plain(self, task, me, *rest, **more)
        if (me, rest[0]) != (DIALLER, role) or given_up:
            return link
        given_up.append(link)
        link.close()
        assert until.wait(10)
        raise DeadlineExceededError("it did not answer in time.")

    monkeypatch.setattr(Directory, "dial", dial)
    return given_up


def assert_trained(run: kit.Run) -> None:
    assert run.wait(10).lost == {}
    assert same_bits(run.params, replayed(6, 2, kit.GradientDescent()))


def test_member_asks_all_over_one_link_and_tells_that_it_lives_while_it_waits(
    ring: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, beats = list[Link](), list[bool]()
    leader = ring.servers[0].trainings
    plain, call = leader.link_opened, ReconnectingCaller.call

    def link_opened(link: Link) -> None:
        plain(link)
        opened.append(link)

    def call_and_note(self: ReconnectingCaller, op: str, *more: Any, **on: Any) -> Any:
        answer = call(self, op, *more, **on)
        if op == "run.beat":
            beats.append(bool(member.meets_since))
        return answer

    monkeypatch.setattr(leader, "link_opened", link_opened)
    monkeypatch.setattr(questions, "PATIENCE_S", 30.0)
    run = begin(ring, topology="ring", steps=1_000_000)
    run.pause()
    member = ring.servers[1].trainings.find(run.job.run)
    until(lambda: bool(member.meets_since), 10)
    monkeypatch.setattr(ReconnectingCaller, "call", call_and_note)

    until(lambda: sum(beats) >= 3, 20)  # long before that answer is due

    run.stop()
    assert run.wait(10).lost == {}
    by = [link.peer for link in opened if link.role is Role.CONTROL]
    assert by == [DIALLER]


def test_control_link_that_was_given_up_is_no_lost_member(
    ring: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, leader = threading.Event(), ring.servers[0].trainings
    plain: Callable[..., None] = leader.link_closed

    def link_closed(link: Link, *more: Any) -> None:
        plain(link, *more)
        if (link.peer, link.role) == (DIALLER, Role.CONTROL):
            ended.set()

    monkeypatch.setattr(leader, "link_closed", link_closed)
    given_up = give_up_the_first(monkeypatch, Role.CONTROL, ended)

    run = begin(ring, topology="ring")

    assert_trained(run)
    assert len(given_up) == 1


def test_member_that_has_dialled_its_coordinator_anew_is_not_lost(
    ring: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old link's end may be heard of long after the new one's begin."""
    kept, closed = list[ReconnectingCaller](), threading.Event()
    leader = ring.servers[0].trainings
    plain: Callable[..., None] = leader.link_closed
    call = ReconnectingCaller.call

    def link_closed(link: Link, *more: Any) -> None:
        plain(link, *more)
        closed.set()

    def call_anew(self: ReconnectingCaller, op: str, *args: Any, **more: Any) -> Any:
        if op == "run.beat" and not kept:
            kept.append(self)
            old, self._caller = self._caller, None
            call(self, op, *args, **more)
            assert old is not None
            old.close()
            assert closed.wait(10)
        return call(self, op, *args, **more)

    monkeypatch.setattr(leader, "link_closed", link_closed)
    monkeypatch.setattr(ReconnectingCaller, "call", call_anew)
    run = begin(ring, topology="ring", steps=1_000_000)
    assert closed.wait(10)
    run.stop()

    assert run.wait(10).lost == {}
    assert len(kept) == 1


def test_member_that_has_left_is_done_though_the_answer_was_lost(
    ring: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who leads goes when it has heard of all, and cannot be asked again."""
    asked = list[str]()
    call = ReconnectingCaller.call

    def call_and_lose(
        self: ReconnectingCaller, op: str, *more: Any, **named: Any
    ) -> Any:
        answer = call(self, op, *more, **named)
        if op == "run.leave":
            asked.append(op)
            raise LinkLost("nobody listens there any more.")
        return answer

    monkeypatch.setattr(ReconnectingCaller, "call", call_and_lose)
    run = begin(ring, topology="ring")
    member = ring.servers[1].trainings.find(run.job.run)

    assert member.join(10)
    assert (asked, member.state) == (["run.leave"], "done")
    assert_trained(run)


@pytest.mark.slow
@pytest.mark.parametrize("comes", ["first", "last"])
def test_data_link_that_was_given_up_is_not_used_and_closed(
    ring: LocalCluster, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    here, both = threading.Event(), threading.Event()
    leader, arrived = ring.servers[0].trainings, list[Link]()
    take, streams = leader.take_data_link, leader.streams

    def take_data_link(link: Link) -> None:
        arrived.append(link)
        if comes == "first" or len(arrived) == 2:
            for item in reversed(arrived) if comes == "last" else [link]:
                take(item)
        here.set()
        if len(arrived) == 2:
            both.set()

    def wait_for_both(*args: Any) -> Any:
        assert comes == "first" or both.wait(10)
        return streams(*args)

    monkeypatch.setattr(leader, "take_data_link", take_data_link)
    monkeypatch.setattr(leader, "streams", wait_for_both)
    give_up_the_first(monkeypatch, Role.DATA, here)

    run = begin(ring, topology="ring")

    assert_trained(run)
    ring.servers[0].stop()
    assert [link.fileno() for link in arrived] == [-1, -1]


def test_end_of_a_member_is_heard_of_while_it_waits_for_an_answer(
    ring: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "PATIENCE_S", 30.0)
    run = begin(ring, topology="ring", steps=1_000_000)
    run.pause()
    leader, other = (server.trainings.find(run.job.run) for server in ring.servers)
    until(lambda: bool(leader.meets_since and other.meets_since), 10)

    assert other._client is not None
    other._client.close()  # as the end of its process does

    # Long before the answer is due that it waits for.
    assert leader.coordinator is not None
    until(lambda: leader.coordinator.status()["lost"] != {}, 25)  # type: ignore[union-attr]
    with pytest.raises(PeerLost, match="its links closed"):
        run.wait(10)
