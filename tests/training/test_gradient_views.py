"""The arrays that a step writes its gradients to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit.errors import GradientMismatch
from kit.exchange.layout import Spec, lay_out
from kit.exchange.ports.memory import Memory
from kit.training.worker.gradient_views import GradientViews, Marks
from kit.training.worker.worker import requested

SPECS = [Spec("w", (2, 3), "float32"), Spec("b", (3,), "float64")]


def memory() -> Memory:
    return Memory(lay_out(SPECS, n_workers=2))


def test_only_a_parameter_called_grads_asks_for_places() -> None:
    class Step:
        def __call__(self, params: Any, batch: Any, *, grads: Any) -> float:
            return 0.0

    def rest(params: Any, batch: Any, **grads: Any) -> float:
        return 0.0

    assert requested(Step()) == {"grads"}
    assert not requested(rest)
    assert not requested(max)


def test_assignment_copies_into_the_place() -> None:
    regions = memory()
    places = GradientViews(regions.gradients())

    places["w"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    places["b"] += 2.0
    places.update(b=np.array([1.0, 2.0, 3.0]))

    assert regions.gradients()["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert regions.gradients()["b"].tolist() == [1, 2, 3]


def test_assignment_of_another_shape_or_dtype_names_the_gradient() -> None:
    places = GradientViews(memory().gradients())

    with pytest.raises(GradientMismatch, match=r"the gradient of 'w'.*\[3, 2\]"):
        places["w"] = np.zeros((3, 2), np.float32)
    with pytest.raises(GradientMismatch, match="float64"):
        places["w"] = np.zeros((2, 3))


def test_place_cannot_be_taken_away() -> None:
    places = GradientViews(memory().gradients())

    with pytest.raises(TypeError, match="write into them"):
        del places["w"]
    with pytest.raises(TypeError, match="write into them"):
        places.pop("w")
    with pytest.raises(TypeError, match="write into them"):
        places.clear()
    with pytest.raises(TypeError, match="write into them"):
        places.setdefault("v", np.zeros(3, np.float32))
    assert list(places) == ["w", "b"]


def test_union_with_gradients_copies_them_in() -> None:
    regions = memory()
    places = GradientViews(regions.gradients())
    same = places

    places |= {"b": np.array([1.0, 2.0, 3.0])}

    assert places is same
    assert regions.gradients()["b"].tolist() == [1, 2, 3]


def test_only_a_gradient_into_which_nothing_was_written_counts_as_left_out() -> None:
    regions = memory()
    marks, places = Marks(regions), regions.gradients()

    marks.set()
    places["w"][1] = np.nan  # a row other than the first

    assert marks.unset() == ["b"]
    assert places["w"][0].tolist() == [0, 0, 0]


def test_what_a_step_does_not_write_or_adds_to_begins_at_zero() -> None:
    regions = memory()
    marks, places = Marks(regions), regions.gradients()
    places["w"][...] = 7.0  # of the step before
    places["b"][...] = 7.0

    marks.set()
    places["w"][0] = 1.0
    np.add.at(places["b"], [0, 2, 0], 1.5)

    assert marks.unset() == []
    assert places["w"].tolist() == [[1, 1, 1], [0, 0, 0]]
    assert places["b"].tolist() == [3, 0, 1.5]
