"""What a live board sends to its page: nothing that is not seen or has not changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import is_
from typing import Any

import numpy as np
import pytest
from bokeh.core.json_encoder import serialize_json
from bokeh.core.serialization import Deserializer
from bokeh.document import Document
from bokeh.models import LinearScale, LogScale

from kit.trace.trace import Trace
from tests.widgets.live import as_sent, figures, tell, tree
from tests.widgets.traces import toggled
from widgets.board.follower import Beat
from widgets.board.live_view import CURVES_S, TIMELINE_S, LiveView
from widgets.board.watcher import beat_of

pytestmark = pytest.mark.slow


class Stage:
    """A view with a fake clock, and what it sends."""

    def __init__(self, trace: Trace) -> None:
        self.now, self.sent = 0.0, list[dict[str, Any]]()
        self.view = LiveView(
            trace.tasks, None, shown=lambda is_shown: None, clock=lambda: self.now
        )
        self.plots: list[Any] = [self.view.loss, self.view.timeline, self.view.links]
        self.models = figures(self.view.root)
        for model in self.models:
            model.send = lambda content, buffers=None: self.sent.append(content)

    def draw(self, beat: Beat) -> list[dict[str, Any]]:
        """Draw when everything is due; returns what the figures have sent."""
        self.now += max(CURVES_S, TIMELINE_S)
        self.sent.clear()
        self.view.draw(beat)
        return list(self.sent)


@pytest.fixture
def stage() -> Iterator[Stage]:
    result = Stage(toggled(("ps",), steps=3))
    yield result
    result.view.close()


def beats() -> tuple[Beat, Beat]:
    """Return a beat, and a later one with more steps."""
    result = [beat_of(toggled(("ps",), steps=steps)) for steps in (10, 20)]
    first, other = (replace(beat, is_last=False) for beat in result)
    return replace(first, n_rows=100), replace(other, n_rows=200)


def test_a_figure_sends_all_that_changed_as_one_patch(stage: Stage) -> None:
    left, other = beats()
    stage.draw(left)

    sent = stage.draw(other)

    patches = [json.loads(sent[first]["payload"]) for first in (2, 5, 8)]
    assert len(sent) == 3 * 3  # each with its header and metadata
    assert [row["msg"] for row in sent] == ["patch"] * 9
    assert all(patch["events"] for patch in patches)
    assert len(patches[0]["events"]) == 2  # the loss, and up to where a region reaches


def test_what_the_page_gets_is_what_was_drawn(stage: Stage) -> None:
    first, other = beats()
    stage.draw(first)

    sent = stage.draw(other)

    figure: Any = stage.view.loss.figure
    patch: Any = Deserializer(list(figure.document.models))
    events = patch.deserialize(json.loads(sent[2]["payload"]))["events"]
    sources = [line.data_source for line in figure.renderers]
    (result,) = (
        event["data"]
        for event in events
        if event["model"] in sources and "step" in event["data"]
    )
    for name, column in other.history.loss().items():
        assert result[name].tolist() == pytest.approx(column, rel=1e-6)
    assert all(isinstance(column, np.ndarray) for column in result.values())


def test_view_that_appears_late_is_sent_all_that_was_drawn(stage: Stage) -> None:
    beat = beat_of(toggled(("ps", "ring"), steps=10))
    empty = lengths(stage)
    stage.draw(beat)
    stage.sent.clear()

    for model, plot in zip(stage.models, stage.plots, strict=True):
        tell(model, plot.figure, "name", "light 0.5")

    text = "".join(part["payload"] for part in stage.sent)
    drawn = [source for source, n in lengths(stage).items() if n != empty[source]]
    assert len(drawn) >= 6  # two of each figure
    assert all(f'"id":"{source}"' in text for source in drawn)


def lengths(stage: Stage) -> dict[str, int]:
    """Return how much each source of the figures holds, by its id."""
    figures = [plot.figure for plot in stage.plots]
    sources = [line.data_source for figure in figures for line in figure.renderers]
    return {source.id: len(next(iter(source.data.values()), ())) for source in sources}


def test_state_that_a_page_asks_for_is_what_is_drawn(stage: Stage) -> None:
    beat = beat_of(toggled(("ps", "ring"), steps=10))
    stage.draw(beat)

    for model, plot in zip(stage.models, stage.plots, strict=True):
        figure = as_sent(model)
        assert len(figure.renderers) == len(plot.figure.renderers)
        for first, other in zip(figure.renderers, plot.figure.renderers, strict=True):
            columns = first.data_source.data, other.data_source.data
            assert [len(c) for c in columns[0].values()] == [
                len(c) for c in columns[1].values()
            ]
            assert first.visible == other.visible


def test_state_that_a_page_asks_for_again_is_what_bokeh_makes_of_the_figure(
    stage: Stage,
) -> None:
    first, other = beats()
    stage.draw(first)
    before = [model.get_state() and model.written for model in stage.models]

    stage.view.large.value = True
    stage.draw(other)
    agree_with_bokeh(stage)
    made = [model.written for model in stage.models]
    assert all(map(is_, made, before))  # none of them as a whole

    stage.view.log.value = True  # the scale is another model
    agree_with_bokeh(stage)
    for model, plot in zip(stage.models, stage.plots, strict=True):
        tell(model, plot.figure, "name", "light 0.5")  # a view appears: all is sent
    agree_with_bokeh(stage)


def test_a_loss_that_has_fallen_far_is_on_a_logarithmic_scale_until_a_reader_wants_none(
    stage: Stage,
) -> None:
    looks = []
    for steps in (20, 600, 601):
        stage.draw(replace(beat_of(toggled(("ps",), steps=steps)), n_rows=steps))
        looks.append(type(stage.view.loss.figure.y_scale))
        stage.view.log.value = stage.view.log.value and steps < 600

    assert looks == [LinearScale, LogScale, LinearScale]


def test_a_page_that_was_building_its_view_gets_the_logarithmic_scale_too(
    stage: Stage,
) -> None:
    page = as_sent(stage.models[0])
    stage.draw(beat_of(toggled(("ps",), steps=600)))  # which the page drops
    stage.sent.clear()

    tell(stage.models[0], stage.view.loss.figure, "name", "light 0.5")
    page.document.apply_json_patch(json.loads(stage.sent[2]["payload"]))

    assert isinstance(page.y_scale, LogScale)


def test_links_have_one_scale_until_a_reader_wants_one_for_each(stage: Stage) -> None:
    stage.draw(beats()[0])
    axis = stage.view.links.figure.yaxis[0]
    names = [*axis.major_label_overrides.values()]
    said = axis.axis_label

    stage.view.own_scales.value = True
    labels = [*axis.major_label_overrides.values()]

    assert said.startswith("each strip from 0 to ")
    assert axis.axis_label == "each strip from 0 to its MB/s"
    assert [name.rpartition(", ")[0] for name in labels] == names
    stage.view.own_scales.value = False
    assert [*axis.major_label_overrides.values()] == names


def agree_with_bokeh(stage: Stage) -> None:
    for model, plot in zip(stage.models, stage.plots, strict=True):
        made: Any = Document.from_json(plot.figure.document.to_json(deferred=False))
        assert written(as_sent(model).document) == written(made)


def written(document: Any) -> str:
    return str(serialize_json(document.to_json(deferred=False)))


def words(stage: Stage) -> list[Any]:
    return [getattr(widget, "value", "") for widget in tree(stage.view.root)]


def test_nothing_is_sent_when_nothing_is_new_or_before_it_is_due(stage: Stage) -> None:
    item, other = beats()
    stage.draw(item)
    stage.sent.clear()
    stage.view.draw(other)
    assert stage.sent == []

    stage.draw(other)
    stage.view.sign.value = ""  # the heartbeat goes on
    before = words(stage)
    assert stage.draw(other) == []
    stage.view.sign.value = ""
    assert words(stage) == before


def test_the_table_of_rates_is_filled_when_it_is_opened(stage: Stage) -> None:
    left, other = beats()
    view = stage.view
    stage.draw(left)
    assert view.twin.value == ""

    view.tabs.selected_index = 3
    first = view.twin.value
    moment = replace(other.moment, rates={(1, 0): 5.0})
    stage.draw(replace(other, moment=moment))

    assert "worker:0 to ps:0" in first
    assert view.twin.value not in ("", first)
