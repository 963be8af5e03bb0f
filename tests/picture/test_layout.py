"""Boxes are in their lanes, none on another, and lines keep clear of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kit.picture.layout import PictureLayout, Spot, lay_out
from kit.picture.scene import BoxKind, Edge, GraphBox, Scene
from tests.picture.sample import two_towers

LANES = ("ps:0", "worker:0", "worker:1")


def inside(spot: Spot, x: float, y: float) -> bool:
    return (
        abs(x - spot.x) < spot.width / 2 - 0.01
        and abs(y - spot.y) < spot.height / 2 - 0.01
    )


def points(layout: PictureLayout) -> list[tuple[float, float]]:
    """Points all along the lines, as they are drawn."""
    result = []
    for stretch in layout.stretches:
        (x1, y1), (x2, y2) = stretch.start, stretch.end
        middle = (y1 + y2) / 2
        for t in np.linspace(0, 1, 9):
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
            result.append(
                (
                    float((a + b) * x1 + (c + d) * x2),
                    float(a * y1 + (b + c) * middle + d * y2),
                )
            )
    return result


def check(scene: Scene, layout: PictureLayout) -> None:
    lanes = {name: (left, right) for name, left, right in layout.lanes}
    assert [name for name, _, _ in layout.lanes] == list(scene.lanes)
    for box in scene.boxes:
        spot, (left, right) = layout.spots[box.key], lanes[box.lane]
        assert left <= spot.x - spot.width / 2
        assert spot.x + spot.width / 2 <= right
        assert spot.y + spot.height / 2 <= layout.height
    for first, other in combinations(layout.spots.values(), 2):
        assert (
            abs(first.x - other.x) >= (first.width + other.width) / 2
            or abs(first.y - other.y) >= (first.height + other.height) / 2
        )
    spots = list(layout.spots.values())
    assert not [p for p in points(layout) if any(inside(spot, *p) for spot in spots)]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    boxes = [
        GraphBox(f"box{i}", draw(st.sampled_from(list(BoxKind))), lane, "x" * (i % 12))
        for i, lane in enumerate(
            draw(st.lists(st.sampled_from(LANES), min_size=1, max_size=9))
        )
    ]
    keys = st.sampled_from([box.key for box in boxes])
    pairs = draw(st.lists(st.tuples(keys, keys, st.booleans()), max_size=14))
    lines = tuple(
        Edge(a, b, is_control, is_bold=not is_control)
        for a, b, is_control in pairs
        if a != b
    )
    return Scene(tuple(boxes), lines, LANES, len(boxes))


@given(scenes())
def test_no_box_lies_on_another_and_no_line_behind_a_box(scene: Scene) -> None:
    check(scene, lay_out(scene))


def test_towers_are_laid_out_clearly() -> None:
    graph, _ = two_towers()
    picture = graph.visualize()

    check(picture.scene, picture.layout)


def test_every_line_ends_at_its_target() -> None:
    boxes = tuple(GraphBox(key, BoxKind.OP, "ps:0", key) for key in "abcd")
    lines = (Edge("a", "b"), Edge("b", "c"), Edge("c", "d"), Edge("a", "d"))

    layout = lay_out(Scene(boxes, lines, ("ps:0",), 4))

    heads = [stretch.end for stretch in layout.stretches if stretch.has_head]
    spot = layout.spots["d"]
    assert heads.count((spot.x, spot.y - spot.height / 2)) == 2
    assert len(heads) == 4


def test_line_against_the_stream_has_its_head_at_the_upper_box() -> None:
    boxes = tuple(GraphBox(key, BoxKind.OP, "ps:0", key) for key in "ab")
    scene = Scene(boxes, (Edge("a", "b"), Edge("b", "a")), ("ps:0",), 2)

    layout = lay_out(scene)

    assert layout.spots["a"].y != layout.spots["b"].y
    assert len([stretch for stretch in layout.stretches if stretch.has_head]) >= 1


def test_nothing_has_a_layout_too() -> None:
    layout = lay_out(Scene((), (), (), 0))

    assert not layout.spots
    assert layout.width == 0
