"""The curves: still ones as SVG, live ones as the data of fixed marks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import numpy.typing as npt
import pytest
from bokeh.models import AllLabels, LinearAxis, NoOverlap, Step

from kit.trace.trace import Trace
from kit.trace.traffic import Phase
from tests.cases import for_each
from tests.widgets.live import columns, lines_at_the_right
from tests.widgets.traces import fed, megabytes, toggled
from widgets.board import sentences, snapshot
from widgets.board.history import TrainingHistory
from widgets.board.watcher import beat_of
from widgets.drawing import curves, figure_data, strips, svg_charts
from widgets.drawing.bokeh_figures import links_figure, timeline_figure
from widgets.drawing.curves import Axis, Chart
from widgets.drawing.live_plots import LinksPlot, LossPlot, TimelinePlot
from widgets.drawing.theme import DARK, LIGHT

Points = npt.NDArray[np.float64]


@pytest.fixture
def trace() -> Trace:
    return toggled(("ps", "ring"), steps=20)


@pytest.fixture
def history(trace: Trace) -> TrainingHistory:
    return fed(trace)


def texts(picture: str) -> list[str]:
    return list(Xml.fromstring(picture).itertext())


def test_the_still_loss_goes_through_its_points(history: TrainingHistory) -> None:
    loss = history.loss()

    picture = svg_charts.curves_chart(curves.loss(loss, history.regions()))

    (line,) = re.findall(r'data-series="mean" points="([^"]*)"', picture)
    points = [tuple(map(float, text.split(","))) for text in line.split()]
    assert len(points) == len(loss["step"]) == 40
    order = np.argsort([y for _, y in points], kind="stable")
    assert order[0] == int(np.argmax(loss["loss"]))  # high losses lie high
    assert {"ps", "ring"} <= set(texts(picture))


def test_a_loss_that_is_not_finite_breaks_no_picture() -> None:
    loss = {"step": [0, 1, 2], "loss": [1.0, math.nan, 2.0]}
    loss |= {"low": [1.0, math.inf, 2.0], "high": [1.0, math.inf, 2.0]}
    regions: dict[str, Any] = {"left": [], "right": [], "topology": []}
    picture = svg_charts.curves_chart(curves.loss(loss, regions))

    assert "nan" not in picture.replace("role", "")
    assert "inf" not in picture
    Xml.fromstring(picture)


def test_the_still_links_have_a_strip_each_and_a_mark_for_the_switch(
    history: TrainingHistory,
) -> None:
    lines = history.links()

    picture = svg_charts.links_chart(curves.links(lines, history.switches()))

    assert picture.count("ps-strip") == len(lines) == 9
    assert picture.count("ps-mark") == 1
    assert {"ps to ring", *lines} <= set(texts(picture))
    looks = re.findall(
        r"stroke:var\(--ps-h(\d)\)[^>]*stroke-dasharray=\"([^\"]*)", picture
    )
    assert len(set(looks)) == 9


def test_the_still_timeline_has_a_bar_for_each_span(trace: Trace) -> None:
    view = sentences.newest_steps(trace)
    spans, starts = (
        figure_data.timeline(trace, view),
        figure_data.step_starts(trace, view),
    )

    coming = figure_data.flights(trace, view)
    chart = curves.timeline(spans, starts, trace.names, flights=coming)

    bars = re.findall(r'<rect class="ps-(\w+)"', svg_charts.timeline_chart(chart))
    key = len(Phase) + 1  # one of each, and of bytes in flight, in the legend
    assert len(bars) == len(spans["task"]) + len(coming["task"]) + key
    assert set(bars) == {*(phase.name.lower() for phase in Phase), "flight"}


def test_a_task_that_only_gets_bytes_has_its_row() -> None:
    trace = toggled(("ps",), steps=5)
    works = trace.spans["task"] != trace.names.index("ps:0")
    beat = beat_of(replace(trace, spans=trace.spans[works]))

    timeline, _ = snapshot.pictures(beat)[-1]

    assert {"ps:0", "worker:0", "compute"} <= set(texts(timeline))


def short_steps(gaps: list[float]) -> curves.Timeline:
    """A timeline of 100 ms in which some steps begin so many ms after each other."""
    at = np.cumsum(gaps).tolist()
    spans = {"task": ["ps:0"], "phase": ["send"], "left": [0.0], "right": [100.0]}
    steps = {"at": at, "step": list(range(197, 197 + len(at)))}
    return curves.timeline(spans, steps, ["ps:0"])


@for_each(
    ("gaps", "named"),
    [
        ([0, 30, 30, 30], ["step 197", "step 198", "step 199", "step 200"]),
        ([0, 1, 1, 1], ["step 200"]),
        ([0, 50, 3, 40], ["step 197", "step 198", "step 199", "step 200"]),
        ([0, 10, 3, 30], ["step 199", "step 200"]),
    ],
)
def test_the_names_of_short_steps_do_not_lie_on_each_other(
    gaps: list[float], named: list[str]
) -> None:
    chart = short_steps(gaps)

    drawn = Xml.fromstring(svg_charts.timeline_chart(chart))

    result = [
        element for element in drawn.iter() if (element.text or "").startswith("step ")
    ]
    assert [element.text for element in result] == named
    width = 7.5 * len("step 197")
    begins = [
        float(o.attrib["x"]) - width * ("text-anchor" in o.attrib) for o in result
    ]
    assert min(np.diff([*begins, svg_charts.WIDTH])) >= width
    lines = [item for item in drawn.iter() if item.attrib.get("class") == "ps-grid"]
    assert len(lines) == len(gaps)  # each step has one, named or not
    axes: Any = timeline_figure(chart, LIGHT).select({"type": LinearAxis})
    assert {type(ax.major_label_policy) for ax in axes} == {AllLabels, NoOverlap}


def test_nothing_to_show_is_no_picture() -> None:
    nothing: dict[str, Any] = {"second": [], "step": [], "label": []}
    empty = TrainingHistory(("worker:0",))

    none = curves.timeline({"left": []}, {"at": [], "step": []}, ["worker:0"])
    assert svg_charts.curves_chart(curves.loss(empty.loss(), empty.regions())) == ""
    assert svg_charts.links_chart(curves.links({}, nothing)) == ""
    assert svg_charts.timeline_chart(none) == ""


@for_each(("low", "high"), [(0, 1), (0, 47), (-3, 12), (0, 1e-7), (5, 1e6), (0.2, 0.3)])
def test_ticks_are_round_and_few_and_inside(low: float, high: float) -> None:
    result = svg_charts.ticks(low, high)

    assert 2 <= len(result) <= 8
    assert low - 1e-12 <= result[0] <= result[-1] <= high * (1 + 1e-9)
    steps = np.diff(result)
    assert steps == pytest.approx(steps[0])


@for_each(("low", "high"), [(0, 0), (1, 1), (0, math.inf), (0, math.nan)])
def test_ticks_of_no_span_are_one(low: float, high: float) -> None:
    assert svg_charts.ticks(low, high) == [low]


@for_each(
    ("has_own_scales", "heights", "names"),
    [
        (
            False,
            [[1.0, 0.12, 0.12, 0.56, 0.56, 1.0], [2.0, 1.945, 1.945, 1.89, 1.89, 2.0]],
            ["a", "b", "still"],
        ),
        (
            True,
            [[1.0, 0.12, 0.12, 0.56, 0.56, 1.0], [2.0, 1.56, 1.56, 1.12, 1.12, 2.0]],
            ["a, 4", "b, 0.5", "still, 0"],
        ),
    ],
)
def test_a_strip_reaches_its_top_where_a_link_is_fastest_or_where_it_is_itself(
    has_own_scales: bool, heights: list[list[float]], names: list[str]
) -> None:
    second = np.array([0.0, 1.0, 2.0])
    rates = {"a": [4.0, 2.0, 2.0], "b": [0.25, 0.5, 0.5], "still": [0.0, 0.0, 0.0]}
    lines = {
        name: {"second": second, "rate": np.array(rate)} for name, rate in rates.items()
    }
    chart = curves.links(lines, {"second": [], "label": []})

    result = strips.strips(chart, LIGHT, has_own_scales=has_own_scales)

    assert result["ys"] == [pytest.approx(ys) for ys in (*heights, [3.0] * 6)]
    assert result["xs"][0] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert result["name"] == names


def test_a_narrow_region_keeps_its_shade_and_loses_its_name() -> None:
    regions: dict[str, Any] = {"left": [0, 90, 91], "right": [90, 91, 180]}
    regions["topology"] = ["ps", "ring", "mesh"]
    loss: dict[str, Any] = {"step": [], "loss": [], "low": [], "high": []}

    result = strips.named(curves.loss(loss, regions).regions, LIGHT)

    assert result["name"] == ["ps", "", "mesh"]
    assert len(set(result["colour"])) == 3


@pytest.mark.slow
def test_live_figures_take_new_data_and_keep_their_marks(
    trace: Trace, history: TrainingHistory
) -> None:
    loss, links, timeline = LossPlot(), LinksPlot(), TimelinePlot(trace.names)
    plots: list[Any] = [loss, links, timeline]
    before = [[mark.id for mark in plot.figure.renderers] for plot in plots]
    view = sentences.newest_steps(trace)
    spans, starts = (
        figure_data.timeline(trace, view),
        figure_data.step_starts(trace, view),
    )

    for theme in (LIGHT, DARK, LIGHT):
        loss.show(curves.loss(history.loss(), history.regions()), theme)
        links.show(curves.links(history.links(), history.switches()), theme)
        shown = curves.timeline(spans, starts, trace.names, view.label)
        timeline.show(shown, theme)

        for plot in plots:
            assert plot.figure.background_fill_color == theme.background
            assert plot.figure.xaxis[0].major_label_text_color == theme.ink

    after = [[mark.id for mark in plot.figure.renderers] for plot in plots]
    assert before == after
    for name, column in history.loss().items():
        drawn = np.asarray(columns(loss, "step", "loss")[name])
        assert drawn.tolist() == pytest.approx(column, rel=1e-6)
    assert columns(links, "xs")["name"] == list(history.links())
    # The legend has what occurs, so that it needs one row.
    phases = {phase.name.lower() for phase in Phase}
    entries = timeline.figure.legend[0].items
    shown_phases = {item.label.value for item in entries if item.visible} & phases
    assert shown_phases == set(spans["phase"])


def drawn_by_bokeh(figure: Any) -> dict[str, Points]:
    """Return the points of each curve of a figure of bokeh, by its name."""
    entries = [item for box in figure.legend for item in box.items]
    result = {item.label.value: item.renderers[0] for item in entries}
    return {name: columns_of(mark) for name, mark in result.items()}


def columns_of(mark: Any) -> Points:
    """Return a row for each point of a line, or of a band both its edges."""
    names = [getattr(mark.glyph, name, None) for name in ("x", "y", "y1", "y2")]
    fields = [name for name in names if isinstance(name, str)]
    return np.column_stack([mark.data_source.data[name] for name in fields])


def drawn_as_svg(picture: str, name: str, chart: Chart, y: Axis) -> Points:
    """Return the points of a curve of a picture, in the units of its axes."""
    shape = Xml.fromstring(picture).find(f".//*[@data-series='{name}']")
    assert shape is not None
    pixels = [text.split(",") for text in shape.attrib["points"].split()]
    where = np.array(pixels, float)
    left, top, right, bottom = 56, 44, 626, 206  # the frame, as the picture has it
    reach = np.array([chart.x.high - chart.x.low, y.high - y.low])
    start = np.array([chart.x.low, y.low])
    result: Points = (
        start + (where - [left, bottom]) / [right - left, top - bottom] * reach
    )
    return result


def test_bokeh_and_svg_draw_the_same_loss(history: TrainingHistory) -> None:
    values = {
        "accuracy": [0.25, 0.75],
        "validation_loss": [0.5, 0.25],
        "validation_accuracy": [0.125, 0.5],
    }
    measures = {name: {"step": [0.0, 39.0], "value": v} for name, v in values.items()}
    chart = curves.loss(history.loss(), history.regions(), measures)
    plot = LossPlot()

    plot.show(chart, LIGHT)
    picture = svg_charts.curves_chart(chart)

    live = drawn_by_bokeh(plot.figure) | {
        name: columns_of(mark)
        for name, mark in zip(
            ("accuracy", "held-out accuracy"), lines_at_the_right(plot), strict=True
        )
    }
    assert list(live) == [series.label for series in chart.series]
    for series in chart.series:
        points = series.points
        np.testing.assert_allclose(live[series.label], points, rtol=1e-6)
        axis = chart.right if series.is_right else chart.y
        assert axis is not None
        still = drawn_as_svg(picture, series.label, chart, axis)
        if series.to:  # along the upper edge, and back along the lower one
            points = np.concatenate([points[:, [0, 2]], points[::-1, :2]])
        # A picture is exact to a tenth of a pixel.
        np.testing.assert_allclose(still, points, atol=0.02)


def test_bokeh_and_svg_draw_the_same_links(history: TrainingHistory) -> None:
    chart = curves.links(history.links(), history.switches())
    plot = LinksPlot()

    plot.show(chart, LIGHT)
    figure: Any = links_figure(chart, LIGHT)
    picture = svg_charts.links_chart(chart)

    live = columns(plot, "xs")
    page: Any = {r.name: r for r in figure.renderers if isinstance(r.glyph, Step)}
    labels = [series.label for series in chart.series]
    assert list(live["name"]) == list(page) == labels
    assert [item.attrib["data-series"] for item in strips_of(picture)] == labels
    named = plot.figure.yaxis[0].major_label_overrides
    assert set(named.values()) <= set(texts(picture))
    for index, series in enumerate(chart.series):
        second, rate = series.points.T
        np.testing.assert_allclose(columns_of(page[series.label]), series.points)
        share = (index + 1 - np.asarray(live["ys"][index])[1:-1:2]) / (1 - strips.TOP)
        np.testing.assert_allclose(live["xs"][index][::2], second, atol=1e-4)
        np.testing.assert_allclose(share * chart.y.high, rate[:-1], atol=0.1)
        path = strips_of(picture)[index].attrib["d"]
        high = [float(pixel) for pixel in re.findall(r"V([\d.]+)H", path)]
        foot = 26 + 26 * (index + 1)
        tall = 26 * (1 - strips.TOP)
        result = (foot - np.array(high)) / tall * chart.y.high
        np.testing.assert_allclose(result, rate[:-1], atol=0.01 * chart.y.high)


def strips_of(picture: str) -> list[Xml.Element]:
    shapes = Xml.fromstring(picture).iter()
    return [shape for shape in shapes if shape.attrib.get("class") == "ps-strip"]


def test_the_live_strips_are_few_numbers_and_all_the_bytes() -> None:
    lines = fed(toggled(("ps", "ring"), steps=120)).links()

    result = strips.thinned(lines)

    for name, line in lines.items():
        few = result[name]
        assert len(few["second"]) <= 101 < len(line["second"])
        assert megabytes(line) == pytest.approx(megabytes(few))
        assert (few["second"][0], few["second"][-1]) == (
            line["second"][0],
            line["second"][-1],
        )
