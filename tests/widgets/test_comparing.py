"""What a comparison shows in a cell and on a page, from traces made by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bokeh.models import HoverTool
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from tests.experiments.traces import measured, trace_of
from tests.widgets.outcomes import FALLING, Made, outcome, some
from tests.widgets.pages import Page
from widgets.comparing import overlays, page
from widgets.comparing.cell import LiveComparison, still
from widgets.drawing import figure_data, svg_charts
from widgets.drawing.bokeh_figures import overlay_figure
from widgets.drawing.svg_charts import Scale
from widgets.drawing.theme import LIGHT


@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=40),
    st.integers(0, 30).map(lambda half: 2 * half + 1),
)
def test_a_moving_mean_is_that_of_the_known_values_around(
    values: list[float], width: int
) -> None:
    result = figure_data.moving_mean(np.array(values), width)

    for index, mean in enumerate(result):
        near = values[max(0, index - width // 2) : index + width // 2 + 1]
        listed = [value for value in near if not np.isnan(value)]
        expected = sum(listed) / len(listed) if listed else np.nan
        assert mean == pytest.approx(expected, nan_ok=True, abs=1e-6)
    assert len(result) == len(values)


@for_each(
    ("along", "ends"),
    [("step", (79, 29)), ("seconds", (0.8, 0.15)), ("bytes", (48, 9))],
)
def test_each_curve_ends_where_its_run_has_got_to(
    along: str, ends: tuple[float, float]
) -> None:
    runs = overlays.drawn(some().outcomes())

    chart = overlays.overlay(runs, "loss", along, smoothing=0)

    plain = [item for item in chart.series if len(item.points) and not item.has_dots]
    last = {item.label: item.points[-1] for item in plain}
    dots = {item.label: item.points[-1] for item in chart.series if item.has_dots}
    assert last["<ps>"] == pytest.approx([ends[0], FALLING[79]])
    assert last["ring"] == pytest.approx([ends[1], FALLING[29]])
    assert dots["<ps>"] == pytest.approx([ends[0], 0.01])
    assert chart.x.high == pytest.approx(ends[0])


def test_smoothing_adds_a_thick_mean_to_the_thin_curve_of_each_step() -> None:
    runs = overlays.drawn(some().outcomes())

    chart = overlays.overlay(runs, "loss", smoothing=0.1)

    thin, mean, _ = (item for item in chart.series if item.label == "<ps>")
    assert thin.is_thin
    assert thin.points[:, 1].tolist() == FALLING
    assert mean.points[40, 1] == pytest.approx(np.mean(FALLING[36:45]))  # a tenth of 80


def test_runs_that_agree_bit_for_bit_are_said_to() -> None:
    runs = overlays.drawn(some().outcomes())

    said = overlays.overlay_words(runs, "loss", "step")

    ends = f"<ps> {FALLING[79]:.3g} at step 79; ring {FALLING[29]:.3g} at step 29."
    assert said.startswith(f"The last loss: {ends}")
    assert "<ps> and ring agree in each step that they share" in said
    assert "agree" not in overlays.overlay_words(runs, "accuracy", "step")


def test_of_many_runs_the_words_name_the_least_and_the_greatest() -> None:
    made = [outcome(f"run {k}", trace_of([9.0, 1.0 + k], [k, k])) for k in range(14)]
    runs = overlays.drawn(made)

    curve = overlays.overlay_words(runs, "loss", "step")
    bars = overlays.bars_words(overlays.bytes_bars(runs))

    ends = "from 1 at step 1 (run 0) to 14 at step 1 (run 13)"
    assert curve == f"The last loss is {ends}."
    assert bars == "Moved in a step [bytes]: from run 0 0 to run 13 12."


def test_measures_are_offered_and_held_out_ones_go_with_theirs() -> None:
    assert overlays.measures(overlays.drawn(some().outcomes())) == ["loss", "accuracy"]
    alone = measured(trace_of([1.0]), "validation_accuracy", {0: 0.5})
    runs = overlays.drawn([outcome("a", alone)])
    assert overlays.measures(runs) == ["loss", "validation_accuracy"]


def test_a_logarithmic_scale_has_no_place_for_zero() -> None:
    trace = trace_of([1.0, 0.1, 0.0, 0.01])
    chart = overlays.overlay(overlays.drawn([outcome("a", trace)]), is_log=True)

    drawn = svg_charts.curves_chart(chart)

    assert (chart.y.low, chart.y.high) == (0.01, 1.0)
    points = re.search(r'points="([^"]+)"', drawn)
    assert points is not None
    heights = [float(point.split(",")[1]) for point in points[1].split()]
    assert len(heights) == 3
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.11)


@for_each(
    ("low", "high", "expected"),
    [
        (0.01, 1.0, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
        (1e-6, 1.0, [1e-6, 1e-4, 1e-2, 1.0]),
        (3.0, 4.0, []),
    ],
)
def test_ticks_of_a_logarithmic_scale_are_round(
    low: float, high: float, expected: list[float]
) -> None:
    result = Scale(low, high, 0, 100, is_log=True).ticks(5)

    assert result == pytest.approx(expected)


def test_bars_are_as_long_as_the_table_says() -> None:
    runs = overlays.drawn(some().outcomes())

    bars = overlays.bytes_bars(runs), overlays.time_bars(runs)

    lengths = [[parts[0].value for _, parts in chart.rows] for chart in bars]
    assert lengths == [[600, 300, 0], pytest.approx([10, 5, 0])]
    by_phase = dict(overlays.phase_bars(runs).rows)
    assert [p.label for p in by_phase["<ps>"]] == ["compute", "wait"]
    assert sum(p.value for p in by_phase["<ps>"]) == pytest.approx(9.5)


def test_the_cell_keeps_all_pictures_and_the_table_without_a_script() -> None:
    kept = still(some())

    assert kept.count("<figure>") == 5 + 3  # the loss four times, accuracy, bars
    assert "<script" not in kept
    assert "<ps>" not in kept
    assert "&lt;ps&gt;" in kept
    assert "StepFailed: no" in kept


def test_the_live_view_draws_what_is_chosen() -> None:
    live = LiveComparison(some())

    first = live.curve.value
    live.along.value = "bytes"
    by_bytes = live.curve.value
    live.scale.value = True
    live.smoothing.value = 0.0

    assert "Loss by step" in first
    assert "Loss by bytes moved" in by_bytes
    assert first.count("ps-thin") == 1  # a fortieth of 30 steps is none
    assert live.curve.value.count("ps-thin") == 0
    assert live.again.layout.display == "none"  # all are over
    live.measure.value = "accuracy"
    assert "Accuracy by bytes moved" in live.curve.value


def test_runs_that_go_on_can_be_looked_at_again() -> None:
    made = Made(outcome("a", trace_of(FALLING[:5]), state="running"))
    live = LiveComparison(made)
    assert live.again.layout.display is None

    made.made = (outcome("a", trace_of(FALLING[:9])),)
    live.again.click()

    assert "at step 8" in live.curve.value
    assert live.again.layout.display == "none"


@pytest.mark.slow
def test_the_page_has_all_figures_in_both_themes_and_asks_no_other_host(
    tmp_path: Path,
) -> None:
    page.write(some(), tmp_path / "page.html")

    seen = Page((tmp_path / "page.html").read_text())
    classes = [a.get("class") for tag, a in seen.tags if tag == "div"]
    for name in ("light linear", "light log", "dark linear", "dark log"):
        assert classes.count(name) == 4
    assert classes.count("light") == classes.count("dark") == 4 + 3
    assert seen.asked() == []
    assert "Comparison of 3 runs" in seen.text
    assert "StepFailed: no" in seen.text
    assert f"The last loss: <ps> {FALLING[79]:.3g}" in seen.text


def test_no_name_of_a_measure_becomes_a_template_of_a_tooltip() -> None:
    name = "x}{safe}<img src=x>"  # bokeh would take what follows {safe} for HTML
    (run, *_) = overlays.drawn(
        [outcome("a", measured(trace_of(FALLING), name, {40: 0.5, 79: 0.75}))]
    )
    figure = overlay_figure(overlays.overlay([run], name), LIGHT)

    (hover,) = [tool for tool in figure.tools if isinstance(tool, HoverTool)]
    tips: Any = hover.tooltips
    assert [label for label, _ in tips if name[-9:] in label]
    assert all(re.fullmatch(r"[@$]\w+", template) for _, template in tips)
