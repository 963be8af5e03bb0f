"""A training in columns of a bounded size, however its news came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kit.trace.log import Rows, rows
from kit.trace.named_rows import EpochRow, Kept
from kit.trace.trace import Trace
from kit.trace.traffic import STEP, TRANSFER, TransferKind
from tests.cases import for_each
from tests.widgets.traces import fed, megabytes, toggled
from widgets.drawing import figure_data

TASKS = ("/job:worker/task:0", "/job:worker/task:1")


def table(n_steps: int, first: int = 0) -> Rows:
    """Return rows of two workers whose loss is the step, and the step plus one."""
    return rows(
        STEP,
        [
            (task, step, 1, step + task, 10, 100 * step, 100 * step + 90, 50, 9, 0)
            for step in range(first, first + n_steps)
            for task in (0, 1)
        ],
    )


def cut(trace: Trace, parts: int) -> list[Trace]:
    """Return the rows of a trace as news that came one after the other."""
    tables = (trace.transfers, trace.steps)
    pieces = zip(*(np.array_split(item, parts) for item in tables), strict=True)
    return [replace(trace, transfers=item, steps=other) for item, other in pieces]


@pytest.mark.parametrize("most", [4, 256])
def test_columns_are_the_same_whether_news_came_at_once_or_bit_by_bit(
    most: int,
) -> None:
    trace = toggled(("ps", "ring"), steps=20)

    at_once, by_and_by = fed(trace, most=most), fed(*cut(trace, 17), most=most)

    assert at_once.loss()["step"] == by_and_by.loss()["step"]
    for name in ("loss", "low", "high"):
        assert at_once.loss()[name] == pytest.approx(by_and_by.loss()[name])
    assert at_once.regions() == by_and_by.regions()
    assert at_once.switches() == by_and_by.switches()
    lines, others = at_once.links(), by_and_by.links()
    assert list(lines) == list(others)
    for name, line in lines.items():
        assert line["rate"] == pytest.approx(others[name]["rate"])


def test_a_long_training_has_no_more_rows_and_the_same_mean_and_range() -> None:
    history = fed(Trace(TASKS, steps=table(10_000)), most=64)

    loss = history.loss()
    assert 32 <= len(loss["step"]) <= 64
    assert history.width == 256
    assert history.n_steps == 10_000
    # Of steps a..b the mean is (a + b) / 2 + 1/2, the least a, the greatest b + 1.
    for index, (mean, low, high) in enumerate(
        zip(loss["loss"], loss["low"], loss["high"], strict=True)
    ):
        first = 256 * index
        last = min(first + 255, 9_999)
        assert mean == pytest.approx((first + last) / 2 + 0.5)
        assert (low, high) == (first, last + 1)


Lines = Callable[[Trace, int], dict[str, figure_data.Columns]]
LINES: dict[str, tuple[Lines, float]] = {  # and how exact its bytes are
    "a trace": (figure_data.links, 1e-6),
    "a history": (lambda trace, most: fed(trace).links(most), 1e-3),
    "joined bins": (lambda trace, most: fed(trace, most=8).links(most), 1e-3),
}


@for_each(("lines", "rel"), LINES.values(), ids=LINES)
def test_no_byte_is_lost_and_the_least_busy_links_are_one_line(
    lines: Lines, rel: float
) -> None:
    trace = toggled(("ps", "ring"), steps=20, n_workers=5)

    every, few = lines(trace, 99), lines(trace, 4)

    total = sum(map(megabytes, every.values()))
    moved = trace.transfers["bytes"].sum()
    assert total * figure_data.MB == pytest.approx(moved, rel=rel)
    assert len(every) == 15
    assert list(every)[:2] == ["ps:0 -> worker:0", "ps:0 -> worker:1"]
    assert len(few) == 4
    assert list(few)[-1] == f"12 {figure_data.OTHERS}"
    sums = [np.sum([x["rate"] for x in y.values()], axis=0) for y in (every, few)]
    assert sums[0] == pytest.approx(sums[1])


def test_regions_join_epochs_of_one_topology_and_switches_name_them_all() -> None:
    epochs = (
        EpochRow(1, "ps", 0, 0, ""),
        EpochRow(2, "ps", 3, 300, "1gbit"),
        EpochRow(3, "ps-async", 6, 600, "1gbit"),
    )
    history = fed(Trace(TASKS, epochs, steps=table(10)))

    assert history.regions() == {
        "left": [0, 6],
        "right": [6, 9],
        "topology": ["ps", "ps-async"],
    }
    assert history.switches()["label"] == ["ps at 1gbit", "ps to ps-async"]
    assert history.switches()["step"] == [3, 6]


def test_what_moved_once_at_a_switch_is_no_rate_of_a_link() -> None:
    trace = toggled(("ps",), steps=10)
    moved = trace.transfers[:1].copy()
    moved["kind"], moved["bytes"] = 6, 10**12

    history = fed(replace(trace, transfers=np.concatenate([trace.transfers, moved])))

    assert max(float(line["rate"].max()) for line in history.links().values()) < 10**4


def test_steps_that_begin_at_the_same_time_have_a_rate_that_can_be() -> None:
    second = 1_000_000_000
    begins = [0, second, second + 1, second + 1, 2 * second]  # two come in no time
    steps = [
        (1, step, 1, 1.0, 8, at, 3 * second, 0, 0, 0) for step, at in enumerate(begins)
    ]
    moved = [(0, 1, 1, 1, step, 10**6, 0, 3 * second) for step in range(5)]
    trace = Trace(TASKS, steps=rows(STEP, steps), transfers=rows(TRANSFER, moved))

    (line,) = fed(trace).links().values()

    assert line["second"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert line["rate"].tolist() == pytest.approx([1.0, 3.0, 1.0, 1.0])


def test_steps_whose_transfers_are_not_all_kept_are_no_pause_of_a_link() -> None:
    steps, moved = table(40), np.zeros(35, TRANSFER)
    moved["step"], moved["kind"], moved["bytes"] = (
        range(5, 40),
        TransferKind.PUSH,
        1_000_000,
    )
    moved["source"] = 1
    whole = Trace(TASKS, steps=steps, transfers=moved, kept=Kept(details=6))

    (late,) = fed(whole).links().values()
    (seen,) = fed(Trace(TASKS, steps=steps, transfers=moved), whole).links().values()

    assert late["rate"].min() > 0
    assert seen["rate"].min() == 0


def test_a_server_without_examples_adds_no_loss() -> None:
    steps = table(3)
    steps["examples"][::2] = 0
    steps["loss"][::2] = np.nan

    assert fed(Trace(TASKS, steps=steps)).loss()["loss"] == [1.0, 2.0, 3.0]


def test_nothing_heard_gives_empty_columns() -> None:
    history = fed(Trace(TASKS))

    assert history.loss() == {"step": [], "loss": [], "low": [], "high": []}
    assert history.links() == {}
    assert history.regions() == {"left": [], "right": [], "topology": []}
    assert history.switches() == {"step": [], "second": [], "label": []}
