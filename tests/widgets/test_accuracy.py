"""The accuracy that a step function returns, shown wherever the loss is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kit.trace.log import rows
from kit.trace.trace import Trace
from kit.trace.traffic import MEASURE
from tests.training.paced import LONG_S, begin
from tests.training.toy import X, quick_cluster, telling
from tests.training.toy import rows as examples_of
from tests.widgets.live import lines_at_the_right
from tests.widgets.traces import fed, toggled
from widgets.board import sentences
from widgets.board.history import TrainingHistory
from widgets.board.run_state import Moment
from widgets.board.snapshot import html, loss_words
from widgets.board.watcher import RunFollower, beat_of
from widgets.drawing import curves, svg_charts
from widgets.drawing.curves import Chart
from widgets.drawing.live_plots import LossPlot
from widgets.drawing.theme import DARK, LIGHT


def with_values(trace: Trace, values: list[float]) -> Trace:
    """Return a trace in which worker 0 reported a value after each step."""
    table = [
        (1, step, b"accuracy", value, 10, 100 + step)
        for step, value in enumerate(values)
    ]
    return replace(trace, measures=rows(MEASURE, table))


def test_the_column_is_the_mean_of_each_stretch() -> None:
    trace = with_values(toggled(("ps",), steps=40), (np.arange(40) / 40).tolist())
    first, other = fed(trace), fed(trace, most=8)

    assert first.measure("accuracy")["value"] == pytest.approx(np.arange(40) / 40)
    assert other.width == 8
    assert other.measure("accuracy")["value"] == pytest.approx(
        [(8 * n + 3.5) / 40 for n in range(5)]
    )
    assert first.measure("precision") == {"step": [], "value": []}


def test_a_value_that_is_no_number_is_left_out() -> None:
    history = fed(with_values(toggled(("ps",), steps=3), [0.5, float("nan"), 0.75]))

    assert history.measure("accuracy") == {"step": [0.0, 2.0], "value": [0.5, 0.75]}


def loss_of(history: TrainingHistory) -> Chart:
    return curves.loss(history.loss(), history.regions(), history.measures())


def test_the_still_curve_rises_to_the_right_height() -> None:
    trace = with_values(toggled(("ps",), steps=3), [0.0, 0.5, 1.0])

    picture = svg_charts.curves_chart(loss_of(fed(trace)))

    (line,) = re.findall(r'data-series="accuracy" points="([^"]*)"', picture)
    low, middle, high = (float(text.split(",")[1]) for text in line.split())
    assert high < middle < low
    assert middle == pytest.approx((low + high) / 2, abs=0.1)
    assert "accuracy" in picture


def test_without_an_accuracy_nothing_of_it_is_drawn() -> None:
    beat = beat_of(toggled(("ps",), steps=3))

    assert "accuracy" not in html(beat)
    assert beat.moment.accuracy is None
    plot = LossPlot()
    plot.show(loss_of(beat.history), LIGHT)
    assert not any(line.visible for line in lines_at_the_right(plot))
    assert not plot.figure.right[0].visible


def test_the_live_curve_has_an_axis_once_there_is_one() -> None:
    beat = beat_of(with_values(toggled(("ps",), steps=3), [0.1, 0.2, 0.9]))
    plot = LossPlot()
    marks = [mark.id for mark in plot.figure.renderers]

    for theme in (LIGHT, DARK):
        plot.show(loss_of(beat.history), theme)

        share, held_out = lines_at_the_right(plot)
        (axis,) = plot.figure.right
        assert (share.visible, held_out.visible, axis.visible) == (True, False, True)
        assert list(share.data_source.data["step"]) == [0, 1, 2]
        assert list(share.data_source.data["value"]) == pytest.approx([0.1, 0.2, 0.9])
        assert axis.major_label_text_color == theme.ink
    assert [mark.id for mark in plot.figure.renderers] == marks


def test_what_is_measured_on_held_out_data_is_drawn_with_dots() -> None:
    trace = toggled(("ps",), steps=40)
    table = [
        (1, step, name, value, 10, 100 + step)
        for step, loss, right in ((19, 0.75, 0.5), (39, 0.5, 0.625))
        for name, value in ((b"validation_loss", loss), (b"validation_accuracy", right))
    ]
    beat = beat_of(replace(trace, measures=rows(MEASURE, table)))

    said = loss_words(beat)
    assert "On held-out data it went from 0.75 to 0.5, and 50.0% to 62.5%" in said
    chart = loss_of(beat.history)
    picture = svg_charts.curves_chart(chart)
    assert picture.count('class="ps-dot"') == 4
    assert "held-out: dots" in picture
    assert chart.y.high >= 0.75
    plot = LossPlot()
    plot.show(loss_of(beat_of(trace).history), LIGHT)
    items = {item.label.value: item for item in plot.figure.legend[0].items}
    assert not items["held-out"].visible
    plot.show(chart, LIGHT)
    parts = [part for part in plot.figure.renderers if part.visible]
    drawn = [part.data_source.data for part in parts]
    beside = [data for data in drawn if [*data.get("step", ())] == [19, 39]]
    # A curve and its dots: the share at the right, the loss at the left.
    values = [[0.5, 0.625], [0.5, 0.625], [0.75, 0.5], [0.75, 0.5]]
    assert sorted([*data["value"]] for data in beside) == values
    assert items["held-out"].visible


def test_the_numbers_and_the_words_say_it() -> None:
    moment = Moment(("worker:0",), loss=0.5, accuracy=0.9725)
    facts: dict[str, Any] = {name: more for name, _, more in sentences.facts(moment)}

    assert facts["loss"] == "batch: 97 % right"


def test_a_training_that_tells_it_shows_it() -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, telling, steps=6).wait(LONG_S)

    beat = RunFollower(run).look()

    wanted = [float((X[examples_of(step)][:, 0] > 0).mean()) for step in range(6)]
    assert beat.history.measure("accuracy")["value"] == pytest.approx(wanted)
    assert beat.moment.accuracy == pytest.approx(wanted[-1])
    assert f"to {wanted[-1]:.1%}." in loss_words(beat)
