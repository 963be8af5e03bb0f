"""A worker that looks a moment late at a training's end still learns all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import kit
from kit.server.spmd import TrainingRendezvous
from kit.training.client.observer import Observer
from kit.training.core.member import Member
from tests.server.spmd_stage import MakeStage, in_turn, program
from tests.training.toy import Params, fit, replayed, same_bits

LATE_S = 0.3
FINAL = replayed(6, 2, kit.GradientDescent())


def ask_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let worker:1 ask the others only a while after its own part is over."""
    follow: Callable[..., None] = Observer._follow
    pause = threading.Event()

    def follow_late(self: Observer, caller: Any, watched: Any, *more: Any) -> None:
        own = self._watched[self._trusted]
        if self._trusted != self._job.coordinator and watched is not own:
            give_up = time.monotonic() + 10
            while not own.is_over and time.monotonic() < give_up:
                pause.wait(0.005)
            pause.wait(LATE_S)
        follow(self, caller, watched, *more)

    monkeypatch.setattr(Observer, "_follow", follow_late)


def come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let worker:1 begin to look a while after its own part is over."""
    wait: Callable[..., None] = TrainingRendezvous.wait_until_begun
    pause = threading.Event()

    def wait_long(self: TrainingRendezvous, member: Member) -> None:
        wait(self, member)
        if self.me.index == 1:
            member.join(10)
            pause.wait(LATE_S)

    monkeypatch.setattr(TrainingRendezvous, "wait_until_begun", wait_long)


def assert_learned(run: kit.Run) -> None:
    assert (run.state, run.lost, len(run.metrics)) == ("done", {}, 6)
    assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
@pytest.mark.parametrize("late", [ask_late, come_late])
def test_worker_that_looks_late_learns_the_end_though_the_next_training_begins(
    stage: MakeStage,
    monkeypatch: pytest.MonkeyPatch,
    late: Callable[[pytest.MonkeyPatch], None],
) -> None:
    late(monkeypatch)

    for runs in stage().results(in_turn(program(), program())):
        for run in runs:
            assert_learned(run)
            assert same_bits(run.params, FINAL)


@pytest.mark.slow
def test_worker_that_looks_late_learns_the_end_though_the_leader_leaves(
    stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_late(monkeypatch)

    def leave(server: kit.Server) -> kit.Run:
        with server:
            run: kit.Run = program()(server)
            return run

    for run in stage().results(leave):
        assert_learned(run)


@pytest.mark.slow
def test_worker_that_looks_late_has_the_servers_parameters_all_the_same(
    stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_late(monkeypatch)
    pause = threading.Event()

    def leader_is_slower(params: Params, batch: Any) -> Any:
        if threading.current_thread().name == "kit-run-worker:0":
            pause.wait(0.05)  # so the last update is one that worker:1 never pulls
        return fit(params, batch)

    slower = program(step=leader_is_slower, sync=False)
    (leader, _), (late, _) = stage().results(in_turn(slower, program(steps=1)))

    assert same_bits(leader.params, late.params)
