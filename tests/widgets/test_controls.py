"""The board's controls on real trainings: what they request, and when it holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import kit
from kit.testing.task_process import until
from tests.training.paced import Held, standing
from tests.widgets.live import Watcher, standing_training, watched
from widgets.board import sentences
from widgets.board.follower import Beat
from widgets.board.run_state import Moment

pytest.importorskip("ipywidgets")
from widgets.board.choices import PACES
from widgets.board.controls import Controls


class Desk:
    """Controls that follow their training, what they asked, and what was seen."""

    def __init__(self, run: kit.Run) -> None:
        self.n_asked = 0
        self._pulse: Any = None
        self.controls = Controls(run, self.ask)
        self.watcher = Watcher(lambda beat: self.controls.follow(beat.moment))

    def ask(self, request: Any) -> None:
        self.n_asked += 1
        self._pulse.request(request)

    @contextmanager
    def open(self, run: kit.Run) -> Iterator[Desk]:
        with watched(run, self.watcher) as self._pulse:
            yield self


@contextmanager
def desk(**changes: Any) -> Iterator[tuple[kit.Run, Held, Desk]]:
    with standing_training(**changes) as (run, step, _), Desk(run).open(run) as result:
        yield run, step, result


def nobody(request: Any) -> None:
    pytest.fail(f"nobody requested anything, and {request} came")


def test_another_topology_is_called_switching_until_it_holds() -> None:
    with desk() as (_, step, here):
        here.controls.topology.value = "ring"
        requested = here.watcher.until(lambda beat: bool(beat.moment.switching))

        assert requested.moment.topology == "ps"
        assert "switching to ring\u2026" in sentences.status(requested.moment)
        assert here.controls.topology.value == "ring"

        step.go.set()
        held = here.watcher.until(lambda beat: beat.moment.topology == "ring")
        assert "switching" not in sentences.status(held.moment)
        assert not held.moment.refused


@pytest.mark.slow
def test_steps_become_asynchronous_and_synchronous_again() -> None:
    with desk() as (run, step, here):
        step.go.set()
        here.controls.pace.value = "asynchronous"
        here.watcher.until(lambda beat: not beat.moment.is_synchronous)
        until(lambda: not run.synchronous)

        here.controls.pace.value = "synchronous"
        here.watcher.until(lambda beat: beat.moment.is_synchronous)
        until(lambda: run.synchronous)


def test_both_sliders_make_one_setting_of_the_links() -> None:
    with desk() as (run, step, here):
        here.controls.speed.value = "100mbit"
        here.controls.latency.value = 0.001
        requested = here.watcher.until(
            lambda beat: "1ms" in beat.moment.switching and beat.moment.link == ""
        )
        assert requested.moment.switching == "links at 100mbit,1ms"

        step.go.set()
        here.watcher.until(lambda beat: beat.moment.link == "100mbit,1ms")
        until(lambda: run.link == "100mbit,1ms")


@pytest.mark.slow
def test_pause_step_resume_and_stop_take_effect_after_the_step() -> None:
    with desk() as (run, step, here):
        here.controls.pause.click()
        asked = here.watcher.until(lambda beat: beat.moment.state == "paused")
        assert asked.moment.halting == "pausing"
        assert "pausing\u2026 after this step" in sentences.status(asked.moment)

        step.go.set()
        stands = here.watcher.until(lambda beat: not beat.moment.halting)
        at = standing(run)  # no member has more to tell
        assert stands.moment.state == "paused"
        assert here.controls.pause.disabled
        assert not here.controls.resume.disabled

        here.controls.advance.click()
        here.watcher.until(lambda beat: beat.moment.step == at + 1)
        here.controls.resume.click()
        here.watcher.until(lambda beat: beat.moment.step > at + 3)
        here.controls.stop.click()
        over = here.watcher.until(lambda beat: beat.is_last)
        assert over.moment.state == "done"
        assert sentences.headline(over.moment).startswith("Stopped after step")
        assert all(control.disabled for control in here.controls.all())


def test_a_request_that_cannot_be_or_breaks_is_one_sentence_and_the_next_is_heard(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(run: kit.Run) -> None:
        raise OSError("no more requests")

    with desk(topology="ring") as (run, _, here):
        here.controls.pace.value = "asynchronous"
        beat = here.watcher.until(lambda beat: bool(beat.moment.refused))

        (sentence,) = sentences.alarms(beat.moment)
        assert sentence.startswith("The last request was not taken up: asynchronous")
        assert "not on 'ring'" in sentence
        assert "\n" not in sentence
        assert here.controls.pace.value == "synchronous"  # the control goes back
        assert run.synchronous

        here.ask(broken)
        no_more = "OSError: no more requests"
        here.watcher.until(lambda beat: beat.moment.refused == no_more)
        here.controls.topology.value = "ps"  # the next request, and the old one is past
        here.watcher.until(lambda beat: not beat.moment.refused)
        until(lambda: run.switching == "ps")
    assert "Traceback" not in "".join(capfd.readouterr())


def test_what_is_changed_elsewhere_moves_the_controls_and_requests_nothing() -> None:
    with desk() as (run, step, here):
        step.go.set()
        run.topology = "ring"
        run.link = "42mbit"
        here.watcher.until(
            lambda beat: (beat.moment.topology, beat.moment.link) == ("ring", "42mbit")
        )

        assert here.controls.topology.value == "ring"
        assert here.controls.speed.value == "42mbit"
        assert here.n_asked == 0


@pytest.mark.slow
def test_two_boards_of_one_training_show_the_same() -> None:
    with standing_training() as (run, step, _):
        first, other = Desk(run), Desk(run)
        with first.open(run), other.open(run):
            step.go.set()
            first.controls.topology.value = "mesh"
            held = other.watcher.until(lambda beat: beat.moment.topology == "mesh")
            own = first.watcher.until(lambda beat: beat.moment.topology == "mesh")
            assert other.controls.topology.value == first.controls.topology.value
            shared = {id(beat) for beat in first.watcher.beats}
            assert id(held) in shared or held.moment.step < own.moment.step


def test_without_a_server_the_pace_cannot_be_chosen_and_the_board_says_why() -> None:
    with standing_training(ps=0, topology="ring") as (run, _, _):
        controls = Controls(run, nobody)

        assert controls.topology.options == (
            "ring",
            "mesh",
            "ring-whole",
            "hierarchical",
            "recursive-doubling",
            "tree",
        )
        assert controls.pace.disabled
        assert "parameter server" in controls.reason.value
        controls.follow(Moment(tuple(map(str, run.job.tasks)), topology="ring"))
        assert controls.pace.disabled


def test_controls_begin_as_the_training_is_have_names_and_say_what_they_do() -> None:
    with standing_training(link="1gbit,5ms", sync=False) as (run, _, _):
        controls = Controls(run, nobody)

        assert controls.topology.value == "ps"
        assert controls.pace.value == PACES[1]
        assert (controls.speed.value, controls.latency.value) == ("1gbit", 0.005)
    assert [control.description for control in controls.all()] == [
        *("Topology", "Steps", "Link speed", "Latency"),
        *("Pause", "Step", "Resume", "Stop"),
    ]
    assert all(len(control.tooltip) > 8 for control in controls.all())


def test_an_asynchronous_update_moves_the_bytes_that_the_board_calculates() -> None:
    def has_measured(beat: Beat) -> bool:
        return beat.moment.numbers.measured is not None

    with desk(sync=False) as (_, step, here):
        step.go.set()
        result = here.watcher.until(has_measured).moment.numbers

    assert result.formula == 2 * 36  # three float32 and three float64, there and back
    assert result.measured == pytest.approx(result.formula, rel=0.2)
