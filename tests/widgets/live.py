"""Trainings that are watched as a board watches them, for the tests of boards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bokeh.document import Document
from bokeh.models import Line

import kit
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from tests.training.paced import LONG_S, Held
from tests.training.toy import BATCH, DATA, initial, quick_cluster
from widgets.board.follower import Beat
from widgets.board.live_figure import LiveFigure
from widgets.board.watcher import RunFollower, pulse_of

MANY = 1_000_000
SLOW = "5ms"  # a link on which steps leave the processors to boards


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
            result: list[Beat] = []

            def look() -> bool:
                result[:] = filter(is_so, self.beats[begin:])
                return bool(result)

            assert self._changed.wait_for(look, LONG_S), self.beats[-1:]
        return result[0]


@contextmanager
def standing_training(
    ps: int = 1, worker: int = 2, **changes: Any
) -> Iterator[tuple[kit.Run, Held, LocalCluster]]:
    """Yield a training with workers that wait in their first step until released."""
    step = Held()
    with quick_cluster(ps, worker) as cluster:
        options: dict[str, Any] = {"steps": MANY, "batch": BATCH, "cluster": cluster}
        run = kit.train(step, initial(), DATA, **options | changes)
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
    name = f"kit-board-{run.job.run[:8]}"
    return until(lambda: all(item.name != name for item in threading.enumerate()))


def tree(widget: Any) -> Iterator[Any]:
    """Yield a widget and all that are in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from tree(child)


def figures(root: Any) -> list[LiveFigure]:
    """Return the figures of a live board: the loss, the timeline and the links."""
    return [widget for widget in tree(root) if isinstance(widget, LiveFigure)]


def columns(plot: Any, *names: str) -> Any:
    """Return the columns of what a plot draws that has these, and the fewest others."""
    drawn = [part.data_source.data for part in plot.figure.renderers]
    return min((data for data in drawn if {*names} <= data.keys()), key=len)


def lines_at_the_right(plot: Any) -> list[Any]:
    """Return the curves of shares: of the examples, and of those held out."""
    lines = (part for part in plot.figure.renderers if isinstance(part.glyph, Line))
    return [part for part in lines if part.y_range_name == "right"]


def tell(figure: LiveFigure, model: Any, attr: str, new: object) -> None:
    """Hand a change of a model to a figure as its page sends it."""
    change = {"kind": "ModelChanged", "model": {"id": model.id}, "attr": attr}
    said = {"method": "custom", "content": {"event": "jsevent", **change, "new": new}}
    figure.comm.handle_msg({"content": {"data": said}, "buffers": []})


def as_sent(figure: LiveFigure) -> Any:
    """Return the figure with which a page would begin now."""
    (document,) = json.loads(figure.get_state()["render_bundle"])["docs_json"].values()
    result: Any = Document.from_json(document)
    (plot,) = result.roots
    return plot
