"""What `kit.train` does not take as a loss or as its data, and what it says then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.graph.ops.state.source import constant, placeholder
from kit.graph.variable import Variable
from kit.testing.cluster import LocalCluster
from kit.training.features.graph_step.loss import work_of
from tests.cases import for_each
from tests.training.toy import DATA, fit

ROWS = np.zeros((8, 3), np.float32)


class Scene:
    """A graph with a placeholder, a trained variable and a loss."""

    def __init__(self) -> None:
        self.x = placeholder("float32", (None, 3), name="x")
        self.w = Variable(np.ones(3, np.float32), name="w")
        self.loss: Tensor = (self.x * self.w).sum(axis=1).mean()


def counted(scene: Scene) -> Any:
    step = Variable(np.float32(0), trainable=False, name="global_step")
    return scene.loss * step, {scene.x: ROWS}


def assigning(scene: Scene) -> Any:
    average = Variable(np.float32(0), trainable=False, name="average")
    update = average.assign_add(1.0, name="update")
    with scene.x.graph.control_dependencies([update]):
        return scene.loss * 2.0, {scene.x: ROWS}


def behind_a_stop(scene: Scene) -> Any:
    frozen = Variable(np.float32(2), name="frozen")
    with scene.x.graph.control_dependencies([frozen]):
        stopped = np.floor(frozen)
    return scene.loss * stopped, {scene.x: ROWS}


def another_placeholder(scene: Scene) -> Any:
    scale = placeholder("float32", (), name="scale")
    return scene.loss * scale, {scene.x: ROWS}


CASES: dict[str, tuple[Callable[[Scene], Any], list[str]]] = {
    "a variable that is not trained": (counted, ["'global_step'", "does not train"]),
    "an update beside the loss": (assigning, ["'update'", "AssignAdd", "minimize()"]),
    "no gradient to a variable": (behind_a_stop, ["'frozen'"]),
    "a placeholder without data": (another_placeholder, ["'scale'", "dict"]),
    "several numbers": (lambda s: (s.x * s.w, {s.x: ROWS}), ["not a single number"]),
    "data without placeholders": (lambda s: (s.loss, (ROWS,)), ["tuple", "{x: images"]),
    "no data": (lambda s: (s.loss, {}), ["dict"]),
    "a list": (lambda s: (s.loss, {s.x: [1.0]}), ["list", "an array"]),
    "a name as key": (lambda s: (s.loss, {"x": ROWS}), ["'x'", "placeholders"]),
    "rows of another size": (
        lambda s: (s.loss, {s.x: ROWS[:, :2]}),
        ["'x:0'", "[?, 3]", "[8, 2]"],
    ),
}


@for_each(("make", "words"), CASES.values(), ids=CASES)
def test_loss_or_data_that_cannot_be_compiled_is_refused_by_name(
    make: Callable[[Scene], Any], words: list[str]
) -> None:
    with Graph().as_default():
        loss, data = make(Scene())

        with pytest.raises(InvalidArgumentError) as caught:
            work_of(loss, data)

    assert all(word in str(caught.value) for word in words), caught.value


def test_loss_of_no_variable_is_refused() -> None:
    with Graph().as_default():
        scene = Scene()

        with pytest.raises(ValueError, match="'w:0'"):
            work_of(constant(1.0), {scene.x: ROWS})


def test_variable_of_integers_is_refused(cluster: LocalCluster) -> None:
    with Graph().as_default():
        scene = Scene()
        wide = Variable(np.ones(3, np.float16), name="half")
        loss = scene.loss + (wide.astype("float32")).sum()

        with pytest.raises(InvalidArgumentError, match="'half' is float16"):
            kit.train(loss, {scene.x: ROWS}, cluster=cluster)


@pytest.mark.slow
def test_placeholder_of_a_fixed_batch_is_refused_by_the_workers(
    cluster: LocalCluster,
) -> None:
    with Graph().as_default():
        x = placeholder("float32", (8, 3), name="x")
        loss = (x * Variable(np.ones(3, np.float32))).mean()
        run = kit.train(loss, {x: ROWS}, batch=8, steps=1, cluster=cluster)

        with pytest.raises(InvalidArgumentError, match=r"'x'.*\[8, 3\].*\[4, 3\]"):
            run.wait(10)


@pytest.mark.slow
def test_op_that_fails_on_a_worker_is_named(cluster: LocalCluster) -> None:
    with Graph().as_default():
        x = placeholder("float32", (None,), name="x")
        w = Variable(np.ones((2, 2), np.float32), name="w")
        loss = (w @ x.reshape(2, -1)).mean()
        run = kit.train(loss, {x: np.zeros(6)}, batch=6, steps=1, cluster=cluster)

        with pytest.raises(kit.errors.KitError, match=r"'Reshape'"):
            run.wait(10)


def test_session_is_for_a_tensor_alone(cluster: LocalCluster) -> None:
    with pytest.raises(InvalidArgumentError, match="session="):
        kit.train(
            fit,
            {"w": np.zeros(3)},
            DATA,
            session=object(),  # type: ignore[call-overload]  # wrong on purpose
            cluster=cluster,
        )
