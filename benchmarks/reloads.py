"""How often a board in JupyterLab is whole after its page was loaded again.

    python -m benchmarks.reloads [--count 20] [--json FILE]

A board stands in JupyterLab in the system's Chromium, in light and in dark, with a
kernel that trains, one with a cell that awaits the training, one that computes in a
cell (then the page gets no widget before the cell ends), one whose training is over,
and one that was killed. What a reload must not change is compared: the models that
BokehJS draws from, the controls, and the pixels of what stands still. Every second time
the notebook is not saved before.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from operator import eq
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page, TimeoutError

from benchmarks.results import Table, arguments, median, report
from tests.browser import board as boards
from tests.browser.lab import (
    KERNEL_IS_IDLE,
    SCREENS,
    browser_page,
    change_theme,
    command,
    complaints,
    jupyter_lab,
    load_again,
    open_notebook,
    resize,
)
from tests.browser.lesson import Lesson
from tests.browser.test_board_stays_true import CELLS, IS_SAVED, IS_THERE

THEMES = ("JupyterLab Light", "JupyterLab Dark")
NOT_FOUND = "model not found"
MOST_RELOADS = 5  # until a board is there
PATIENCE_MS = 30_000
SMOOTHED = 64  # of 255
COMPUTE = (
    "begin = time.monotonic()\n"
    "while time.monotonic() < begin + 8:\n"
    "    sum(range(1000))"
)
STILL = "() => document.querySelector('.ps-snapshot')?.checkVisibility()"
KERNEL = "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
Seen = dict[str, Any]


class Reload(NamedTuple):
    """One reload: what was not as before, and how long the board took to be there."""

    differs: tuple[str, ...]
    seconds: float
    not_found: int  # how often the page said so, and was loaded once more


class Scene:
    """A page with a board, and what can be seen there."""

    def __init__(self, page: Page, lesson: Lesson) -> None:
        """Look at the first board of the notebook that `page` shows."""
        self.page, self.lesson = page, lesson
        self.errors = complaints(page)

    @property
    def board(self) -> Locator:
        """The live board."""
        return boards.live_board(self.page)

    def save(self) -> None:
        """Save the notebook, and return when that is done."""
        command(self.page, "docmanager:save")
        self.page.wait_for_function(IS_SAVED)

    def live(self) -> Seen:
        """Return what stays while a training goes on."""
        boards.wait_for_more_steps(self.board)
        looks, controls = boards.links_and_looks(self.board)
        scene = boards.scene(self.board)
        words = self.board.locator(".ps-numbers span").all_text_contents()
        return {
            "strips, axes, colours": looks,
            "controls": controls,
            "picture": (scene["places"], sorted(scene["rates"])),
            "places": boards.tops(self.board),
            # How many examples of the batch are right is another number each time.
            "numbers": [word for word in words if not word.startswith("batch: ")],
            "pixels": self.pixels(self.board.locator(".ps-controls").nth(1)),
        }

    def still(self) -> Seen:
        """Return all of a board on which nothing moves any more."""
        self.page.wait_for_timeout(1500)  # figures are drawn
        return {
            "models": boards.figures(self.board),
            "controls": boards.controls(self.board),
            "picture": boards.scene(self.board),
            "headline": boards.headline(self.board),
            "pixels": self.pixels(self.board),
        }

    def picture(self) -> Seen:
        """Return what is kept of a board without its kernel."""
        still = self.page.locator(".ps-snapshot:visible").first
        still.wait_for()
        self.page.wait_for_timeout(1500)
        visible = self.page.get_by_text(NOT_FOUND).locator("visible=true")
        return {
            "words": boards.text_of(still),
            "curves": still.locator(".ps-chart").count(),
            "complaints": visible.count(),
            "pixels": self.pixels(still),
        }

    def pixels(self, what: Locator) -> Any:
        """Return a part of the page as an array of colours."""
        self.page.mouse.move(0, 0)
        self.page.evaluate("() => document.activeElement?.blur()")
        return np.asarray(Image.open(BytesIO(what.screenshot())).convert("RGB"))


def differences(before: Seen, after: Seen) -> tuple[str, ...]:
    """Return the names of what is not the same.

    >>> one = {"a": 1, "pixels": np.zeros(2)}
    >>> differences(one, one | {"a": 2})
    ('a',)
    """
    same = (_alike if name == "pixels" else eq for name in before)
    return tuple(
        name
        for name, is_same in zip(before, same, strict=True)
        if not is_same(before[name], after[name])
    )


def _alike(tensor: Any, other: Any) -> bool:
    """Whether no pixel is another; a line at an edge may be smoothed otherwise."""
    if tensor.shape != other.shape:
        return False
    is_apart = np.abs(tensor.astype(int) - other.astype(int))
    return bool(is_apart.max(initial=0) <= SMOOTHED)


def reloads(
    scene: Scene, count: int, look: Callable[[], Seen], is_there: str
) -> Iterator[Reload]:
    """Load the page again so often, and compare each time with the first look."""
    scene.save()
    before = look()
    for number in range(count):
        if number % 2:
            scene.save()
        begin = time.monotonic()
        try:
            not_found = _load(scene, is_there)
        except TimeoutError:
            yield Reload(("it was not there",), time.monotonic() - begin, 0)
            continue
        seconds = time.monotonic() - begin
        after = look()
        differs = differences(before, after)
        if "pixels" in differs:
            _keep(f"reload-{look.__name__}-{number}", before, after)
        if is_there == IS_THERE:
            differs += tuple(scene.errors)
        yield Reload(differs, seconds, not_found)


def _load(scene: Scene, is_there: str) -> int:
    """Load the page again until the board is there; return how often it was not."""
    for n_times in range(MOST_RELOADS):
        scene.errors.clear()
        load_again(scene.page)
        scene.page.wait_for_function(is_there, timeout=PATIENCE_MS)
        if is_there != IS_THERE or not scene.page.get_by_text(NOT_FOUND).count():
            return n_times
    raise RuntimeError(f"the board was not there after {MOST_RELOADS} reloads")


def _keep(name: str, before: Seen, after: Seen) -> None:
    """Write two pictures that differ."""
    SCREENS.mkdir(parents=True, exist_ok=True)
    for when, seen in (("before", before), ("after", after)):
        Image.fromarray(seen["pixels"]).save(SCREENS / f"{name}-{when}.png")


# --------------------------------------------------------------------------------------
# The kernels. Each is brought about, and looked at in both themes.


def live(scene: Scene, count: int) -> Iterator[Reload]:
    """Load again while a training goes on."""
    yield from reloads(scene, count, scene.live, IS_THERE)


def computing(scene: Scene, count: int) -> Iterator[Reload]:
    """Load again while a cell computes for some seconds."""

    def look() -> Seen:
        result = scene.live()
        scene.lesson.run(scene.page, "compute")
        return result

    yield from reloads(scene, count, look, IS_THERE)
    scene.page.wait_for_function(KERNEL_IS_IDLE)


def awaiting(scene: Scene, count: int) -> Iterator[Reload]:
    """Load again while a cell awaits the training, which `finished` ends."""
    if scene.page.evaluate(KERNEL) == "idle":
        scene.lesson.run(scene.page, "await")
        scene.page.wait_for_function(f"() => ({KERNEL})() === 'busy'")
    yield from reloads(scene, count, scene.live, IS_THERE)


def finished(scene: Scene, count: int) -> Iterator[Reload]:
    """Load again when the training is over."""
    if not boards.headline(scene.board).startswith("Stopped"):
        boards.press(scene.board, "Stop")
        boards.wait_for_head(scene.board, "Stopped after step")
    yield from reloads(scene, count, scene.still, IS_THERE)


def gone(scene: Scene, count: int) -> Iterator[Reload]:
    """Load again when the kernel was killed: a still picture takes its place."""
    pid = scene.lesson.path.parent / "pid"
    if pid.exists():
        scene.save()
        os.kill(int(pid.read_text()), signal.SIGKILL)
        pid.unlink()
        _load(scene, STILL)
    yield from reloads(scene, count, scene.picture, STILL)


KERNELS = (live, computing, awaiting, finished, gone)


@contextmanager
def scene() -> Iterator[Scene]:
    """Begin a training with a board in a JupyterLab of its own."""
    with TemporaryDirectory() as name, jupyter_lab(Path(name)) as lab:
        cells = CELLS | {"compute": COMPUTE, "await": "await run"}
        lesson = Lesson.of(Path(name), cells)
        with browser_page() as page:
            page.on("dialog", lambda dialog: dialog.accept())  # leave without saving
            resize(page, 1280, 2600)  # nothing of Lab lies over the board
            open_notebook(page, lab, lesson.path.name)
            lesson.run(page, "load", "train")
            boards.wait_for_bytes(boards.live_board(page))
            yield Scene(page, lesson)


def main(args: Sequence[str] | None = None) -> int:
    """Load a page again and again, and print how often its board was whole."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--count", type=int, default=20, help="reloads of each kind")
    options = parser.parse_args(args)
    count = 3 if options.quick else options.count
    result: dict[str, list[Reload]] = {}
    with scene() as item:
        for load in KERNELS:
            for theme in THEMES:
                change_theme(item.page, theme)
                name = f"{load.__name__}, {theme.split()[1].lower()}"
                for reply in load(item, count):
                    result.setdefault(name, []).append(reply)
                    print(name, reply, file=sys.stderr, flush=True)
    figures = {name: [each._asdict() for each in all_] for name, all_ in result.items()}
    report(_table(result), figures, options.json)
    return 0


def _table(result: dict[str, list[Reload]]) -> Table:
    rows = [
        (
            name,
            f"{sum(not item.differs for item in all_)} of {len(all_)}",
            f"{sum(item.not_found for item in all_)}",
            f"{median([item.seconds for item in all_]):.1f}",
            "; ".join(sorted({what for text in all_ for what in text.differs})) or "-",
        )
        for name, all_ in result.items()
    ]
    notes = (
        "Whole: strips, curves, colours, controls and pixels are as before. What was "
        "not found: JupyterLab says that when all widgets come in the last tenth of "
        "the two seconds it waits for one; the page was then loaded once more.",
    )
    head = (
        "kernel and theme",
        "whole",
        "not found",
        "seconds",
        "what was not as before",
    )
    return Table("Boards after a reload", notes, head, tuple(rows))


if __name__ == "__main__":
    sys.exit(main())
