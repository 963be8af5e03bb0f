from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import SPAN, STEP, TRANSFER, Phase, TransferKind
from tests.widgets.traces import toggled
from widgets.drawing import figure_data

TASKS = ("/job:worker/task:0",)


def with_losses(values: list[float]) -> Trace:
    table = [(0, n, 0, v, 8, 10 * n, 10 * n + 9, 5, 4, 0) for n, v in enumerate(values)]
    return Trace(TASKS, (EpochRow(0, "ring", 0, 0, ""),), steps=rows(STEP, table))


def test_a_short_loss_curve_is_complete() -> None:
    columns = figure_data.loss(with_losses([3.0, 2.0, 2.5]))

    assert columns["step"].tolist() == [0, 1, 2]
    assert columns["loss"].tolist() == columns["mean"].tolist() == [3.0, 2.0, 2.5]


def test_a_long_loss_curve_is_thinned_and_keeps_its_spike() -> None:
    values = np.linspace(3, 1, 20_000)
    values[12_345] = 99.0

    columns = figure_data.loss(with_losses(values.tolist()))

    assert 700 < len(columns["step"]) <= 1502
    assert columns["loss"].max() == 99.0
    mean = figure_data.moving_mean(values, figure_data.mean_width(20_000))
    assert columns["mean"] == pytest.approx(mean[columns["step"].astype(int)])
    assert (columns["step"][0], columns["step"][-1]) == (0, 19_999)


def test_regions_join_epochs_of_one_topology() -> None:
    epochs = [
        EpochRow(n, topology, first, 0, link)
        for n, topology, first, link in [
            (0, "ps", 0, ""),
            (1, "ps", 4, "1gbit"),
            (2, "ring", 6, ""),
        ]
    ]
    trace = replace(with_losses([1.0] * 10), epochs=tuple(epochs))

    columns = figure_data.regions(trace)

    assert columns == {"left": [0, 6], "right": [6, 9], "topology": ["ps", "ring"]}


def test_a_link_is_idle_in_the_topology_that_does_not_use_it() -> None:
    trace = toggled(("ps", "ring"), steps=20)
    at = figure_data.switches(trace)["second"][0]

    line = figure_data.links(trace)["worker:0 -> worker:1"]

    before = line["second"] < at - 1e-9
    assert before.any()
    assert (line["rate"][before] == 0).all()
    assert (line["rate"][~before] > 0).all()


def test_a_steady_link_has_no_peak_where_the_run_begins() -> None:
    lines = figure_data.links(toggled(("ring",), steps=30))

    for line in lines.values():
        assert line["rate"].max() < 1.5 * line["rate"].min()


def test_steps_whose_transfers_were_dropped_are_not_shown_as_idle() -> None:
    whole = toggled(("ring",), steps=30)
    cut = replace(whole, transfers=whole.transfers[-200:])  # a part of steps 13 to 29

    lines = figure_data.links(cut)

    begin = next(iter(lines.values()))["second"][0]
    starts = whole.steps["start"][whole.steps["step"] == 14]
    assert begin == pytest.approx((starts.min() - whole.bounds()[0]) / 1e9)
    assert all(line["rate"].min() > 0 for line in lines.values())


def test_the_window_lies_around_the_first_switch_of_topology() -> None:
    trace = toggled(("ps", "ring", "ps"), steps=20)

    view = figure_data.window(trace)

    assert (view.first_step, view.last_step, view.label) == (18, 21, "ps to ring")
    steps = trace.steps
    assert view.zero == steps["start"][steps["step"] == 20].min()
    assert view.start == steps["start"][steps["step"] == 18].min()
    assert view.end == steps["end"][steps["step"] == 21].max()


def test_without_a_switch_the_window_is_the_middle() -> None:
    view = figure_data.window(toggled(("ring",), steps=20))

    assert (view.first_step, view.last_step, view.label) == (8, 11, "")


def test_the_timeline_has_as_much_of_each_phase_as_the_spans() -> None:
    trace = toggled(("ps", "ring"), steps=20)
    view = figure_data.window(trace)

    columns = figure_data.timeline(trace, view)

    spent = trace.phase_time(view.first_step, view.last_step)
    for number, task in enumerate(trace.names):
        for phase in Phase:
            length = sum(
                right - left
                for t, p, left, right in zip(*columns.values(), strict=True)
                if (t, p) == (task, phase.name.lower())
            )
            assert length * 1e6 == pytest.approx(spent[number, phase], abs=1e5)


def test_spans_below_a_pixel_are_joined_to_the_phase_that_prevails() -> None:
    # 30,000 spans in 30 ms: three parts compute and one part send, then a pause.
    table = []
    for n in range(30_000):
        phase, length = (Phase.COMPUTE, 750) if n % 2 == 0 else (Phase.SEND, 250)
        start = 1000 * (n // 2) + (0 if n % 2 == 0 else 750)
        table.append((0, phase, 0, start, start + length))
    trace = Trace(TASKS, spans=rows(SPAN, table))
    view = figure_data.TimeWindow(0, 0, 0, 30_000_000, 0, "")

    columns = figure_data.timeline(trace, view)

    assert columns["phase"] == ["compute"]
    assert columns["left"].tolist() == [0.0]
    assert columns["right"][0] == pytest.approx(15.0, abs=0.03)


def test_volume_is_what_the_totals_say_per_step() -> None:
    trace = toggled(("ps", "ring", "ps"), steps=10, n_bytes=600_000)

    columns = figure_data.volume(trace, {"ps": {"ps:0": (1_800_000, 1_800_001)}})

    values = zip(*list(columns.values())[1:], strict=True)
    result = dict(zip(columns["place"], values, strict=True))
    assert result["ps", "ps:0"] == (1.8, 1.8, 1.8, 1.800001)
    assert result["ring", "worker:2"][:2] == pytest.approx((0.8, 0.8))
    assert np.isnan(result["ring", "worker:2"][2])
    assert ("ring", "ps:0") not in result  # it neither moved nor should move


def test_an_empty_trace_gives_empty_columns() -> None:
    trace = Trace(TASKS)
    view = figure_data.window(trace)

    assert figure_data.links(trace) == {}
    empty = [
        figure_data.loss(trace),
        figure_data.regions(trace),
        figure_data.switches(trace),
        figure_data.timeline(trace, view),
        figure_data.step_starts(trace, view),
        figure_data.volume(trace, {}),
    ]
    assert all(len(column) == 0 for columns in empty for column in columns.values())


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 40)), min_size=1, max_size=20)
)
def test_bytes_are_in_flight_from_the_first_sent_to_the_last_arrived(
    sent: list[tuple[int, int]],
) -> None:
    moves = [
        (1, 0, TransferKind.PUSH, 1, 7, 5, 10**6 * at, 10**6 * (at + long))
        for at, long in sent
    ]
    trace = Trace(("ps:0", "worker:0"), transfers=rows(TRANSFER, moves))
    view = figure_data.TimeWindow(7, 7, 0, 140 * 10**6, 0, "")

    result = figure_data.flights(trace, view)

    covered = {ms for at, long in sent for ms in range(at, at + long)}
    lines = [
        ms
        for left, right in zip(result["left"], result["right"], strict=True)
        for ms in range(round(left), round(right))
    ]
    assert sorted(lines) == sorted(covered)
    assert set(result["task"]) == {"ps:0"}
