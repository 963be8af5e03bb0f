from __future__ import annotations

from itertools import pairwise

import pytest

from kit.trace.traffic import Phase
from tests.contrast import contrast
from widgets.drawing.theme import (
    PHASE_HATCH,
    PHASE_HEIGHT,
    TEXT_PX,
    THEMES,
    Theme,
    link_look,
    topology_hues,
)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_stands_out_from_every_background(theme: Theme) -> None:
    for ink in (theme.ink, theme.faint):
        for behind in (theme.background, theme.panel):
            assert contrast(ink, behind) >= 4.5


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_marks_stand_out_from_every_background(theme: Theme) -> None:
    for colour in (*theme.hues, *map(theme.phase, Phase)):
        for behind in (theme.background, theme.panel):
            assert contrast(colour, behind) >= 3
        assert contrast(theme.hatch, colour) >= 3


@pytest.mark.parametrize(
    ("color", "background", "ratio"),
    [
        ("#ffffff", "#ffffff", 1.0),
        ("#000000", "#ffffff", 21.0),
        ("#767676", "#ffffff", 4.54),  # the darkest grey known to pass on white
        ("#ff0000", "#ffffff", 4.0),
    ],
)
def test_contrast_is_that_of_the_published_examples(
    color: str, background: str, ratio: float
) -> None:
    assert contrast(color, background) == pytest.approx(ratio, abs=0.01)
    assert contrast(color, background) == contrast(background, color)


def test_phases_differ_by_more_than_their_colour() -> None:
    looks = {(PHASE_HATCH[phase], PHASE_HEIGHT[phase]) for phase in Phase}

    assert len(looks) == len(Phase)


def test_neighbouring_links_differ_in_colour_and_dash() -> None:
    styles = [link_look(position) for position in range(24)]

    assert len(set(styles)) == 24
    for row, following in pairwise(styles):
        assert row[0] != following[0]
        assert row[1] != following[1]


def test_topologies_have_colours_of_their_own_whatever_else_runs() -> None:
    hues = topology_hues(("tree", "ring", "star"))

    assert len({hues[name] for name in ("ps", "ring", "tree", "star")}) == 4
    assert hues["ring"] == topology_hues(())["ring"]


def test_no_text_is_smaller_than_twelve_pixels() -> None:
    assert TEXT_PX >= 12
