"""Random histories of elastic trainings: losses, stops, joins, leaves, other spreads.

    python -m tests.elastic.history FIRST COUNT

runs the histories with the seeds FIRST to FIRST + COUNT - 1, and says what each did.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import kit
from kit.errors import InvalidArgumentError
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from kit.training.client.run import Run
from tests.elastic.scene import TOPOLOGIES, losses, slowly
from tests.training.toy import BATCH, DATA, fit, initial

N_EVENTS = 6
MANY = 100_000


class History:
    """One training, and what happens to it."""

    def __init__(self, seed: int) -> None:
        """Draw the size of it; `lines` has what happened, in order."""
        self.draw = draw = random.Random(seed)
        self.n_ps, self.n_worker = draw.randint(0, 2), draw.randint(2, 5)
        self.n_logical = draw.choice([None, self.n_worker + draw.randint(0, 3)])
        self.spare = draw.choice([0, 0, 1]) if self.n_worker > 2 else 0
        self.lines = [
            f"ps={self.n_ps} worker={self.n_worker} logical={self.n_logical} "
            f"spare={self.spare}"
        ]
        self._gone: set[str] = set()  # processes that were killed, or have left

    def play(self) -> None:
        """Run it; raises `AssertionError` when anything is not as it should be."""
        quick = {"heartbeat_s": 0.1, "suspect_after_s": 0.5, "dead_after_s": 2.0}
        with process_cluster(ps=self.n_ps, worker=self.n_worker) as self.cluster:
            options = kit.Elastic(self.n_logical, spare=self.spare)
            with settings(**quick):
                self.run = run = self._begin(self.cluster, MANY, elastic=options)
            events = [self._kill, self._kill, self._stop, self._restart, self._resize]
            events += [self._leave, self._switch, self._pause, self._rebalance]
            for _ in range(N_EVENTS):
                self._settle()
                self.draw.choice(events)()
            self._settle()
            run.stop()
            run.wait(60)
            self._compare(run)

    def _begin(self, cluster: Any, steps: int, **more: Any) -> Run:
        self.topology = self.draw.choice(TOPOLOGIES[not self.n_ps :])
        chosen: Any = {"steps": steps, "batch": BATCH, "optimizer": "adam"} | more
        run: Run = kit.train(
            slowly if steps == MANY else fit,
            initial(),
            DATA,
            cluster=cluster,
            topology=self.topology,
            **chosen,
        )
        return run

    def _compare(self, run: Run) -> None:
        with local_cluster(ps=self.n_ps, worker=len(run.job.workers)) as quiet:
            plain = self._begin(quiet, run.step).wait(60)
            for name, value in run.params.items():
                np.testing.assert_array_equal(value, plain.params[name], strict=True)
            assert losses(run) == losses(plain), "a step is missing, or told twice"

    # -- what is there now --------------------------------------------------------

    @property
    def _processes(self) -> tuple[str, ...]:
        result: tuple[str, ...] = self.run.newest_job.generation.processes
        return result

    def _settle(self) -> None:
        """Wait until some steps were done since, of which there is a whole copy."""
        begun, copies = "", set[int]()

        def is_settled() -> bool:
            nonlocal begun, copies
            now = self.run.newest_job.run
            if now != begun:
                begun, copies = now, set()
            copies.add(self.run.copied)
            # One may have been on its way when something was asked for.
            return len(copies - {-1}) > 2

        until(is_settled)

    @contextmanager
    def _change(self, *what: object) -> Iterator[None]:
        """Wait until that has made another generation."""
        self.lines.append(f"{self.run.step}: {' '.join(map(str, what))}")
        expected = len(self.run.history())
        yield
        until(lambda: len(self.run.history()) > expected or self.run.done, 40)
        assert not self.run.done, f"it ended: {self.run.error}"
        self.lines[-1] += f" -> {self.run.history()[-1][:5]}"

    # -- what happens -------------------------------------------------------------

    def _kill(self) -> None:
        if len(self._processes) > 1:
            victim = self.draw.choice(self._processes)
            with self._change("kill", victim):
                self.cluster[Task.parse(victim)].signal(signal.SIGKILL)
            self._gone.add(victim)

    def _stop(self) -> None:
        if len(self._processes) < 3:
            return
        victim = self.draw.choice(self._processes)
        process = self.cluster[Task.parse(victim)]
        with self._change("stop", victim):
            process.signal(signal.SIGSTOP)
        self._settle()
        with self._change("continue", victim):
            process.signal(signal.SIGCONT)

    def _restart(self) -> None:
        dead = self.cluster.restart_dead()
        self._gone |= {task.short for task in dead}
        for item in sorted(self._gone):
            with self._change("join", item):
                self.cluster.join(self.run, Task.parse(item))
            self._settle()
        self._gone.clear()

    def _leave(self) -> None:
        workers = [
            process for process in self._processes if process.startswith("worker")
        ]
        if len(workers) > 1:
            first = self.draw.choice(workers)
            with self._change("leave", first):
                self.run.leave(Task.parse(first))
            self._gone.add(first)

    def _resize(self) -> None:
        n_tasks = self.draw.randint(1, 5)
        self._spread(f"resize {n_tasks}", lambda: self.run.resize(worker=n_tasks))

    def _rebalance(self) -> None:
        shares = {process: self.draw.randint(1, 3) for process in self._processes}
        self._spread(f"rebalance {shares}", lambda: self.run.rebalance(shares))

    def _spread(self, what: str, ask: Callable[[], None]) -> None:
        """Ask for other places, which may be those that hold already."""
        self.lines.append(f"{self.run.step}: {what}")
        try:
            ask()
        except InvalidArgumentError as error:
            self.lines[-1] += f" refused: {error}"

    def _switch(self) -> None:
        self.run.topology = name = self.draw.choice(TOPOLOGIES[not self.n_ps :])
        self.lines.append(f"{self.run.step}: {name}")

    def _pause(self) -> None:
        self.lines.append(f"{self.run.step}: pause and resume")
        self.run.advance(self.draw.randint(1, 5))
        until(lambda: self.run.state == "paused")
        self.run.resume()


def main() -> None:
    """Play histories, and print what happened in those that went wrong."""
    first, count = map(int, sys.argv[1:])
    n_wrong = 0
    for seed in range(first, first + count):
        history, began = History(seed), time.monotonic()
        try:
            history.play()
            print(f"{seed}: good, {time.monotonic() - began:.1f} s", flush=True)
        except Exception as error:
            n_wrong += 1
            text = "\n    ".join([*history.lines, f"{type(error).__name__}: {error}"])
            print(f"{seed}: WRONG\n    {text}", flush=True)
    print(f"{count} histories, {n_wrong} wrong")


if __name__ == "__main__":
    main()
