"""What boards learn of a training: all the same, and only while they are seen."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.trace.trace import Trace
from kit.training.client.watched import Cursors
from tests.training.paced import LONG_S, Held, begin
from tests.training.toy import quick_cluster
from tests.widgets.live import SLOW, Watcher, is_quiet, standing_training, watched
from widgets.board import sentences
from widgets.board.board import TrafficBoard
from widgets.board.follower import BEAT_S, Beat
from widgets.board.scene import scene
from widgets.board.snapshot import html, text
from widgets.board.watcher import RunFollower, beat_of, pulse_of


def boards(run: kit.Run) -> list[threading.Thread]:
    name = f"kit-board-{run.job.run[:8]}"
    return [item for item in threading.enumerate() if item.name == name]


@pytest.mark.slow
def test_all_boards_of_a_training_get_the_same_beats_from_one_thread_to_its_end() -> (
    None
):
    first, other, hidden = Watcher(), Watcher(), Watcher()
    with (
        standing_training(link=SLOW) as (run, step, _),
        watched(run, first, other) as pulse,
    ):
        pulse.listen(hidden, is_shown=False)
        step.go.set()
        run.topology = "ring"
        first.until(lambda beat: beat.moment.topology == "ring")
        run.topology = "mesh"
        first.until(lambda beat: beat.moment.topology == "mesh")
        assert len(boards(run)) == 1
        run.stop()
        last = first.until(lambda beat: beat.is_last)
        assert is_quiet(run)
        late = RunFollower(run).look()

    assert other.beats[-1] is last
    assert hidden.beats == [last]  # who is not shown hears of the end alone
    assert pulse_of(run) is pulse
    # A board that came late ends as those that watched.
    assert late.is_last
    assert late.moment.numbers.formula == last.moment.numbers.formula
    assert late.moment.step == last.moment.step
    assert late.moment.rates == pytest.approx(last.moment.rates)
    assert late.history.regions() == last.history.regions()
    assert late.history.switches()["label"] == last.history.switches()["label"]
    assert text(late).splitlines()[0] == text(last).splitlines()[0]


def test_the_thread_ends_when_the_last_board_leaves_and_comes_back() -> None:
    first, other = Watcher(), Watcher()
    with standing_training() as (run, _, _):
        pulse = pulse_of(run)
        pulse.listen(first)
        pulse.listen(other)
        pulse.leave(first)
        other.until(lambda beat: True)
        n_beats = len(first.beats)
        pulse.leave(other)
        assert is_quiet(run)
        assert len(first.beats) == n_beats

        pulse.listen(first)
        first.until(lambda beat: True)
        pulse.leave(first)


@pytest.mark.slow
def test_a_board_that_cannot_draw_a_beat_says_so_once_and_draws_the_next(
    capfd: pytest.CaptureFixture[str],
) -> None:
    n_broken = 0

    def breaks(beat: Beat) -> None:
        nonlocal n_broken
        if beat.moment.step <= 5:
            n_broken += 1
            raise ZeroDivisionError("this board is broken")

    with standing_training(link=SLOW) as (run, step, _):
        bad, good = Watcher(breaks), Watcher()
        with watched(run, bad, good):
            good.until(lambda beat: n_broken > 1)
            step.go.set()
            good.until(lambda beat: beat.moment.step > 2)
            bad.until(lambda beat: beat.moment.step > 5)

    assert capfd.readouterr().err.count("Error: this board is broken") == 1


@pytest.mark.slow
def test_news_that_cannot_be_read_once_are_read_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with standing_training(link=SLOW) as (run, step, _):
        watcher, news, n_asked = Watcher(), run.news, 0

        def breaks(cursors: Cursors = ()) -> tuple[Trace, Cursors]:
            nonlocal n_asked
            n_asked += 1
            if n_asked <= 2:
                raise ZeroDivisionError("no news")
            return news(cursors)

        # On the class, as a run refuses to be given what would change nothing.
        monkeypatch.setattr(kit.Run, "news", lambda _, cursors=(): breaks(cursors))
        with watched(run, watcher):
            step.go.set()
            watcher.until(lambda beat: beat.moment.step > 2)

    assert n_asked > 2
    assert capfd.readouterr().err.count("Error: no news") == 1


@pytest.mark.slow
def test_beats_come_ten_times_a_second_at_most() -> None:
    watcher = Watcher()
    with standing_training() as (run, _, _), watched(run, watcher):
        watcher.until(lambda beat: True)
        before, begun = len(watcher.beats), time.monotonic()
        watcher.until(lambda beat: len(watcher.beats) > before + 8)
        n_beats, elapsed = len(watcher.beats) - before, time.monotonic() - begun

    assert n_beats <= elapsed / BEAT_S + 2


@pytest.mark.slow
def test_a_board_of_a_finished_training_and_of_its_saved_trace_show_it_whole(
    tmp_path: Path,
) -> None:
    step = Held()
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, step, steps=40)
        run.switch("ring", at=20)
        step.go.set()
        run.wait(LONG_S)
    run.trace.save(tmp_path / "run.json")

    live = RunFollower(run).look()
    saved = beat_of(Trace.load(tmp_path / "run.json"))

    assert not boards(run)
    for beat in (live, saved):
        assert beat.is_last
        assert beat.history.n_steps == beat.moment.step == 40
        assert len(beat.history.loss()["step"]) == 40
        assert beat.history.switches()["label"] == ["ps to ring"]
        assert sentences.headline(beat.moment) == "Finished after step 40 of 40: ring."
        assert {"Loss over 39 steps", "ps to ring"} <= set(words(str(html(beat))))
    assert live.history.loss() == saved.history.loss()
    assert live.moment.loss == saved.moment.loss
    ring = {(1, 2), (2, 1)}
    assert {link for link, rate in live.moment.rates.items() if rate} == ring
    assert saved.moment.rates.keys() == ring


def words(page: str) -> list[str]:
    """Return the texts and labels of a page."""
    cleaned = page.replace('aria-label="', ">").replace('"', "<")
    return [part.split(">")[-1].strip() for part in cleaned.split("<")]


@pytest.mark.slow
def test_a_dead_task_is_shown_in_the_picture_and_named_in_the_text() -> None:
    watcher = Watcher()
    with (
        standing_training(worker=3, aggregate=2) as (run, step, cluster),
        watched(run, watcher),
    ):
        step.go.set()
        watcher.until(lambda beat: beat.moment.step > 3)
        cluster.servers[-1].stop()
        result = watcher.until(lambda beat: bool(beat.moment.lost)).moment
        after = watcher.until(lambda beat: beat.moment.step > result.step + 3)

    assert result.lost.keys() == {"worker:2"}
    assert "worker:2 is gone" in scene(result)
    assert scene(result).count("ps-lost") == 1
    (alarm,) = sentences.alarms(after.moment)
    assert "/job:worker/task:2" in alarm
    assert after.moment.state == "running"


def test_a_board_that_comes_while_the_last_beat_is_told_gets_it_too() -> None:
    late = Watcher()

    def brings_another(beat: Beat) -> None:
        if beat.is_last:
            pulse_of(run).listen(late)

    with (
        standing_training(link=SLOW) as (run, step, _),
        watched(run, Watcher(brings_another)),
    ):
        step.go.set()
        run.stop()
        late.until(lambda beat: beat.is_last)
        assert is_quiet(run)


@pytest.mark.slow
def test_a_training_that_fails_says_why_once() -> None:
    watcher = Watcher()

    def breaks(params: object, batch: object) -> None:
        raise RuntimeError("no such model")

    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, breaks)
        with watched(run, watcher):
            last = watcher.until(lambda beat: beat.is_last)
            assert is_quiet(run)

    assert last.moment.state == "failed"
    assert sentences.headline(last.moment).startswith("Failed at step 0 of 30")
    assert text(last).count("no such model") == 1


def test_a_board_reads_no_training_in_what_is_none() -> None:
    with pytest.raises(InvalidArgumentError, match="int is not one"):
        TrafficBoard(7)  # type: ignore[arg-type]
