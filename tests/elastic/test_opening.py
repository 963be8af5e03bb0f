"""A generation whose links are slow to open begins later, or is followed by another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, cast

import numpy as np
import pytest

from kit.errors import DeadlineExceededError, KitError, LinkLost, PeerLost
from kit.exchange.group.links import Links
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.port import Expected
from kit.server.directory import Directory
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.group import local_group
from kit.testing.task_process import until
from kit.training.core.snapshot import CopyPoint, Shard
from kit.training.features.elastic.asking import Ask
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from tests.elastic.coroutines import ORIGIN
from tests.elastic.scene import ENDLESS, assert_undisturbed, end, train
from tests.elastic.world import World

QUICK = {"heartbeat_s": 0.1, "suspect_after_s": 0.5, "connect_deadline_s": 0.5}


class Slow:
    """A way to the coordinator of the first later generation that is too slow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, attempts: float) -> None:
        """So many attempts to take it are in vain."""
        self.n_vain, self.run = 0, ""
        plain: Callable[..., Link] = Directory.dial

        def dial(
            own: Directory, task: Task, me: Task, role: Role, run: str = "", **more: Any
        ) -> Link:
            if role is Role.CONTROL and run and more["address"]:
                self.run = self.run or run
                if run == self.run and self.n_vain < attempts:
                    self.n_vain += 1
                    raise DeadlineExceededError("it did not answer in time.")
            return plain(own, task, me, role, run, **more)

        monkeypatch.setattr(Directory, "dial", dial)


