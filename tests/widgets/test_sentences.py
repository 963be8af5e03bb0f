"""The board's words: what is requested, what went wrong, and the row of numbers."""

from __future__ import annotations

import re
from dataclasses import replace

from kit.trace.bottleneck import Bottleneck, Cause
from kit.trace.trace import Trace
from tests.cases import for_each
from tests.widgets.traces import toggled
from widgets.board import sentences
from widgets.board.run_state import Moment, Numbers
from widgets.drawing.looks import style

TASKS = ("/job:ps/task:0", "/job:worker/task:0")
NOW = Moment(TASKS, step=7, steps=1200)


@for_each(
    ("changes", "said"),
    [
        ({}, "Training, 1,200 steps: ps."),
        ({"topology": "ps-async"}, "Training, 1,200 steps: ps, asynchronous."),
        ({"link": "1gbit"}, "Training, 1,200 steps: ps at 1gbit."),
        ({"state": "paused"}, "Paused at step 7 of 1,200: ps."),
        ({"state": "done"}, "Stopped after step 7 of 1,200: ps."),
        ({"state": "done", "step": 1200}, "Finished after step 1,200 of 1,200: ps."),
        ({"state": "failed"}, "Failed at step 7 of 1,200: ps."),
    ],
)
def test_state_is_one_sentence(changes: dict[str, object], said: str) -> None:
    assert sentences.headline(replace(NOW, **changes)) == said  # type: ignore[arg-type]


def test_the_status_of_a_running_training_has_no_number_that_moves() -> None:
    # A reader that speaks it aloud would never come to an end.
    later = replace(NOW, step=8, loss=0.5, rates={(0, 1): 3.0})

    assert sentences.status(NOW) == sentences.status(later)


def test_a_lost_task_that_the_error_names_is_not_told_twice() -> None:
    # Who watches it finds its address dead, and the coordinator its links.
    lost = {
        "worker:1": "/job:worker/task:1 is gone, or the way to it is cut.",
        "worker:10": "/job:worker/task:10 is gone, or the way to it is cut.",
    }
    error = "PeerLost: /job:worker/task:10 is gone: its links closed."

    assert sentences.alarms(replace(NOW, lost=lost)) == [*lost.values()]
    texts = sentences.alarms(replace(NOW, lost=lost, error=error))
    assert texts == [lost["worker:1"], error]


def test_what_is_requested_is_said_until_it_holds() -> None:
    requested = replace(NOW, switching="ring", halting="pausing")

    status = sentences.status(requested)
    assert "switching to ring\u2026 at the next step boundary" in status
    assert "pausing\u2026 after this step" in status
    assert "\u2026" not in sentences.status(NOW)


def test_what_comes_from_outside_cannot_become_markup() -> None:
    bad = replace(NOW, refused="<b>", error="<script>", switching="<i>")

    assert not {"<b>", "<script>", "<i>"} & set(sentences.status(bad).split("<p"))
    assert "&lt;script&gt;" in sentences.status(bad)


def test_numbers_are_rounded_for_reading_and_bytes_are_not() -> None:
    result = Numbers(1200, 0.0008, 1234.4, 43_210.0, 43_210, 0.256, 3)
    facts = {name: (value, more) for name, value, more in sentences.facts(
        replace(NOW, loss=0.123456, numbers=result)
    )}  # fmt: skip

    assert facts["step"] == ("7", "of 1,200")
    assert facts["loss"] == ("0.1235", "")
    assert facts["steps a second"] == ("1,234", "in the last second")
    assert facts["bytes a step"] == ("43,210", "formula 43,210")
    assert facts["workers wait"] == ("26 %", "in the last second")
    assert facts["staleness"] == ("3", "at most")


def test_a_single_step_has_a_time_and_no_rate() -> None:
    first = replace(NOW, state="paused", numbers=Numbers(1, 0.0384))
    facts = {name: (value, more) for name, value, more in sentences.facts(first)}

    assert facts["the last step took"] == ("38.4 ms", "none is under way")
    assert facts["workers wait"][1] == "of the last step"
    assert "steps a second" not in facts


def test_an_asynchronous_training_counts_updates_and_unknown_is_a_dash() -> None:
    names = [name for name, _, _ in sentences.facts(replace(NOW, topology="ps-async"))]

    assert {"updates a second", "bytes an update"} <= set(names)
    values = [value for _, value, _ in sentences.facts(NOW)]
    assert values == ["7", *["\u2013"] * 4]


def test_the_window_of_the_timeline_is_the_newest_whole_steps() -> None:
    trace = toggled(("ps",), steps=20)

    view = sentences.newest_steps(trace)

    assert (view.first_step, view.last_step) == (16, 18)
    begins = trace.steps["start"][trace.steps["step"] == 16]
    assert view.start == begins.min()

    nothing = sentences.newest_steps(Trace(TASKS))
    assert (nothing.first_step, nothing.last_step) == (0, 0)
    assert (nothing.start, nothing.end) == (0, 0)


def test_what_steps_wait_for_has_one_place_whatever_it_says() -> None:
    result = Bottleneck(
        *(Cause.WORKER, "worker:2", (), 9.0, 31.0, 120, 219),
        *("worker:2 <computes> longer.", "Give it less.", {}),
    )
    reply = sentences.numbers(replace(NOW, bottleneck=result))
    nothing = sentences.numbers(NOW)

    position = re.compile(r'(<p class="ps-bottleneck") title="([^"]*)">([^<]*)</p>')
    (head, title, text), (other, _, unknown) = position.findall(reply + nothing)
    assert head == other
    said = "Steps 120 to 219: worker:2 &lt;computes&gt; longer. Give it less."
    assert title == text == said
    assert unknown == "What the steps wait for is not known yet."
    assert re.search(r"\.ps-bottleneck {[^}]*height: 2\.9em; overflow: hidden", style())
