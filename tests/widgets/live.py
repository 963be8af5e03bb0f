"""Trainings that are watched as a board watches them, for the tests of boards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kit
from kit.testing.cluster import LocalCluster
from tests.training.paced import LONG_S, Held
from tests.training.toy import BATCH, DATA, initial, quick_cluster
from widgets.board.watcher import Beat, RunFollower, pulse_of

MANY = 1_000_000


class Watcher:
    """Takes beats, and waits for one that is as it should be."""

    def __init__(self, then: Callable[[Beat], None] = lambda beat: None) -> None:
        self.beats: list[Beat] = []
        self._then = then
        self._changed = threading.Condition()

    def __call__(self, beat: Beat) -> None:
        self._then(beat)
        with self._changed:
            self.beats.append(beat)
            self._changed.notify_all()

    def until(self, is_so: Callable[[Beat], bool]) -> Beat:
        """Return the first beat from now on that is so, or the last one, if it is."""
        with self._changed:
            begin = len(self.beats) - any(beat.is_last for beat in self.beats[-1:])
            found: list[Beat] = []

            def look() -> bool:
                found[:] = filter(is_so, self.beats[begin:])
                return bool(found)

            assert self._changed.wait_for(look, LONG_S), self.beats[-1:]
        return found[0]


@contextmanager
def standing_training(
    ps: int = 1, worker: int = 2, **changes: Any
) -> Iterator[tuple[kit.Run, Held, LocalCluster]]:
    """Yield a training with workers that wait in their first step until released."""
    step = Held()
    with quick_cluster(ps, worker) as cluster:
        given: dict[str, Any] = {"steps": MANY, "batch": BATCH, "cluster": cluster}
        run = kit.train(step, initial(), DATA, **given | changes)
        try:
            assert step.reached.wait(LONG_S)
            yield run, step, cluster
        finally:
            step.go.set()
            run.stop()
            run.wait(LONG_S)
            assert is_quiet(run)


@contextmanager
def watched(run: kit.Run, *watchers: Watcher) -> Iterator[RunFollower]:
    """Let watchers listen to a training's pulse."""
    pulse = pulse_of(run)
    for watcher in watchers:
        pulse.listen(watcher)
    try:
        yield pulse
    finally:
        for watcher in watchers:
            pulse.leave(watcher)


def is_quiet(run: kit.Run) -> bool:
    """Whether the thread of a training's boards ends soon."""
    name, give_up = f"kit-board-{run.job.run[:8]}", time.monotonic() + LONG_S
    while any(thread.name == name for thread in threading.enumerate()):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True
