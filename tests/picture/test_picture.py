"""A picture in the hands of its user."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.picture import picture_of
from tests.picture.sample import two_towers


@pytest.fixture(autouse=True)
def graph() -> Iterator[kit.Graph]:
    graph = kit.Graph()
    with graph.as_default():
        yield graph


def test_file_holds_what_the_notebook_shows(tmp_path: Path) -> None:
    graph, _ = two_towers()

    picture = graph.visualize(tmp_path / "graph.svg")
    graph.visualize(str(tmp_path / "graph.html"))

    written = (tmp_path / "graph.svg").read_text("utf-8")
    assert written == picture._repr_svg_()
    assert ElementTree.fromstring(written).tag.endswith("svg")
    assert written in (tmp_path / "graph.html").read_text("utf-8")
    assert written in picture._repr_html_()


@pytest.mark.parametrize("name", ["graph.png", "graph", "graph.dot"])
def test_other_kind_of_file_is_refused_with_a_way_out(
    graph: kit.Graph, tmp_path: Path, name: str
) -> None:
    kit.constant(1.0)

    with pytest.raises(InvalidArgumentError, match=r"\.svg or \.html.*\.png"):
        graph.visualize(tmp_path / name)

    assert list(tmp_path.iterdir()) == []


def test_tensor_shows_itself_and_what_it_needs() -> None:
    total: Any = np.tanh(kit.placeholder("float32", (2,), name="x"))

    html = total._repr_html_()

    assert "&lt;tensor &#39;Tanh:0&#39;" in html
    assert ">x</text>" in html


def test_empty_graph_shows_itself_too(graph: kit.Graph) -> None:
    assert "graph of 0 ops" in str(graph._repr_html_())
    assert "svg" in graph.visualize().svg


def test_variables_ops_lists_and_missing_gradients_can_be_drawn() -> None:
    w = kit.Variable([1.0, 2.0], name="w")
    x = kit.placeholder("float32", (2,), name="x")
    gradients = kit.gradients(w * 2.0, [w, x])

    assert gradients[1] is None
    result = picture_of([w, w.initializer, gradients])

    assert {"w", "∇ Mul"} <= {box.title for box in result.scene.boxes}


@pytest.mark.parametrize("wrong", [3, "w:0", [object()]])
def test_what_is_no_part_of_a_graph_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="not part of a graph"):
        picture_of(wrong)


def test_tensors_of_two_graphs_are_refused() -> None:
    here = kit.constant(1.0)
    with kit.Graph().as_default():
        there = kit.constant(1.0)

    with pytest.raises(ValueError, match="several"):
        picture_of([here, there])


def test_no_boxes_at_all_are_refused(graph: kit.Graph) -> None:
    with pytest.raises(InvalidArgumentError, match="max_nodes is 0"):
        graph.visualize(max_nodes=0)


def test_picture_says_in_words_what_it_shows() -> None:
    graph, _ = two_towers()

    assert repr(graph.visualize()) == (
        f"<picture: graph of {len(graph.ops)} ops on worker:0, ps:0, worker:1; "
        f"4 transfers between tasks>"
    )


@pytest.mark.slow
@pytest.mark.parametrize("has_scopes", [True, False])
def test_picture_of_two_thousand_ops_is_there_at_once(
    graph: kit.Graph, has_scopes: bool
) -> None:
    chance = np.random.default_rng(0)
    tensors = [kit.constant(np.ones(9, np.float32))]
    for i in range(200):
        scope = f"layer_{i // 20}/block_{i}/" if has_scopes else None
        with kit.device(f"/job:worker/task:{i % 3}"), kit.name_scope(scope):
            for _ in range(10):
                first, second = chance.integers(
                    max(0, len(tensors) - 30), len(tensors), 2
                )
                tensors.append(tensors[first] + tensors[second])

    begin = time.process_time()
    picture = graph.visualize()
    size = len(picture.svg)
    spent_s = time.process_time() - begin

    assert len(graph.ops) > 2000
    assert len(picture.scene.boxes) < 300
    assert size < 1_000_000
    assert spent_s < 0.6  # 0.1 s on a machine with nothing else to do