@pytest.mark.slow
@pytest.mark.parametrize(("attempts", "n_changes"), [(2, 1), (float("inf"), 2)])
def test_a_training_goes_on_though_a_member_does_not_reach_the_coordinator_in_time(
    attempts: float, n_changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ended with that error, when the others had waited for a minute.
    slow = Slow(monkeypatch, attempts)
    with settings(dead_after_s=2.0, **QUICK), local_cluster(0, 2) as cluster:
        run = train(cluster, steps=ENDLESS)
        until(lambda: run.copied > 0)
        run.resize(worker=1)
        until(lambda: len(run.history()) >= n_changes)
        seen = run.step
        until(lambda: run.step > seen)
        end(run)
        assert slow.n_vain >= 2
        assert_undisturbed(run, 2)


def test_stand_in_that_is_made_while_the_training_closes_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(2)
    machine, stopped = world.machines["worker:0"], list[Task]()
    training = machine.training

    class Late:
        """A server that is there when the training has been closed."""

        trainings, address = machine, "somewhere"

        def __init__(self, task: Task) -> None:
            self.task = task

        def stop(self) -> None:
            stopped.append(self.task)

    def stand_in(task: Task, _: str) -> Any:
        training.close(machine)
        return Late(task)

    monkeypatch.setattr(machine, "stand_in", stand_in)
    assert training.claim(1, after=0)["granted"]

    training.host(1, ["worker:0", "worker:0"])

    assert stopped == [Task("worker", 1)]


def copy_of_the_first() -> Shard:
    sizes, data = (0, 0, 0, 0), np.zeros(0, np.uint8)
    return Shard(CopyPoint(0), 0, (0, 1), (), {}, sizes, data)


class Stream:
    """A data link whose other end says nothing."""

    is_shut = False

    def shutdown(self) -> None:
        self.is_shut = True

    def close(self) -> None:
        """Let go of nothing."""


def test_a_member_that_is_ended_before_it_waits_for_arenas_does_not_wait_for_them() -> (
    None
):
    stream = Stream()

    def streams(*_: object) -> dict[int, Any]:
        return {1: stream}

    class Joining:
        def join(self, streams: dict[int, Any], deadline: float) -> dict[int, Any]:
            assert [stream.is_shut for stream in streams.values()] == [True]
            raise PeerLost("it was shut down.")

    with ExitStack() as stack:
        links = Links(0, cast("Any", Joining()), streams, {}, stack)
        links.abort()

        with pytest.raises(PeerLost, match="shut down"):
            links.open([1], deadline=0.0)


def test_a_member_that_was_stopped_for_long_says_who_is_gone() -> None:
    # Of a deadline the training would end for it, and not go on with it.
    layout = lay_out([Spec("w", (8,), "float32")], 2, 0)
    with local_group(layout, 2, in_place=False) as members:
        endpoint, other = members[0].endpoint, members[1].endpoint
        ticks = iter(range(0, 10**12, 40 * 10**9))  # it is stopped again and again
        endpoint.clock = lambda: next(ticks)
        other.close()
        port = endpoint.ports[1]
        port.pump()
        assert port.lost is False
        wanted = Expected(GRAD, Range(0, 32), separate=True)
        port.expect([[wanted], [wanted]], 0)

        with pytest.raises(PeerLost) as lost:
            endpoint.receive(port, wanted)

    assert lost.value.task == "/job:member/task:1"


def test_generations_that_fail_as_soon_as_they_begin_end_after_a_while() -> None:
    world = World(2)
    machine = world.machines["worker:0"]
    now, limits = machine.training.now, world.job.settings
    give_up_s = limits.dead_after_s + limits.start_deadline_s

    def error_after(seconds: float, **changes: Any) -> KitError | None:
        """Return what it ends with when a loss is noticed so late."""
        now.error, now.noticed, now.failing_since = None, None, 1.0
        for name, value in changes.items():
            setattr(now, name, value)
        world.clock = 1.0 + seconds
        now.noticed = world.clock, "a line is cut"
        wanted = next(machine.succession._go_on(0, "a line is cut"), None)
        error: KitError | None = now.error
        assert isinstance(wanted, Ask) == (error is None)
        return error

    assert error_after(give_up_s - 0.1) is None
    result = error_after(give_up_s + 0.1)
    assert isinstance(result, PeerLost)
    assert "a line is cut" in result.message
    assert error_after(give_up_s + 0.1, failing_since=None) is None


def test_a_generation_that_came_to_a_copy_or_has_lasted_did_not_fail_at_once() -> None:
    world = World(2)
    training = world.machines["worker:0"].training
    now, lasting_s = training.now, world.job.settings.start_deadline_s + 1.0

    def failing_since(at: float, began_at: float = 0.0) -> float | None:
        """Return since when generations fail, when a loss is noticed at that time."""
        world.clock, now.began_at, now.noticed = at, began_at, None
        training.lose(0, "it is gone")
        since: float | None = now.failing_since
        return since

    assert failing_since(1.0) == 1.0
    assert failing_since(3.0, began_at=2.0) == 1.0
    assert failing_since(2.0 + lasting_s, began_at=2.0) == 2.0 + lasting_s
    training.keep(world.job.run, copy_of_the_first())
    assert now.failing_since is None


def test_copies_are_not_given_up_for_a_link_that_is_lost_long_after_the_loss() -> None:
    world = World(2)
    machines, limit_s = world.machines, world.job.settings.dead_after_s
    now = machines["worker:0"].training.now
    now.noticed, world.clock = (0.0, "a line is cut"), limit_s + 1.0
    for machine in machines.values():  # a copy was whole once
        machine.training._work.params = None

    def lead(other: KitError) -> None:
        """Let the first process lead, and hear that of the other."""
        coroutine = machines["worker:0"].succession._lead()
        asked = next(coroutine)
        own = machines["worker:0"].answer(asked.op, {"origin": ORIGIN, **asked.values})
        with pytest.raises((PeerLost, StopIteration)):
            coroutine.send({"worker:0": own[0], "worker:1": other})

    lead(LinkLost("it ended"))
    assert now.error is None
    world.clock += limit_s + 1.0
    lead(LinkLost("it ended"))  # it may answer over another one
    assert now.error is None
    lead(DeadlineExceededError("it is silent"))
    assert isinstance(now.error, PeerLost)
    assert "only copies" in now.error.message
