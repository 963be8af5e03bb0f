"""What a beat of a board reads and draws: no more than needed, from made-up news."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from kit.markup import in_cell
from kit.trace.bottleneck import Bottleneck, bottleneck
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP, TransferKind
from kit.training.client.watched import Cursors, News, RunRows
from kit.training.core.job import Job
from kit.training.core.news import LOGS
from tests.training.jobs import job
from tests.widgets.insides import beat_of, bundle_of
from tests.widgets.traces import toggled
from widgets.board import snapshot, watcher
from widgets.board.board import TrafficBoard
from widgets.board.follower import Beat
from widgets.board.watcher import RunFollower

SECOND = 1_000_000_000


class Told:
    """A run of two workers whose news are made up, as a pulse sees one."""

    job: Job = job(10**6)
    newest_job = job
    done, state, halting, refused, error = False, "running", "", "", None

    def __init__(self) -> None:
        self._recorded = RunRows(200_000)
        self._tasks = tuple(map(str, self.job.tasks))
        self.step = 0
        self.requested: dict[str, Any] = {}
        self.lost: dict[str, str] = {}

    def go_on(self, n_steps: int, each_ns: int) -> None:
        """Tell of more steps of both workers, `each_ns` long."""
        for task in (0, 1):
            tables = [np.zeros(n_steps, dtype) for dtype in LOGS]
            for table in tables:
                table["step"] = np.arange(self.step, self.step + n_steps)
                table["end"] = (table["step"] + 1) * each_ns
            transfers, spans, steps, _ = tables
            for table in (transfers, spans, steps):
                table["start"] = table["end"] - each_ns
            steps["task"], spans["task"], transfers["source"] = task, task, task
            transfers["destination"], transfers["kind"] = 1 - task, TransferKind.REDUCE
            steps["examples"], steps["epoch"], transfers["epoch"] = 8, 1, 1
            self._recorded.add(News(tables, [0] * len(LOGS)))
        self.step += n_steps

    def news(self, since: Cursors = ()) -> tuple[Trace, Cursors]:
        result = self._recorded.since(since)
        transfers, spans, steps, measures = result.tables
        epochs = (EpochRow(1, "ring", 0, 0, ""),)
        trace = Trace(self._tasks, epochs, transfers, spans, steps, measures=measures)
        return trace, result.cursors


@pytest.mark.parametrize("length_s", [1.5, 4.0, 60.0])
def test_steps_of_any_length_are_looked_back_at_as_far_as_numbers_need(
    length_s: float,
) -> None:
    run: Any = Told()
    now = 0.0
    pulse = RunFollower(run, lambda: now)
    for _ in range(3):  # three to begin with, and never without numbers after them
        run.go_on(1, int(length_s * SECOND))
        pulse.look()

    for step in range(3, 8):
        run.go_on(1, int(length_s * SECOND))
        for beat in range(8):
            now = length_s * (step + beat / 8)
            result = pulse.look()
            assert result.moment.loss is not None
            assert result.moment.numbers.step_rate == pytest.approx(1 / length_s)
            assert len(result.recent.steps) <= 2 * 5  # of two workers


@pytest.mark.parametrize(
    ("steps_a_second", "least_s", "most_s"), [(4, 3.0, 4.0), (4_000, 1.5, 2.0)]
)
def test_a_beat_looks_less_far_back_where_there_are_many_rows(
    steps_a_second: int, least_s: float, most_s: float
) -> None:
    run: Any = Told()
    pulse = RunFollower(run)
    for _ in range(16):
        run.go_on(steps_a_second // 2, SECOND // steps_a_second)
        beat = pulse.look()

    steps = beat.recent.steps
    seconds = (int(steps["end"].max()) - int(steps["start"].min())) / SECOND

    assert steps.dtype == STEP
    assert least_s <= seconds <= most_s
    assert beat.moment.numbers.step_rate == pytest.approx(steps_a_second)


def test_the_still_picture_is_drawn_once_for_all_its_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board, drawn = TrafficBoard(toggled(("ps",), steps=3)), list[Beat]()
    beat = beat_of(board)
    alone = in_cell(snapshot.html(beat)), snapshot.svg(beat)
    draw = snapshot.pictures

    def counted(beat: Beat) -> snapshot.Pictures:
        drawn.append(beat)
        return draw(beat)

    monkeypatch.setattr(snapshot, "pictures", counted)

    bundle = bundle_of(board)

    assert len(drawn) == 1
    assert (bundle["text/html"], bundle["image/svg+xml"]) == alone


def test_what_steps_wait_for_is_looked_up_once_in_two_seconds_if_something_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, now, asked = Told(), [0.0], list[int]()

    def counted(trace: Trace, most_steps: int) -> Bottleneck:
        asked.append(most_steps)
        return bottleneck(trace, most_steps)

    monkeypatch.setattr(watcher, "bottleneck", counted)
    follower = RunFollower(cast("Any", run), clock=lambda: now[0])
    for beat in range(50):
        now[0] = beat / 10
        run.go_on(10, SECOND // 100)
        follower.look()
    assert asked == [watcher.BOTTLENECK_STEPS] * 3  # at 0, 2 and 4 s

    for _ in range(5):
        now[0] += 3.0
        follower.look()
    assert len(asked) == 4
