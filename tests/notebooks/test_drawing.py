"""The lessons' curves: where the points are, and what is said without a picture."""

from __future__ import annotations

import doctest
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from notebooks import drawing
from notebooks.drawing import Curves

BOTH = Curves(
    {"ps": [(2, 10), (4, 20)], "ring": [(2, 5), (4, 6)]},
    {"ps": [(2, 11), (4, 21)], "ring": [(2, 6), (4, 7)]},
    x="workers",
    y="ms a step",
)


def test_picture_is_valid_and_needs_no_script() -> None:
    tree = ET.fromstring(BOTH.svg())

    assert tree.get("role") == "img"
    assert "<script" not in BOTH._repr_html_()
    assert "ms a step by workers" in str(tree.get("aria-label"))


def test_every_point_is_inside_and_in_its_order() -> None:
    tree = ET.fromstring(BOTH.svg())
    lines = [
        str(element.get("points")) for element in tree.iter() if element.get("points")
    ]
    pairs = [[tuple(map(float, p.split(","))) for p in line.split()] for line in lines]

    assert len(pairs) == 2
    assert all(
        0 <= x <= drawing.WIDTH and 0 <= y <= drawing.HEIGHT
        for line in pairs
        for x, y in line
    )
    (left, low), (right, high) = pairs[0]
    assert left < right
    assert low > high  # ps grows, and pixels count downwards


def test_each_measured_point_has_a_mark() -> None:
    marks = re.findall(r"<circle |l7,7 l-7,7", BOTH.svg())

    assert len(marks) == 4


def test_names_at_the_edge_never_collide() -> None:
    alike = Curves({f"curve {k}": [(0, 1), (1, 1 + k / 100)] for k in range(4)})

    heights = [
        float(element.get("y") or 0)
        for element in ET.fromstring(alike.svg()).iter()
        if (element.text or "").startswith("curve ")
    ]

    assert len(heights) == 4
    steps = [b - a for a, b in pairwise(heights)]
    assert min(steps) >= 17


def test_text_tells_every_curve_and_few_points_of_long_ones() -> None:
    long = Curves({"loss": [(k, 1.0 / (k + 1)) for k in range(400)]}, x="step")

    assert repr(BOTH).splitlines()[1] == "ps, line: 2 -> 10, 4 -> 20"
    assert repr(BOTH).splitlines()[-1] == "ring, measured: 2 -> 6, 4 -> 7"
    assert 5 < repr(long).count("->") <= 13


def test_curve_of_zeros_and_single_points_can_be_drawn() -> None:
    for odd in (
        Curves({"zero": [(0, 0), (1, 0)]}),
        Curves({}, {"one": [(3, 2.5)]}),
        Curves({"below": [(-1, -2), (1, 3)]}),
    ):
        assert "nan" not in odd.svg()
        ET.fromstring(odd.svg())


def test_examples_of_the_drawing_hold() -> None:
    result = doctest.testmod(drawing)

    assert result.attempted
    assert not result.failed
