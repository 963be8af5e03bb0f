"""The picture of the topology, read back from its own text."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest

from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import Group
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import by_name, registered
from tests.cases import for_each
from tests.widgets.scenes import SVG, Seen, overlap
from widgets.board.geometry import TaskBox, layout, path
from widgets.board.labels import label_places
from widgets.board.run_state import Moment
from widgets.board.scene import arrow_width, scene

TASKS = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
BUSY = Moment(
    TASKS,
    rates={(0, 1): 2e6, (1, 0): 8e6, (0, 2): 0.0, (2, 0): 4e6},
    scale=8e6,
)


def words_of(moment: Moment) -> str:
    return Seen(moment).words


def test_an_arrow_is_as_wide_as_its_link_is_fast_and_shows_what_it_carries() -> None:
    result = Seen(BUSY)

    widths = {link: arrow.width for link, arrow in result.arrows.items()}
    assert widths == {"1-0": 13.0, "2-0": 7.2, "0-1": 4.4, "0-2": 1.5}
    assert result.arrows["1-0"].rate == 8e6
    # Gradients, parameters and silence look different.
    assert result.kinds == {"1-0": "ps-push", "2-0": "ps-push", "0-1": "ps-pull"} | {
        "0-2": "ps-still"
    }


def test_a_bar_is_as_long_as_the_share_of_what_a_link_can_carry() -> None:
    bars = re.findall(r'<rect class="ps-(pull|push)"[^>]*width="([\d.]+)"', scene(BUSY))
    rooms = re.findall(r'class="ps-trough"[^>]*width="([\d.]+)"', scene(BUSY))

    shares = [
        (kind, round(float(px) / float(rooms[0]), 2))
        for kind, px in bars
        if px != "0.0"
    ]
    assert shares == [
        *[("pull", 0.25), ("push", 1.0)],  # what the server sends, and receives
        *[("push", 1.0), ("pull", 0.25), ("push", 0.5)],  # and its workers
    ]


def test_a_rate_above_the_scale_fills_the_bar_and_no_more() -> None:
    assert arrow_width(9e9, 1e6) == arrow_width(1e6, 1e6)
    text = scene(replace(BUSY, scale=1e3))
    room = max(map(float, re.findall(r'ps-trough"[^>]*width="([\d.]+)"', text)))
    bars = map(float, re.findall(r'<rect class="ps-pu[^>]*width="([\d.]+)"', text))
    assert max(bars) <= room


def test_a_lost_task_is_named_in_its_box_and_has_no_bars() -> None:
    gone = replace(BUSY, lost={"worker:1": "/job:worker/task:1 is gone"})

    assert "worker:1 is gone" in words_of(gone)
    (width,) = re.findall(r'ps-lost"><rect[^>]* width="([\d.]+)"', scene(gone))
    (length,) = re.findall(r'ps-name"[^>]* textLength="([\d.]+)"', scene(gone))
    assert float(length) < float(width)
    assert scene(gone).count("ps-trough") == 4
    assert "ps-lost" in scene(gone)
    assert "is gone" not in words_of(BUSY)


def test_size_stays_the_same_when_the_topology_changes() -> None:
    views = {
        re.findall(
            r'viewBox="0 [-\d]+ (\d+ \d+)"', scene(replace(BUSY, topology=name))
        )[0]
        for name in ("ps", "ps-async", "ring", "mesh")
    }

    assert len(views) == 1


def test_the_picture_says_in_words_what_it_shows() -> None:
    assert Seen(BUSY).label == (
        "Topology ps with 3 tasks; the busiest link is worker:0 to ps:0 with 8.00 MB/s."
    )


def test_links_between_hosts_are_marked_and_told() -> None:
    result = replace(BUSY, hosts=("nodea", "nodea", "nodeb"))

    seen = Seen(result)
    far = {link for link, arrow in seen.arrows.items() if "ps-far" in arrow.kind}
    assert far == {"0-2", "2-0"}
    assert "worker:0 on nodea to ps:0 on nodea" in seen.label
    assert seen.label.endswith("Between the 2 hosts 4.00 MB/s are moving.")
    assert {"nodea", "nodeb"} <= set(seen.words.split())
    assert "ps-host" not in scene(BUSY)
    assert "<b>" not in scene(replace(BUSY, hosts=("<b>", "a", "b")))


def test_a_single_step_has_bytes_and_no_rates_at_its_arrows() -> None:
    still = dict.fromkeys(BUSY.rates, 0.0)
    bytes_of = dict.fromkeys(BUSY.rates, 9e3)

    said = words_of(replace(BUSY, state="paused", rates=still, per_step=bytes_of))

    assert "at arrows: bytes of the last step, each way" in said
    assert "9 kB" in said
    assert "MB/s" not in said.split("each way")[1]
    assert "full bar" not in said


def test_names_cannot_break_out_of_the_picture() -> None:
    bad = replace(BUSY, link='<script>"', topology='"><b>')

    Xml.fromstring(scene(bad))
    assert "<b>" not in scene(bad)


def test_labels_of_many_links_would_cover_each_other_and_are_left_out() -> None:
    tasks = tuple(f"/job:worker/task:{i}" for i in range(6))
    links = {(i, j): 1e6 for i in range(6) for j in range(6) if i != j}
    crowd = Moment(tasks, topology="mesh", rates=links, scale=1e6)

    assert "ps-rate" not in scene(crowd)
    assert scene(crowd).count("<title>worker:0 to worker:1: 1.00 MB/s</title>") == 1


@for_each("n_workers", [2, 7, 8, 15])
@for_each("topology", ["ps", "ring"])
def test_all_boxes_are_between_the_upper_edge_and_the_legend(
    topology: str, n_workers: int
) -> None:
    tasks = "/job:ps/task:0", *(f"/job:worker/task:{i}" for i in range(n_workers))
    moment = Moment(tasks, topology=topology, rates={(1, 0): 1e6}, scale=1e6)
    picture = Xml.fromstring(scene(moment))
    _, top, _, height = map(float, picture.get("viewBox", "").split())
    lines = picture.findall(f"{SVG}text[@class='ps-way']")
    boxes = picture.findall(f"{SVG}g/{SVG}rect")

    edges = [float(box.get("y", "nan")) for box in boxes]
    ends = [float(box.get("y", "nan")) + float(box.get("height", 0)) for box in boxes]
    legend = float(lines[0].get("y", "nan"))
    assert top <= min(edges)
    assert max(ends) < legend - 12 < top + height


def test_what_eight_workers_send_to_a_server_is_told_once() -> None:
    tasks = "/job:ps/task:0", *(f"/job:worker/task:{i}" for i in range(8))
    both = [link for worker in range(1, 9) for link in ((worker, 0), (0, worker))]
    rates = dict.fromkeys(both, 8e6) | {(0, 1): 7.5e6}
    crowd = Moment(tasks, rates=rates, per_step=dict.fromkeys(both, 104_488), scale=8e6)
    unequal = replace(crowd, per_step={**crowd.per_step, (1, 0): 90_000})
    uneven = replace(crowd, rates=rates | {(0, 1): 1e6})

    said = words_of(crowd)

    assert "each arrow: 104 kB a step, 7.97 MB/s" in said
    assert "ps-rate" not in scene(crowd)
    assert "each arrow" not in words_of(unequal)
    assert "each arrow: 104 kB a step" in words_of(uneven)
    assert "MB/s" not in words_of(uneven).split("each arrow")[1].split("full bar")[0]


@pytest.mark.slow
@for_each("topology", [item.name for item in registered()])
@for_each(("ps", "worker"), [(1, 1), (1, 2), (1, 3), (1, 4), (1, 6), (2, 2), (2, 3)])
def test_a_label_touches_no_task_no_arrow_and_no_other_label(
    topology: str, ps: int, worker: int
) -> None:
    names = [f"ps:{i}" for i in range(ps)] + [f"worker:{i}" for i in range(worker)]
    picture = layout(names, topology, height=440)
    parts = lay_out([Spec("w", (6000,), "float32")], worker)
    group = Group(tuple(range(ps)), tuple(range(ps, ps + worker)), shards_of(parts, ps))
    pairs = {frozenset(key[:2]) for key in by_name(topology).traffic(parts, group)}
    links = tuple(((a, b), (b, a)) for a, b in map(sorted, sorted(pairs, key=sorted)))

    places = label_places(picture, links, 76, 46) if links else {}

    labels = [TaskBox(x, y, 76, 46) for x, y in places.values()]
    lines = [path(picture, link) for pair in links for link in pair]
    points = [line.at(share / 40) for line in lines for share in range(41)]
    dots = [TaskBox(x, y, 10, 10) for x, y in points]
    for number, label in enumerate(labels):
        others = (*picture.boxes, *labels[:number], *dots)
        assert not any(overlap(label, other) for other in others)
    if ps == 1 and worker < 4:
        assert len(places) == len(links)
