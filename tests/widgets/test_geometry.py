"""Where tasks are and how arrows run, in plain arithmetic."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from tests.cases import for_each
from tests.widgets.scenes import overlap
from widgets.board.geometry import WIDTH, SceneLayout, TaskBox, layout, path
from widgets.board.run_state import Link


def names(ps: int, worker: int) -> list[str]:
    return [f"ps:{i}" for i in range(ps)] + [f"worker:{i}" for i in range(worker)]


def inside(box: TaskBox, layout: SceneLayout) -> bool:
    return (
        box.width / 2 <= box.x <= WIDTH - box.width / 2
        and box.height / 2 <= box.y <= layout.height - box.height / 2
    )


@for_each("topology", ["ps", "ring"])
@for_each(("ps", "worker"), [(1, 1), (1, 3), (2, 5), (3, 9), (1, 12), (1, 16)])
def test_no_two_tasks_overlap_and_none_is_cut_off(
    topology: str, ps: int, worker: int
) -> None:
    result = layout(names(ps, worker), topology)

    assert len(result.boxes) == ps + worker
    assert all(inside(box, result) for box in result.boxes)
    assert not any(overlap(*pair) for pair in combinations(result.boxes, 2))


@for_each("topology", ["ps", "ring", "hierarchical"])
@for_each("hosts", ["aaabb", "aabab", "abcde", "ababa"])
def test_tasks_stand_in_the_panel_of_their_host(topology: str, hosts: str) -> None:
    result = layout(names(1, 4), topology, hosts)

    assert all(inside(box, result) for box in result.boxes)
    assert not any(overlap(*pair) for pair in combinations(result.boxes, 2))
    panels = {panel.name: panel for panel in result.panels}
    assert panels.keys() == set(hosts)
    for box, host in zip(result.boxes, hosts, strict=True):
        panel = panels[host]
        assert panel.left <= box.x - box.width / 2
        assert box.x + box.width / 2 <= panel.left + panel.width
        assert panel.top < box.y - box.height / 2
        assert box.y + box.height / 2 < panel.top + panel.height


@for_each("topology", ["ps", "ps-async"])
def test_servers_stand_above_all_workers_and_one_host_has_no_panel(
    topology: str,
) -> None:
    result = layout(names(2, 4), topology)

    assert max(box.y for box in result.boxes[:2]) < min(b.y for b in result.boxes[2:])
    assert not result.idle
    assert layout(names(2, 4), topology, "aaaaaa") == result


def test_neighbours_on_the_ring_are_equally_far_in_angle() -> None:
    result = layout(names(0, 6), "ring")
    middle_x = sum(box.x for box in result.boxes) / 6
    middle_y = sum(box.y for box in result.boxes) / 6
    wide = max(box.x for box in result.boxes) - middle_x
    tall = max(box.y for box in result.boxes) - middle_y

    # An ellipse of which the widest points are 60 degrees from its top.
    scale = math.sin(math.pi / 3)
    for index, box in enumerate(result.boxes):
        angle = index * math.pi / 3
        assert (box.x - middle_x) / (wide / scale) == pytest.approx(
            math.sin(angle), abs=1e-6
        )
        assert (box.y - middle_y) / tall == pytest.approx(-math.cos(angle), abs=1e-6)


def test_a_server_without_a_part_in_the_ring_stands_aside() -> None:
    result = layout(names(2, 3), "ring")

    assert result.idle == {0, 1}
    assert {box.y for box in result.boxes[:2]} == {min(b.y for b in result.boxes)}
    assert not any(overlap(*pair) for pair in combinations(result.boxes, 2))


def test_arrows_of_both_directions_run_beside_each_other_through_their_ends() -> None:
    result = layout(names(1, 3), "ps")

    there, back = path(result, (0, 2)), path(result, (2, 0))

    # Two arrows at their widest and a gap.
    assert math.dist(there.middle(), back.middle()) > 20
    assert (there.at(0), there.at(1)) == (there.start, there.end)


@for_each(
    ("topology", "links"),
    [("ps", [(0, 1), (1, 0), (0, 4), (4, 0)]), ("ring", [(1, 2), (2, 3), (4, 1)])],
)
def test_an_arrow_begins_and_ends_beside_its_boxes(
    topology: str, links: list[Link]
) -> None:
    result = layout(names(1, 4), topology)

    for link in links:
        line = path(result, link)
        for box, (x, y) in ((link[0], line.start), (link[1], line.end)):
            here = result.boxes[box]
            beside = abs(x - here.x) / (here.width / 2 + 4)
            above = abs(y - here.y) / (here.height / 2 + 4)
            assert 1 - 1e-9 <= max(beside, above) < 1.25
