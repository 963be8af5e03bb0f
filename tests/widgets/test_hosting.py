"""The board of an elastic training: lost processes, hosts of members, changes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import kit
from kit.task import Task
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from kit.trace.log import rows
from kit.trace.named_rows import Change, EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP, TRANSFER, TransferKind
from kit.training.features.elastic.generation import Generation
from tests.cases import for_each
from tests.elastic.scene import train
from tests.widgets.live import columns
from tests.widgets.scenes import Seen
from tests.widgets.traces import fed, megabytes
from widgets.board import sentences
from widgets.board.follower import Beat
from widgets.board.history import TrainingHistory
from widgets.board.hosting import Hosting
from widgets.board.run_state import Moment, of_generation
from widgets.board.snapshot import html, text
from widgets.board.watcher import RunFollower
from widgets.drawing import curves, figure_data, svg_charts
from widgets.drawing.live_plots import LossPlot
from widgets.drawing.theme import DARK, LIGHT

MEMBERS = ("ps:0", "worker:0", "worker:1", "worker:2")
LOST = Change(("worker:2",), (), (), 120, 14, 0.21, "its links are closed")
RING = {(1, 2): 4.0, (2, 3): 4.0, (3, 1): 4.0}  # between the members


def hosted(
    *places: str, changes: tuple[Change, ...] = (LOST,), more: tuple[str, ...] = ()
) -> Hosting:
    """Return which processes host the four members; `more` are on standby."""
    expected = tuple(sorted({*MEMBERS, *places, *more}))
    generation = Generation(
        "",
        len(changes),
        places,
        more,
        known=expected,
        changes=changes,
        n_changes=len(changes),
    )
    return Hosting(MEMBERS, generation)


WITHOUT_2 = hosted("ps:0", "worker:0", "worker:1", "worker:0")


def moment(hosting: Hosting, topology: str = "ring", **more: Any) -> Moment:
    """Return a moment in which each member's link of a ring carries the same."""
    moving = hosting.between(more.pop("rates", RING))
    options = {"topology": topology, "scale": 8.0, "steps": 1200, **more}
    return Moment(hosting.tasks, rates=moving, hosting=hosting, **options)


def test_the_ring_closes_over_the_tasks_that_are_left() -> None:
    result = moment(WITHOUT_2)

    # worker:0 hosts worker:2 too: what they send each other uses no link.
    assert result.rates == {(1, 2): 4.0, (2, 1): 4.0}
    assert Seen(result).arrows.keys() == {"1-2", "2-1"}


def test_a_lost_task_is_drawn_as_gone_with_its_host_and_stays_in_its_place() -> None:
    result, before = (
        Seen(moment(hosting)).tasks for hosting in (WITHOUT_2, hosted(*MEMBERS))
    )

    gone = ["worker:2 is gone", "now on worker:0"]
    assert result["worker:2"][:2] == ("ps-task ps-lost", gone)
    assert result["worker:0"].words == ["worker:0", "out", "in", "hosts 0, 2"]
    assert result["worker:1"] == before["worker:1"]
    assert result["worker:1"].words == ["worker:1", "out", "in"]
    assert "ps-idle" in result["ps:0"].kind  # it has no part in a ring
    assert before["worker:2"][:2] == ("ps-task", ["worker:2", "out", "in"])


def test_a_task_that_stands_by_and_one_that_has_left_are_not_gone() -> None:
    left = Change((), (), ("worker:2",), 40, 0, 0.05, "as was asked for")
    places = "ps:0", "worker:0", "worker:1", "worker:0"
    result = Seen(moment(hosted(*places, changes=(left,), more=("worker:3",))))

    idle = "ps-task ps-idle", ["worker:3", "stands by"]
    assert result.tasks["worker:3"][:2] == idle
    assert result.tasks["worker:2"].words == ["worker:2 has left", "now on worker:0"]
    assert "ps-lost" not in result.svg


def test_a_task_that_came_back_hosts_its_own_member_again() -> None:
    back = Change((), ("worker:2",), (), 300, 0, 0.04, "it takes part again")
    result = moment(hosted(*MEMBERS, changes=(LOST, back)))

    seen = Seen(result)
    assert seen.tasks["worker:2"][:2] == ("ps-task", ["worker:2", "out", "in"])
    assert seen.arrows.keys() == {"1-2", "2-3", "3-1"}
    assert sentences.placement(result) == [
        "worker:2 joined at step 300; no step was done again. The tasks had "
        "agreed how to go on after 0.04 s."
    ]


