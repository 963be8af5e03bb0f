"""What is drawn can be distinguished: contrast by WCAG 2, and colour blindness.

The matrices are those of Machado, Oliveira and Fernandes, "A physiologically-based
model for simulation of color vision deficiency", 2009, at full severity.
"""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest

from kit.trace.traffic import Phase
from tests.cases import for_each
from tests.contrast import contrast
from widgets.drawing.looks import colours, style
from widgets.drawing.theme import (
    DARK,
    LIGHT,
    PHASE_HATCH,
    PHASE_HEIGHT,
    TEXT_PX,
    THEMES,
    Theme,
    link_look,
    topology_hues,
)

Floats = npt.NDArray[np.float64]
VISIONS = {
    "all cones": np.eye(3),
    "no red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no blue": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
by_theme = for_each("theme", THEMES, ids=lambda theme: theme.name)
by_vision = for_each("vision", VISIONS)


def channels(colour: str) -> Floats:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def seen(colour: str, vision: str) -> Floats:
    """Return a colour in CIE Lab as a person sees it."""
    value = channels(colour)
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    cones = np.clip(VISIONS[vision] @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722]]
    xyz = np.array([*to_xyz, [0.0193, 0.1192, 0.9505]]) @ cones
    ratio = xyz / [0.9505, 1.0, 1.089]
    dark = (24389 / 27 * ratio + 16) / 116
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), dark)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def differ(left: str, right: str, vision: str) -> float:
    """Return how far apart two colours are; 2.3 can just be noticed side by side."""
    return float(np.linalg.norm(seen(left, vision) - seen(right, vision)))


def over(colour: str, ground: str, share: float) -> str:
    """Return what a colour of some opacity gives on a ground."""
    mixed = share * channels(colour) + (1 - share) * channels(ground)
    return "#" + "".join(f"{round(255 * value):02x}" for value in mixed)


def opacity(selector: str, name: str = "opacity") -> float:
    """Return what the style sheet says of a selector."""
    (rule,) = re.findall(re.escape(selector) + r" \{([^}]*)\}", style())
    (result,) = re.findall(rf"(?<!-){name}: ([.\d]+)", rule)
    return float(result)


def test_differences_of_colour_are_those_of_known_pairs() -> None:
    assert differ("#000000", "#ffffff", "all cones") == pytest.approx(100, abs=0.5)
    assert differ("#00ff00", "#ff0000", "all cones") > 150
    blind = [differ("#b06a5f", "#7c7d5a", vision) for vision in ("all cones", "no red")]
    assert blind[1] < 0.5 * blind[0]  # a red and a green of the same lightness


@by_theme
@by_vision
def test_colours_differ_for_every_eye(theme: Theme, vision: str) -> None:
    _, push, pull, *_ = theme.hues
    assert differ(push, pull, vision) > 30

    looks = [link_look(position) for position in range(12)]  # as many are drawn
    shown = [(theme.colour(name), dash) for name, dash in looks]
    for (colour, dash), (other, same) in combinations(shown, 2):
        assert dash != same or differ(colour, other, vision) > 15


@by_theme
def test_text_stands_out_from_what_is_behind_it(theme: Theme) -> None:
    alarm, complete = theme.hues[4], theme.hues[2]
    shade = opacity(".ps-chart .ps-region")

    for behind in (theme.background, theme.panel):
        for ink in (theme.ink, theme.faint, complete):
            assert contrast(ink, behind) >= 4.5
    for hue in theme.hues:  # of each topology
        assert contrast(theme.ink, over(hue, theme.background, shade)) >= 4.5
    assert f"--ps-alarm: {alarm};" in colours(theme)  # of the name of a lost task
    assert contrast(alarm, theme.panel) >= 4.5


@by_theme
def test_marks_stand_out_from_what_is_behind_them(theme: Theme) -> None:
    _, push, pull, *_ = theme.hues
    thin = opacity(".ps-arrow path")
    band = over(theme.faint, theme.background, opacity(".ps-chart .ps-band"))
    tint = opacity(".ps-chart .ps-strip", "fill-opacity")

    for colour in (*theme.hues, *map(theme.phase, Phase)):
        for behind in (theme.background, theme.panel):
            assert contrast(colour, behind) >= 3
        assert contrast(theme.hatch, colour) >= 3
    for colour in (push, pull, theme.faint):
        assert contrast(over(colour, theme.background, thin), theme.background) >= 3
    for colour in (push, pull):
        assert contrast(colour, theme.grid) >= 3  # a bar in its trough
    assert contrast(theme.ink, band) >= 3
    for hue in theme.hues:
        assert contrast(hue, over(hue, theme.background, tint)) >= 3


@for_each(
    ("color", "background", "ratio"),
    [
        ("#ffffff", "#ffffff", 1.0),
        ("#000000", "#ffffff", 21.0),
        ("#767676", "#ffffff", 4.54),  # the darkest grey that passes on white
        ("#ff0000", "#ffffff", 4.0),
    ],
)
def test_contrast_is_that_of_the_published_examples(
    color: str, background: str, ratio: float
) -> None:
    assert contrast(color, background) == pytest.approx(ratio, abs=0.01)
    assert contrast(color, background) == contrast(background, color)


def test_phases_links_and_topologies_have_looks_of_their_own() -> None:
    links = [link_look(position) for position in range(24)]
    hues = topology_hues(("tree", "ring", "star"))

    assert len({(PHASE_HATCH[p], PHASE_HEIGHT[p]) for p in Phase}) == len(Phase)
    assert len(set(links)) == 24
    for row, following in pairwise(links):
        assert row[0] != following[0]
        assert row[1] != following[1]
    assert len({hues[name] for name in ("ps", "ring", "tree", "star")}) == 4
    assert hues["ring"] == topology_hues(())["ring"]


def test_every_colour_that_the_sheet_uses_is_defined_in_both_themes() -> None:
    used = set(re.findall(r"var\((--[\w-]+)\)", style()))

    for theme in THEMES:
        assert used <= set(re.findall(r"(--[\w-]+):", colours(theme)))


def test_the_sheet_is_light_first_and_dark_where_the_page_says_so() -> None:
    sheet = style()

    assert sheet.index(LIGHT.background) < sheet.index(DARK.background)
    for word in ("prefers-color-scheme: dark", 'data-jp-theme-light="false"'):
        assert DARK.background in sheet[sheet.index(word) :]


def test_no_text_of_the_sheet_is_smaller_than_twelve_pixels() -> None:
    sizes = re.findall(r"(?:font|font-size):[^;]*?([\d.]+)px", style())

    assert len(sizes) > 8
    assert min(TEXT_PX, *map(float, sizes)) >= 12


def test_every_rule_is_about_the_board_alone() -> None:
    sheet = re.sub(r"@(media|container)[^{]*\{", "", style())
    selectors = [
        item for rule in re.findall(r"([^{}]+)\{", sheet) for item in rule.split(",")
    ]

    assert len(selectors) > 40
    assert all(".ps-" in selector for selector in selectors)
