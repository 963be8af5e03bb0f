from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from bokeh.models import HBar, Scatter, VBar
from bokeh.models.annotations import Legend

from kit.trace.trace import Trace
from kit.trace.traffic import Phase
from tests.contrast import contrast
from tests.widgets.traces import toggled
from widgets.drawing import curves, figure_data
from widgets.drawing.bokeh_figures import (
    curves_figure,
    links_figure,
    sources_of,
    timeline_figure,
    volume_figure,
)
from widgets.drawing.theme import DARK, LIGHT, THEMES, Theme

# Any: bokeh's annotations know only the base classes of what a figure holds.
Figures = Mapping[str, Any]
FORMULA = {"ps:0": (1_800_000, 1_800_000)}


def figures(trace: Trace, theme: Theme) -> Figures:
    view = figure_data.window(trace)
    loss = curves.each_loss(figure_data.loss(trace), figure_data.regions(trace))
    links = curves.links(figure_data.links(trace), figure_data.switches(trace))
    spans, starts = (
        figure_data.timeline(trace, view),
        figure_data.step_starts(trace, view),
    )
    times = curves.timeline(spans, starts, trace.names, view.label)
    return {
        "loss": curves_figure(loss, theme),
        "links": links_figure(links, theme),
        "timeline": timeline_figure(times, theme),
        "volume": volume_figure(figure_data.volume(trace, {"ps": FORMULA}), theme),
    }


@pytest.fixture(scope="module")
def drawn() -> Figures:
    return figures(toggled(("ps", "ring"), steps=20), LIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_all_text_is_large_enough_and_readable(theme: Theme) -> None:
    n_sizes = n_colours = 0
    for fig in figures(toggled(("ps", "ring"), steps=6), theme).values():
        assert fig.background_fill_color == theme.background
        for model in [*fig.axis, *fig.legend, *fig.select({"type": Legend})]:
            for name, value in model.properties_with_values().items():
                if name.endswith(("label_text_font_size", "group_text_font_size")):
                    assert int(str(value).removesuffix("px")) >= 12
                    n_sizes += 1
                if name.endswith(("label_text_color", "group_text_color")):
                    assert contrast(str(value), theme.background) >= 4.5
                    n_colours += 1
    assert min(n_sizes, n_colours) > 16


@pytest.mark.slow
def test_the_regions_of_topologies_are_shaded_and_named(drawn: Figures) -> None:
    boxes = [m for m in drawn["loss"].center if type(m).__name__ == "BoxAnnotation"]
    labels = [m for m in drawn["loss"].center if type(m).__name__ == "Label"]
    lines = [m for m in drawn["loss"].center if type(m).__name__ == "Span"]

    assert [(box.left, box.right) for box in boxes] == [(0, 20), (20, 39)]
    assert boxes[0].fill_color != boxes[1].fill_color
    assert [label.text for label in labels] == ["ps from step 0", "ring from step 20"]
    assert [line.location for line in lines] == [20]  # nothing changes at step 0


@pytest.mark.slow
def test_each_link_has_a_strip_a_name_and_a_look_of_its_own(drawn: Figures) -> None:
    fig = drawn["links"]
    lines = [r for r in fig.renderers if type(r.glyph).__name__ == "Step"]

    assert len(lines) == 9
    names = fig.yaxis[0].major_label_overrides
    assert list(names.values()) == [line.name for line in lines]
    looks = {(r.glyph.line_color, str(r.glyph.line_dash)) for r in lines}
    assert len(looks) == 9
    heights = {
        (r.coordinates.y_source.start, r.coordinates.y_source.end) for r in lines
    }
    assert len(heights) == 1  # one scale for all


@pytest.mark.slow
def test_the_timeline_tells_phases_apart_without_colour(drawn: Figures) -> None:
    bars = [r.glyph for r in drawn["timeline"].renderers if isinstance(r.glyph, HBar)]

    kinds = len(Phase) + 1
    assert len(bars) == kinds
    assert len({(str(bar.hatch_pattern), bar.height) for bar in bars}) == kinds
    entries = [item.label.value for item in drawn["timeline"].legend[0].items]
    assert entries == [*(phase.name.lower() for phase in Phase), "in flight"]


def test_the_timeline_names_its_steps_and_its_switch(drawn: Figures) -> None:
    fig = drawn["timeline"]

    names = [
        name
        for axis in fig.above
        for name in getattr(axis, "major_label_overrides", {}).values()
    ]
    assert names == ["step 18", "step 19", "step 20", "step 21"]
    assert "0 is the switch from ps to ring" in fig.xaxis[-1].axis_label
    assert fig.y_range.factors[-1] == "ps:0"  # the first task is at the top


def test_measured_bars_stand_beside_formula_markers(drawn: Figures) -> None:
    result = drawn["volume"].renderers
    bars = [r for r in result if isinstance(r.glyph, VBar)]
    points = [r for r in result if isinstance(r.glyph, Scatter)]

    assert [bar.glyph.top for bar in bars] == ["sent", "received"]
    assert [p.glyph.y for p in points] == ["formula_sent", "formula_received"]
    assert points[0].data_source.data["formula_sent"][0] == 1.8


def test_without_a_formula_there_is_no_marker() -> None:
    columns = figure_data.volume(toggled(("ps",), steps=4), {})
    fig: Any = volume_figure(columns, DARK)

    assert [type(r.glyph) for r in fig.renderers] == [VBar, VBar]
    entries = [item.label.value for item in fig.legend[0].items]
    assert entries == ["sent, measured", "received, measured"]


def test_two_figures_can_share_one_source() -> None:
    trace = toggled(("ring",), steps=4)
    chart = curves.each_loss(figure_data.loss(trace), figure_data.regions(trace))
    shared = sources_of(chart)

    pair: list[Any] = [curves_figure(chart, theme, shared) for theme in THEMES]

    assert len({data.id for data in shared}) == 1  # of both series
    assert all(r.data_source is shared[0] for fig in pair for r in fig.renderers)


def test_empty_columns_make_empty_figures() -> None:
    drawn = figures(Trace(("/job:worker/task:0",)), DARK)

    assert set(drawn) == {"loss", "links", "timeline", "volume"}
    assert drawn["links"].renderers == []