def test_who_serves_in_the_place_of_a_lost_server_stands_above_the_workers() -> None:
    lost = LOST._replace(lost=("ps:0",))
    served = {(0, n): 2.0 for n in (1, 2, 3)} | {(n, 0): 2.0 for n in (1, 2, 3)}
    hosting = hosted("worker:0", "worker:0", "worker:1", "worker:2", changes=(lost,))
    result = moment(hosting, "ps", rates=served)

    seen = Seen(result)
    heights = {name: task.top for name, task in seen.tasks.items()}
    assert heights["ps:0"] == heights["worker:0"] != heights["worker:1"]
    assert seen.kinds == {
        "1-2": "ps-pull", "1-3": "ps-pull", "2-1": "ps-push", "3-1": "ps-push"
    }  # fmt: skip


def test_a_crowded_picture_says_less_and_nothing_outside_of_its_boxes() -> None:
    many = tuple(f"worker:{n}" for n in range(16))
    generation = Generation("", 1, ("worker:0",) * 16, (), known=many, changes=(LOST,))
    result = Moment(Hosting(many, generation).tasks, topology="ring")
    result = replace(result, hosting=Hosting(many, generation))

    boxes, gone = Seen(result).tasks, ["w:5 is gone"]
    assert boxes["w:0"].words[-1] == "hosts 16"
    assert boxes["w:5"].words in (gone, [*gone, "worker:0"])


@for_each(
    ("hosting", "said"),
    [
        (hosted(*MEMBERS), ""),
        (WITHOUT_2, "worker:2 is gone; worker:2 on worker:0."),
        (
            hosted(*4 * ["worker:1"], more=("worker:3",)),
            "ps:0, worker:0 and worker:2 are gone; worker:3 stands by; "
            "ps:0, worker:0 and worker:2 on worker:1.",
        ),
    ],
)
def test_who_hosts_whom_is_one_sentence(hosting: Hosting, said: str) -> None:
    assert hosting.words() == said


def test_the_text_says_what_the_picture_shows() -> None:
    trace = Trace(MEMBERS)
    beat = Beat(moment(WITHOUT_2, step=300), fed(trace), trace, is_last=False)

    said = text(beat)
    assert "worker:2 was lost at step 120; 14 steps were done again. The tasks" in said
    assert "worker:2 is gone; worker:2 on worker:0." in said
    label = Seen(beat.moment).label
    assert "worker:2 is gone; worker:2 on worker:0" in label
    assert "was lost at step 120" in html(beat)


EPOCHS = (
    EpochRow(1, "ring", 0, 0, ""),
    EpochRow(2, "ring", 6, 1300, "", generation=1),
)


def repeated() -> Trace:
    """A training of 20 steps of 100 ns; those from 6 to 9 are done twice."""
    done = [(1, n, 100 * n) for n in range(10)]
    done += [(2, n, 1300 + 100 * (n - 6)) for n in range(6, 20)]
    lines = [(e, n, at) for e, n, at in done if e == 1 or n >= 10]  # each step once
    steps = [(0, n, e, 1.0, 8, at, at + 90, 50, 9, 0) for e, n, at in lines]
    moved = [(1, 0, TransferKind.PUSH, e, n, 1000, at, at + 90) for e, n, at in done]
    return Trace(
        ("ps:0", "worker:0"), EPOCHS, rows(TRANSFER, moved), steps=rows(STEP, steps)
    )


CHANGE = Change(("worker:1",), (), (), 10, 4, 0.0000003, "")


def both_histories() -> list[TrainingHistory]:
    """Return the one of a board from the start, and the one of a later board."""
    trace = repeated()
    late, seen = fed(trace), TrainingHistory(trace.tasks)
    is_old = trace.transfers["epoch"] == 1, trace.steps["epoch"] == 1
    for epochs, is_now in ((EPOCHS[:1], is_old), (EPOCHS, [~item for item in is_old])):
        transfers, steps = trace.transfers[is_now[0]], trace.steps[is_now[1]]
        seen.add(replace(trace, epochs=epochs, transfers=transfers, steps=steps))
    return [late, seen]


def marked(history: TrainingHistory) -> curves.Chart:
    """Return the curve of the loss with what happened to the tasks."""
    changes = history.changes((CHANGE,))
    return curves.loss(history.loss(), history.regions(), None, changes)


