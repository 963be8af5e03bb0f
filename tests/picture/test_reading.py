"""Which boxes and lines a graph has in its picture, and which are folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.picture.reading import BoxGroup, BoxPlace, fold, scene_of
from kit.picture.scene import BoxKind, Edge, GraphBox, Scene
from kit.testing.cluster import local_cluster
from tests.picture.sample import two_towers


@pytest.fixture(autouse=True)
def graph() -> Iterator[kit.Graph]:
    graph = kit.Graph()
    with graph.as_default():
        yield graph


def scene(x: Any, **options: Any) -> Scene:
    result: Scene = x.visualize(**options).scene
    return result


def titled(picture: Scene, title: str) -> GraphBox:
    (box,) = [box for box in picture.boxes if box.title == title]
    return box


def test_variable_stands_for_all_that_belongs_to_it(graph: kit.Graph) -> None:
    w = kit.Variable(np.zeros((2, 3), np.float32), name="w")
    np.square(w)

    result = scene(graph)

    assert [box.kind for box in result.boxes] == [BoxKind.VARIABLE, BoxKind.OP]
    assert result.boxes[0].detail == "[2, 3]"
    assert result.lines == (Edge("w", "Square"),)
    assert result.n_ops == len(graph.ops) > 2


def test_small_constant_is_written_into_its_only_user() -> None:
    x = kit.placeholder("float32", (None,), name="x")

    result = scene(x * 0.5)

    assert [box.title for box in result.boxes] == ["x", "Mul"]
    assert "(0.5)" in titled(result, "Mul").detail


def test_constant_with_two_users_has_a_box() -> None:
    half = kit.constant(0.5, name="half")

    result = scene(half * half + half)

    assert titled(result, "half").kind is BoxKind.CONSTANT


def test_picture_of_a_tensor_has_only_what_it_needs() -> None:
    a, b = kit.placeholder("float32", name="a"), kit.placeholder("float32", name="b")
    unused = b * a

    result = scene(np.tanh(a))

    assert {box.title for box in result.boxes} == {"a", "Tanh"}
    assert unused.op.name not in {box.key for box in result.boxes}


def test_tensor_arrives_once_on_a_task_however_many_use_it() -> None:
    with kit.device("/job:ps/task:0"):
        x = kit.placeholder("float32", (3,), name="x")
    with kit.device("/job:worker/task:0"):
        total = np.tanh(x) + np.square(x)

    result = scene(total)

    (arrival,) = [box for box in result.boxes if box.kind is BoxKind.ARRIVAL]
    assert (arrival.origin, arrival.lane) == ("ps:0", "worker:0")
    assert [line for line in result.lines if line.is_bold] == [
        Edge("x", arrival.key, is_bold=True)
    ]
    users = {line.target for line in result.lines if line.source == arrival.key}
    assert users == {"Tanh", "Square"}


def test_op_that_waits_for_another_is_joined_by_a_control_line() -> None:
    first = kit.identity(kit.constant([1.0, 2.0, 3.0, 4.0, 5.0]), name="first")
    with kit.control_dependencies([first]):
        then = kit.group(name="then")

    assert Edge("first", "then", is_control=True) in scene(then).lines


def test_names_of_gradients_differ_from_those_of_the_forward_ops() -> None:
    x = kit.placeholder("float32", (2, 2), name="x")
    (gradient,) = kit.gradients(x @ x, [x])

    titles = [box.title for box in scene(gradient).boxes]

    assert any(title.startswith("∇ MatMul") for title in titles)
    assert len(titles) == len(set(titles))


def test_scopes_are_folded_beyond_the_number_of_boxes_that_is_asked_for() -> None:
    x = kit.placeholder("float32", (2,), name="x")
    with kit.name_scope("deep"):
        y: Any = x
        for _ in range(10):
            y = np.tanh(y)

    result = scene(y, max_nodes=5)

    assert {box.title for box in result.boxes} == {"x", "deep/"}
    assert titled(result, "deep/").detail == "10 ops"
    assert result.lines == (Edge("x", titled(result, "deep/").key),)


def test_accelerator_is_written_into_the_box() -> None:
    with kit.device("/job:worker/task:0/device:GPU:1"):
        x = kit.constant(np.zeros(9, np.float32), name="x")

    result = scene(x)

    assert "GPU:1" in titled(result, "x").detail
    assert titled(result, "x").lane == "worker:0"


def test_metadata_give_the_bytes_and_what_did_not_run() -> None:
    towers, step = two_towers()
    with local_cluster(1, 2) as cluster, towers.as_default():
        unrelated = step * 2.0
        with kit.Session(cluster.servers[1]) as session:
            session.run(kit.initialize_all())
            names = ("tower_0/x:0", "tower_1/x:0")
            feeds = dict.fromkeys(names, np.ones((2, 4), np.float32))
            metadata = kit.RunMetadata()
            session.run(step, feeds, metadata=metadata)

    result = scene_of(towers.ops, metadata)

    w_bytes = 4 * 3 * 4
    arrivals = [b for b in result.boxes if b.kind is BoxKind.ARRIVAL and not b.is_faint]
    assert len(arrivals) == 4  # w to two workers, two gradients to ps
    assert all(box.title.endswith(f"{w_bytes} B") for box in arrivals)
    faint = {box.key for box in result.boxes if box.is_faint}
    assert unrelated.op.name in faint
    assert step.op.name not in faint
    assert "w" not in faint
    assert not {"tower_0/MatMul", "tower_1/MatMul"} & faint


def test_ops_are_shown_where_they_really_ran() -> None:
    x = kit.placeholder("float32", (2,), name="x")
    y = np.tanh(x)
    metadata = kit.RunMetadata()
    with kit.Session() as session:
        session.run(y, {x: [1.0, 2.0]}, metadata=metadata)

    assert scene(y).lanes == ("not placed",)
    assert titled(scene(y, metadata=metadata), "Tanh").lane == "localhost:0"


def test_tip_tells_name_place_and_time() -> None:
    y = np.tanh(kit.placeholder("float32", (2,), name="x"))
    metadata = kit.RunMetadata()
    with kit.Session() as session:
        session.run(y, {"x:0": [1.0, 2.0]}, metadata=metadata)

    tip = titled(scene(y, metadata=metadata), "Tanh").tip

    assert "'Tanh'" in tip
    assert " ms" in tip


def places(*names: str, lane: str = "ps:0") -> list[BoxPlace]:
    return [BoxPlace(name, lane) for name in names]


def n_boxes(groups: list[BoxGroup | None]) -> int:
    return len({item for item in groups if item is not None}) + groups.count(None)


def test_few_boxes_stay_as_they_are() -> None:
    assert fold(places("a/x", "a/y", "b"), 3) == [None, None, None]


def test_scope_on_two_tasks_becomes_two_boxes() -> None:
    names = [f"train/{i}" for i in range(10)]
    result = fold([*places(*names), *places(*names, lane="worker:0")], 5)

    assert set(result) == {BoxGroup("train", "ps:0"), BoxGroup("train", "worker:0")}


def test_small_scope_is_opened_before_a_large_one() -> None:
    large, small = [f"large/{i}" for i in range(20)], [f"small/{i}" for i in range(5)]

    result = fold(places(*large, *small), 10)

    assert set(result[:20]) == {BoxGroup("large", "ps:0")}
    assert result[20:] == [None] * 5


def test_scopes_of_one_size_are_opened_all_or_none() -> None:
    towers = [f"tower_{t}/{i}" for t in range(3) for i in range(5)]

    result = fold(places(*towers), 14)

    assert [group.scope for group in result if group] == [name[:7] for name in towers]


def test_scope_within_a_scope_stays_folded_when_there_is_no_room() -> None:
    names = ["a/x", "a/y", *(f"a/deep/{i}" for i in range(9))]

    result = fold(places(*names), 5)

    assert result == [None, None, *[BoxGroup("a/deep", "ps:0")] * 9]


def test_ops_without_scopes_are_folded_in_the_order_in_which_they_were_made() -> None:
    result = fold(places(*(f"Add_{i}" for i in range(100))), 10)

    numbers = [group.number for group in result if group is not None]
    assert len(numbers) == 100
    assert numbers == sorted(numbers)
    assert 5 <= n_boxes(result) <= 10


def test_one_op_and_a_scope_of_the_same_name_do_not_meet() -> None:
    result = fold(places("w", *(f"w/{i}" for i in range(9))), 4)

    assert result == [None, *[BoxGroup("w", "ps:0")] * 9]


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join),
            st.sampled_from(["ps:0", "worker:0"]),
        ),
        max_size=60,
    ),
    st.integers(1, 30),
)
def test_only_boxes_of_one_scope_and_task_are_folded_together(
    given_places: list[tuple[str, str]], most: int
) -> None:
    boxes = [
        BoxPlace(f"{name}/{i}", lane) for i, (name, lane) in enumerate(given_places)
    ]

    result = fold(boxes, most)

    for position, group in zip(boxes, result, strict=True):
        if group is not None:
            assert group.lane == position.lane
            assert position.name.startswith(f"{group.scope}/" if group.scope else "")
    folded_scopes = {(index.name.split("/")[0], index.lane) for index in boxes}
    assert n_boxes(result) <= max(most, len(folded_scopes))


@pytest.mark.parametrize("most", [1, 2, 7])
def test_runs_of_ops_do_not_exceed_one_box_a_task_by_much(most: int) -> None:
    boxes = [BoxPlace(f"Add_{i}", f"worker:{i % 3}") for i in range(90)]

    assert n_boxes(fold(boxes, most)) <= max(most, 3)
