"""Looking at a training costs the same and takes the same memory however long it is.

The members are made up: their answers are what real ones would send.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kit.errors import InternalError
from kit.settings import Settings
from kit.trace.log import Rows
from kit.trace.traffic import (
    MEASURE,
    SPAN,
    STEP,
    TOTAL,
    TRANSFER,
    Meter,
    StepRow,
    TransferKind,
)
from kit.trace.window import Window
from kit.training.client.run import Run
from kit.training.client.watched import RunRows, Watched
from kit.training.core.member import Member
from kit.training.core.news import poll
from kit.training.core.printed import PrintedLines
from tests.training.jobs import EXAMPLES, job
from tests.training.jobs import WORKERS as TASKS

MANY = 1000  # steps in an answer


def loss(step: Any) -> Any:
    """Return what a worker's loss in a step is, up to its number."""
    return 1.0 / (1.0 + step)


def steps_of(member: int, numbers: Any) -> Rows:
    table = np.zeros(len(numbers), STEP)
    table["task"], table["step"], table["epoch"] = member, numbers, 1
    table["loss"], table["examples"] = loss(numbers) + member, EXAMPLES
    table["start"], table["end"] = numbers * 1_000, numbers * 1_000 + 900
    return table


def tables_of(member: int, numbers: Any) -> list[Rows]:
    """Return four transfers, six spans, a step and a measure for each step."""
    moved = np.zeros(4 * len(numbers), TRANSFER)
    moved["step"], moved["source"] = np.repeat(numbers, 4), 1 - member
    moved["destination"], moved["kind"] = member, TransferKind.REDUCE
    spans = np.zeros(6 * len(numbers), SPAN)
    spans["step"], spans["task"] = np.repeat(numbers, 6), member
    measures = np.zeros(len(numbers), MEASURE)
    measures["step"], measures["task"], measures["name"] = numbers, member, b"accuracy"
    measures["examples"] = EXAMPLES
    return [moved, spans, steps_of(member, numbers), measures]


Others = dict[int, "Tells"]


def wanted(values: Any) -> list[Any]:
    return list(values.get("others", ()))


class Tells:
    """One member's side of the link: each question gets the next steps.

    It gathers the news of the `others`, so nobody is ahead by more than an answer.
    """

    link = SimpleNamespace(transport="unix")
    is_closed = False

    def __init__(
        self, member: int, n_steps: int, each: int = MANY, others: Others | None = None
    ) -> None:
        self._member, self._n_steps, self._each = member, n_steps, each
        self._others = {} if others is None else others
        self.step, self._cursors = 0, [0, 0, 0, 0]

    def ask(
        self, what: str, limit_s: float, values: Any, **_: Any
    ) -> tuple[Any, bytes]:
        if what == "run.params":
            return {}, bytes(48)
        first, self.step = self.step, min(self.step + self._each, self._n_steps)
        tables = tables_of(self._member, np.arange(first, self.step))
        added = zip(self._cursors, tables, strict=True)
        self._cursors = [cursor + len(table) for cursor, table in added]
        total = (
            1 - self._member,
            self._member,
            TransferKind.REDUCE,
            1,
            48 * self.step,
            1,
        )
        tables.append(np.array([total], TOTAL))
        is_over = self.step == self._n_steps
        reply = {
            "now": time.monotonic_ns(),
            "state": "done" if is_over else "running",
            "step": self.step,
            "error": None,
            "epochs": [[1, "ring", 0, 0, ""]],
            "cursors": self._cursors,
            "counts": [len(table) for table in tables],
            "n_steps": [[1, self.step]],
            "more": not is_over,
            "doing": {"what": "exchanging", "since": 0, "members": []},
            "leads": None,
        }
        blob = b"".join(table.tobytes() for table in tables)
        asked = {n: self._others[n].ask(what, limit_s, {}) for n, _ in wanted(values)}
        now = time.monotonic_ns()
        lines = [[n, now, now, len(more), item] for n, (item, more) in asked.items()]
        return {**reply, "others": lines}, blob + b"".join(m for _, m in asked.values())

    call = ask  # no answer is an error

    def close(self) -> None:
        """Nothing is open."""


def finished(n_steps: int, *, each: int = MANY, **changes: Any) -> Run:
    others: Others = {}
    lines = [Tells(n, n_steps, each, others) for n in range(len(TASKS))]
    others.update(enumerate(lines))
    by_task = dict(zip(TASKS, lines, strict=True))
    run = Run(job(n_steps, **changes), lambda task, *_: cast("Any", by_task[task]))
    return run.wait(30)


def answers_of_all(n_steps: int) -> Iterator[RunRows]:
    """Yield what is known each time that all members have answered."""
    recorded, seen = RunRows(Settings().trace_rows), [Watched() for _ in TASKS]
    members = [Tells(number, n_steps) for number in range(len(TASKS))]
    while not seen[-1].is_over:
        for member, watched in zip(members, seen, strict=True):
            recorded.add(watched.take(*member.ask("run.poll", 1.0, {})))
        yield recorded


