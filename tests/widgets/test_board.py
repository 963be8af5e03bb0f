"""The board as an object of a notebook, with a page that only takes notes."""

from __future__ import annotations

import builtins
import gc
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.testing.task_process import until
from tests.server.attached import clusters, look
from tests.training.paced import LONG_S, begin
from tests.training.toy import quick_cluster
from tests.widgets.insides import view_of
from tests.widgets.live import SLOW, as_sent, figures, is_quiet, standing_training, tree
from tests.widgets.pages import Page as Html
from tests.widgets.traces import toggled
from widgets.board import board as board_file
from widgets.board.board import TrafficBoard
from widgets.board.follower import Follower
from widgets.board.watcher import pulse_of
from widgets.drawing import front_end

SVG = "http://www.w3.org/2000/svg"


class Place:
    """One output of a cell."""

    def __init__(self, bundle: dict[str, str]) -> None:
        self.forms = [bundle]

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.forms.append(bundle)


class Page:
    """What was put onto the page."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.shown: list[Any] = []

    def show(self, bundle: dict[str, str]) -> Place:
        self.places.append(Place(bundle))
        return self.places[-1]

    def last(self) -> dict[str, str]:
        return self.places[-1].forms[-1]

    def look(self, root: Any) -> None:
        """Let a view of a widget appear, as the page reports it."""
        root.set_state({"_view_count": 1})

    def close(self, root: Any) -> None:
        root.set_state({"_view_count": 0})


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    result = Page()
    monkeypatch.setattr(front_end, "kernel", lambda: result)
    monkeypatch.setattr(front_end, "load_bokeh", lambda: None)
    monkeypatch.setattr(front_end, "show_bundle", result.show)
    monkeypatch.setattr(front_end, "display_widget", result.shown.append)
    monkeypatch.setattr(front_end, "at_cell_ends", lambda is_over: None)
    return result


def words(root: Any) -> str:
    """Return all texts and pictures of a live board."""
    return "\n".join(str(getattr(widget, "value", "")) for widget in tree(root))


def n_losses(root: Any) -> int:
    """Return how many steps the curve of the loss has."""
    lines = as_sent(figures(root)[0]).renderers
    return max(len(line.data_source.data.get("step", ())) for line in lines)


def test_nothing_runs_before_the_board_is_on_a_page() -> None:
    with standing_training() as (run, _, _):
        before = set(threading.enumerate())
        board = TrafficBoard(run)

        assert set(threading.enumerate()) <= before
        with pytest.raises(NotImplementedError):
            board_file.show(run)
        assert repr(board).startswith("Training, 1,000,000 steps: ps.")


@pytest.mark.slow
def test_it_draws_while_it_is_looked_at_and_rests_when_it_is_not(page: Page) -> None:
    pytest.importorskip("jupyter_bokeh")
    with standing_training(link=SLOW) as (run, step, _):
        board = TrafficBoard(run)
        board._ipython_display_()
        (root,) = page.shown
        step.go.set()

        page.look(root)
        first = words(root)
        until(lambda: words(root) != first)
        until(lambda: n_losses(root) > 5)
        page.close(root)
        goes_on_for(run, 2)  # a beat that had begun may still come
        seen = words(root)
        goes_on_for(run, 5)
        assert words(root) == seen

        page.look(root)
        until(lambda: words(root) != seen)
        run.stop()
        until(lambda: "Stopped after step" in page.last()["text/plain"])
        assert is_quiet(run)
        assert "Stopped after step" in words(root)
        assert run.job.run[:8] in words(root)
        board.close()


@pytest.mark.slow
def test_a_training_of_others_is_drawn_and_switched_on_a_board(page: Page) -> None:
    pytest.importorskip("jupyter_bokeh")
    with clusters(1, 2) as cluster:
        begun = begin(cluster, steps=1_000_000)
        attached = look(cluster).run
        assert attached is not None
        board = TrafficBoard(attached)
        board._ipython_display_()
        (root,) = page.shown
        page.look(root)
        until(lambda: n_losses(root) > 5)

        attached.topology = "ring"

        until(lambda: begun.topology == "ring")
        until(lambda: "ring" in words(root))
        attached.stop()
        begun.wait(LONG_S)
        until(lambda: "Stopped after step" in page.last()["text/plain"])
        until(lambda: begun.job.run[:8] in words(root))
        board.close()


def goes_on_for(run: kit.Run, n_beats: int) -> None:
    """Wait for so many beats of the training, with which a shown board draws."""
    beats: list[object] = []
    pulse = pulse_of(run)
    pulse.listen(beats.append)
    until(lambda: len(beats) >= n_beats)
    pulse.leave(beats.append)


@pytest.mark.slow
def test_a_board_that_is_closed_while_it_draws_ends_the_drawing_first(
    page: Page, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jupyter_bokeh")
    from widgets.board.controls import Controls

    is_closing, leave = threading.Event(), Follower.leave

    def noted(pulse: Any, listener: Any) -> None:
        is_closing.set()
        leave(pulse, listener)

    def close_now(controls: Any, moment: object) -> None:
        closing.start()
        assert is_closing.wait(LONG_S)
        closing.join(0.1)

    with standing_training() as (run, _, _):
        board = TrafficBoard(run)
        board._ipython_display_()
        closing = threading.Thread(target=board.close)
        monkeypatch.setattr(Follower, "leave", noted)
        monkeypatch.setattr(Controls, "follow", close_now)
        page.look(page.shown[0])
        assert is_closing.wait(LONG_S)
        closing.join(LONG_S)

        assert view_of(board) is None
        assert is_quiet(run)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_closed_board_stops_leaves_its_last_picture_and_is_collected_without_a_word(
    page: Page, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jupyter_bokeh")
    with standing_training(link=SLOW) as (run, step, _):
        board = TrafficBoard(run)
        board._ipython_display_()
        page.look(page.shown[0])

        board.close()
        assert is_quiet(run)
        n_forms = len(page.places[0].forms)
        step.go.set()
        until(lambda: run.step > 5)
        assert len(page.places[0].forms) == n_forms
        assert not run.done

        board._ipython_display_()  # once more: a still picture
        assert len(page.shown) == 1
        assert len(page.places) == 2
        page.shown.clear()
        del board
        gc.collect()
    assert capfd.readouterr().err == ""


def test_without_ipywidgets_there_is_a_picture_and_a_hint(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any) -> Any:
        if name in ("widgets.board.controls", "widgets.board.live_view"):
            raise ImportError("No module named 'ipywidgets'")
        return real(name, *args)

    with standing_training(link=SLOW) as (run, step, _):
        monkeypatch.setattr(builtins, "__import__", missing)
        TrafficBoard(run)._ipython_display_()
        monkeypatch.setattr(builtins, "__import__", real)
        assert page.shown == []
        assert "pip install ipywidgets jupyter_bokeh" in page.last()["text/html"]

        step.go.set()
        until(lambda: run.step > 3)
        run.stop()
        until(lambda: "Stopped after step" in page.last()["text/plain"])
        # The hint goes with the last beat, which may come after that one.
        until(lambda: "pip install" not in page.last()["text/html"])
        assert is_quiet(run)


@pytest.mark.slow
def test_a_finished_training_is_saved_and_kept_whole_and_asks_nobody(
    tmp_path: Path, page: Page
) -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, steps=20).wait(LONG_S)
    path = tmp_path / "board.html"

    TrafficBoard(run).save(path)
    first, other = (shown(TrafficBoard(run), page) for _ in range(2))

    text = path.read_text("utf-8")
    saved, kept = Html(text), Html(first["text/html"])
    assert saved.asked() == kept.asked() == []
    assert "default-src 'none'" in text  # the browser sees to it too
    assert saved.count("svg") >= 4
    assert kept.count("script") == 0
    assert "Finished after step 20 of 20: ps." in text
    assert [item.name for item in tmp_path.iterdir()] == ["board.html"]
    assert set(first) == {"text/plain", "text/html", "image/svg+xml"}
    assert set(re.findall(r"http[^\"]*", first["image/svg+xml"])) == {SVG}
    assert first == other  # two boards of it agree


@pytest.mark.slow
def test_a_board_of_a_trace_file_shows_what_one_of_the_trace_shows(
    tmp_path: Path, page: Page
) -> None:
    trace = toggled(("ps", "ring"), steps=20)
    trace.save(tmp_path / "run.json")

    first, other = TrafficBoard(trace), TrafficBoard(tmp_path / "run.json")

    assert repr(first) == repr(other)
    assert shown(first, page) == shown(other, page)
    assert repr(first).startswith("Finished after step 40 of 40: ring.")


def shown(board: TrafficBoard, page: Page) -> dict[str, str]:
    """Return what a notebook keeps of a board."""
    board._ipython_display_()
    board.close()
    return page.last()