@for_each("history", both_histories(), ids=["late", "seen"])
def test_steps_that_were_done_again_are_drawn_once_and_marked(
    history: TrainingHistory,
) -> None:
    assert history.loss()["step"] == list(range(20))
    assert history.changes((CHANGE,)) == {
        "step": [10], "label": ["worker:1 lost"], "left": [6], "right": [10]
    }  # fmt: skip
    picture = svg_charts.curves_chart(marked(history))
    assert picture.count("ps-again") == picture.count("ps-mark") == 1
    assert "worker:1 lost" in picture
    plain = svg_charts.curves_chart(curves.loss(history.loss(), history.regions()))
    assert "ps-again" not in plain
    assert "ps-mark" not in plain


@for_each("history", both_histories(), ids=["late", "seen"])
def test_bytes_that_moved_twice_are_no_higher_rate(history: TrainingHistory) -> None:
    (line,) = history.links().values()

    assert megabytes(line) == pytest.approx(24 * 1000 / figure_data.MB)
    assert line["rate"].max() == pytest.approx(1000 / 100e-9 / figure_data.MB, rel=0.2)


def test_a_change_of_tasks_is_named_on_the_links_and_a_saved_trace_names_it_so() -> (
    None
):
    history = fed(repeated())

    assert history.switches((CHANGE,))["label"] == ["worker:1 lost"]
    assert history.switches((CHANGE,))["step"] == [10]
    assert history.switches()["label"] == ["tasks changed"]


def test_a_generation_that_begins_before_a_switch_draws_its_topology_once() -> None:
    rows = [
        EpochRow(1, "ps", 0, 0, ""),
        EpochRow(2, "ring", 110, 0, ""),
        EpochRow(3, "ps", 106, 0, "", generation=1),
        EpochRow(4, "ring", 110, 0, "", generation=1),
    ]

    assert figure_data.regions_of(rows, 200) == {
        "left": [0, 110], "right": [110, 200], "topology": ["ps", "ring"]
    }  # fmt: skip
    assert figure_data.regions_of(rows[:3], 120)["topology"] == ["ps"]


@pytest.mark.slow
def test_the_live_loss_has_the_same_marks_as_the_still_one() -> None:
    history, plot = both_histories()[0], LossPlot()
    marks = [mark.id for mark in plot.figure.renderers]

    for theme in (LIGHT, DARK):
        plot.show(marked(history), theme)

    assert [mark.id for mark in plot.figure.renderers] == marks
    assert columns(plot, "second")["second"] == [10]
    assert columns(plot, "second")["label"] == ["worker:1 lost"]
    assert columns(plot, "left", "right") == {"left": [6], "right": [10]}


def test_what_was_sent_before_a_change_is_no_rate_of_the_tasks_after_it() -> None:
    trace = repeated()

    kept = of_generation(trace, 1)
    assert set(kept.transfers["epoch"].tolist()) == {2}
    assert len(of_generation(trace, 2).transfers) == 0


@pytest.mark.slow
@pytest.mark.lasting("process", "descriptor")
def test_the_board_of_a_training_follows_a_loss_a_resize_and_its_end(
    until_drawn: Callable[..., Moment],
) -> None:
    with process_cluster(ps=0, worker=4) as cluster:
        run = train(cluster, elastic=kit.Elastic(spare=1), steps=100_000)
        follower = RunFollower(run)
        until(lambda: run.copied > 0)
        assert Seen(follower.look().moment).tasks["worker:3"].words[1] == "stands by"

        cluster[Task("worker", 1)].signal(signal.SIGKILL)
        until(lambda: len(run.losses) == 1)
        result = until_drawn(follower, {"0-3", "3-2", "2-0"})
        assert Seen(result).tasks["worker:1"].words == [
            "worker:1 is gone",
            "now on worker:3",
        ]
        said = sentences.placement(result)
        assert said[0].startswith("worker:1 was lost at step ")
        assert said[1] == "worker:1 is gone; worker:1 on worker:3."

        run.resize(worker=1)
        until(lambda: len(run.history()) == 2)
        result = until_drawn(follower, set())
        assert Seen(result).tasks["worker:2"].words[:2] == ["worker:2", "stands by"]
        run.stop()
        run.wait(30)
        seen, late = follower.look(), RunFollower(run).look()

    assert text(seen) == text(late)
    assert seen.history.loss()["step"] == late.history.loss()["step"]
    assert "placed anew" in run._repr_html_()


@pytest.fixture
def until_drawn() -> Callable[..., Moment]:
    """Give a wait until all arrows that carry something are the ones given."""

    def wait(follower: RunFollower, wanted: set[str]) -> Moment:
        result: list[Moment] = []

        def is_so() -> bool:
            now = follower.look().moment
            result[:] = [now]
            busy = {f"{a}-{b}" for (a, b), rate in now.rates.items() if rate}
            return busy == wanted

        until(is_so)
        return result[0]

    return wait