@pytest.mark.slow
def test_memory_of_200_000_steps_is_flat_in_their_second_half() -> None:
    sizes = []
    gc.collect()
    tracemalloc.start()
    try:
        for expected in answers_of_all(200_000):
            blocks = [(table._rows, table._numbers) for table in expected._tables]
            held = sum(array.nbytes for pair in blocks for array in pair)
            sizes.append(held + tracemalloc.get_traced_memory()[0])
            kept = expected.kept
    finally:
        tracemalloc.stop()

    later = sizes[len(sizes) // 2 :]
    assert len(later) == 100
    assert max(later) <= 1.05 * min(later)
    assert max(sizes) < 64 * 2**20
    assert kept.stride > 1
    assert kept.details > 150_000
    assert "one step in" in str(kept)


def test_loss_step_and_text_of_a_run_look_at_no_row_and_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished(3_000)

    def refuse(*_: object) -> None:
        raise InternalError("somebody looks at the rows")

    for name in ("rows", "since", "_from"):
        monkeypatch.setattr(Window, name, property(refuse))
    monkeypatch.setattr(Run, "trace", property(refuse))

    assert run.step == 3_000
    assert run.loss == pytest.approx(loss(2_999) + 0.5)
    assert "step 3000 of 3000, ring, loss 0.5003>" in repr(run)


def test_loss_is_the_last_one_of_the_curve_to_the_bit() -> None:
    run = finished(1_234)

    steps, losses = run.trace.losses()

    assert steps[-1] == 1_233
    assert run.loss == losses[-1]


def test_a_trace_below_the_bounds_is_complete_and_says_nothing() -> None:
    trace = finished(3_000).trace

    steps, losses = trace.losses()
    assert steps.tolist() == list(range(3_000))
    assert losses.tolist() == pytest.approx((loss(np.arange(3_000)) + 0.5).tolist())
    assert (len(trace.transfers), len(trace.spans)) == (8 * 3_000, 12 * 3_000)
    assert str(trace.kept) == ""
    assert repr(trace).endswith("bytes>")


def test_looking_again_costs_no_copy_and_news_are_the_new_rows_alone() -> None:
    run = finished(3_000)

    whole, end = run.news()
    more, _ = run.news(end)

    for name in ("transfers", "spans", "steps", "measures"):
        assert np.shares_memory(getattr(run.trace, name), getattr(whole, name))
        assert len(getattr(more, name)) == 0


@pytest.mark.slow
def test_what_is_thinned_out_is_said_and_totals_stay_exact() -> None:
    run = finished(8_000, each=10, trace_rows=2_000)

    trace = run.trace
    stride, whole, details, unread = trace.kept
    assert stride > 1
    assert details > 7_000
    assert unread == 0
    said = f"before step {whole:,} one step in {stride:,}"
    assert said in repr(trace)
    assert said in repr(run)
    assert said in run._repr_html_()
    steps, losses = trace.losses()
    assert {0, 7_999} <= set(steps.tolist())
    older = [n for n in range(whole) if n % stride == 0]
    assert steps.tolist() == [*older, *range(whole, 8_000)]
    assert losses.tolist() == pytest.approx((loss(steps) + 0.5).tolist())
    assert trace.transfers["step"].min() <= details
    assert trace.received("worker:0") == 48 * 8_000
    assert [int(record["step"]) for record in run.metrics] == steps.tolist()
    assert run.frame()["accuracy"].notna().all()


def test_what_a_task_dropped_while_nobody_asked_is_counted() -> None:
    meter = Meter(1, limit=100)
    status = SimpleNamespace(
        coordinator=None, epochs=[], final_error=None, is_over=False, is_stuck=False
    )
    status.printed = PrintedLines()
    status.last_doing = {"what": "exchanging", "since": 0, "members": []}
    member = cast("Member", SimpleNamespace(meter=meter, step=0, **vars(status)))
    recorded, watched = RunRows(1_000), Watched()

    for n_steps in (50, 330, 20):  # between two looks
        first = meter.steps.added
        for row in steps_of(1, np.arange(first, first + n_steps)).tolist():
            meter.stepped(StepRow(*row))
            meter.received(0, TransferKind.REDUCE, 1, row[1], 48, 0, 1)
        recorded.add(watched.take(*poll(member, watched.cursors)))

    kept = recorded.kept
    assert kept.unread == 2 * (330 - 100)  # steps and transfers
    assert kept.details == 281  # the first one after the gap may lack some
    assert watched.n_steps == {1: 400}
    assert watched.totals["bytes"].tolist() == [400 * 48]
    assert len(recorded.since().tables[2]) == 170
    assert "460 rows were dropped before they were read" in str(kept)
