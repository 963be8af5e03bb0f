"""The notebook's side of `benchmarks.board`: trainings with and without a board.

Runs in a kernel. The page is missing: the board is told that it is looked at, and sends
what a page would be sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import kit
from kit.demo.digits import DigitsMlp
from widgets import TrafficBoard

_WARM = 0.2  # of the steps are not counted


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

    def turn(self, topology: str, steps: int, *, has_board: bool) -> str:
        """Train; return the steps a second once it is under way, and the cost here.

        That is this process's share of one processor.
        """
        run = kit.train(
            DigitsMlp.step,
            self._params,
            self._data,
            optimizer="adam",
            topology=topology,
            steps=steps,
            cluster=self._cluster,
        )
        run.pause()  # until the board is open
        with _board_of(run) if has_board else _nothing():
            used, begun = time.process_time(), time.perf_counter()
            run.resume()
            first = min(run.step + int(steps * _WARM), steps - 2)
            run.wait(600)
            used = time.process_time() - used
            cost = used / (time.perf_counter() - begun)
        rows = run.trace.steps
        begin = int(rows["start"][rows["step"] == first].min())
        rate = (steps - first) * 1e9 / (int(rows["end"].max()) - begin)
        return f"{rate} {cost}"

    def close(self) -> None:
        """Stop the cluster."""
        self._cluster.stop()


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
