"""The notebook's side of `benchmarks.board`: trainings with and without a board.

Runs in a kernel. There is no page: the board is told that it is visible, and sends what
a page would be sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np

import kit
from kit.demo.digits import DigitsMlp
from widgets import TrafficBoard

_WARM = 0.2  # of the steps are not counted
Shown = Callable[[kit.Run], AbstractContextManager[None]]


class Notebook:
    """A cluster, and trainings on it."""

    def __init__(self, workers: int = 3, hidden: int = 128) -> None:
        """Start one parameter server and some workers."""
        dice = np.random.default_rng(0)
        self._cluster = kit.Cluster(ps=1, worker=workers).start()
        sizes: dict[str, tuple[int, ...]]
        sizes = {"w1": (64, hidden), "w2": (hidden, hidden), "w3": (hidden, 10)}
        sizes |= {"b1": (hidden,), "b2": (hidden,), "b3": (10,)}
        self._params = {
            name: (0.1 * dice.standard_normal(shape)).astype(np.float32)
            for name, shape in sizes.items()
        }
        images = dice.random((1438, 64)).astype(np.float32)
        self._data = (images, dice.integers(0, 10, 1438))

    def turns(
        self, topology: str, steps: int, rounds: int, shown: Shown | None = None
    ) -> str:
        """Train, in turn with a board and without; return the figures as JSON.

        `shown` gives what the board is, by default one in a cell.

        `off` and `on` are the steps a second of each stretch of the training once it is
        under way, `cost off` and `cost on` this process's share of one processor,
        `seconds` what each stretch took, from the first round on.
        """
        run = kit.train(
            DigitsMlp.step,
            self._params,
            self._data,
            optimizer="adam",
            topology=topology,
            steps=2 * steps * (rounds + 1) + 1,
            cluster=self._cluster,
        )
        run.pause()
        result: dict[str, list[float]] = {
            f"{kind}{word}": []
            for kind in ("", "cost ", "seconds ")
            for word in ("off", "on")
        }
        for turn in range(2 * (rounds + 1)):
            word = ("off", "on", "on", "off")[turn % 4]
            with (shown or _board_of)(run) if word == "on" else _nothing():
                used, begun, first = time.process_time(), time.perf_counter(), run.step
                run.advance(steps)
                while run.step < first + steps and not run.done:
                    time.sleep(0.02)
                used = time.process_time() - used
                seconds = time.perf_counter() - begun
            if run.done:  # too early: with an error, which this raises
                run.wait(0)
            if turn > 1:  # the first round warms up
                result[word].append(
                    _rate(run, first + int(steps * _WARM), run.step - 1)
                )
                result[f"cost {word}"].append(used / seconds)
            result[f"seconds {word}"].append(seconds)
        run.stop()
        run.wait(60)
        return json.dumps(result)

    def close(self) -> None:
        """Stop the cluster."""
        self._cluster.stop()


def _rate(run: kit.Run, first: int, last: int) -> float:
    """Return the steps a second from the start of one step to that of another."""
    rows = run.trace.steps
    begins = [int(rows["start"][rows["step"] == step].min()) for step in (first, last)]
    return (last - first) * 1e9 / (begins[1] - begins[0])


@contextmanager
def _board_of(run: kit.Run) -> Iterator[None]:
    board = TrafficBoard(run)
    board._ipython_display_()
    board._view.root._view_count = 1  # what a page reports when it shows the board
    yield
    board.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield
