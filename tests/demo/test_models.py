"""The demonstration's gradients and data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kit.demo.digits import digits_mlp
from kit.demo.text import CONTEXT, TextStep, text_model

Array = npt.NDArray[Any]
Gradients = tuple[float, dict[str, Array]]


def drained(step: TextStep, params: dict[str, Array], batch: Any) -> Gradients:
    handed: dict[str, Array] = {}
    gradients = step(params, batch)
    while True:
        try:
            name, value = next(gradients)
        except StopIteration as end:
            return float(end.value), handed
        handed[name] = value


def check_gradients(
    step: Callable[[dict[str, Array]], Gradients], params: dict[str, Array]
) -> None:
    """Compare with central differences in float64, at a few places of each."""
    wide = {name: value.astype(np.float64) for name, value in params.items()}
    _, gradients = step(wide)
    dice = np.random.default_rng(0)
    for name, value in wide.items():
        steep = np.argsort(-np.abs(gradients[name]).ravel())[:3]
        for position in {*steep.tolist(), int(dice.integers(value.size))}:
            ends = []
            for shift in (1e-6, -1e-6):
                moved = {**wide, name: value.copy()}
                moved[name].flat[position] += shift
                ends.append(step(moved)[0])
            slope = (ends[0] - ends[1]) / 2e-6
            assert gradients[name].flat[position] == pytest.approx(
                slope, rel=1e-4, abs=1e-7
            )


def test_digits_gradients_agree_with_finite_differences() -> None:
    model = digits_mlp(seed=1, hidden=16)
    batch = tuple(part[:20] for part in model.train)

    check_gradients(lambda params: model.step(params, batch)[:2], model.params)


def test_text_gradients_agree_with_finite_differences() -> None:
    model = text_model(seed=1, max_bytes=5000)
    small = {
        "embedding": model.params["embedding"][:, :4].copy(),
        "w1": model.params["w1"][: CONTEXT * 4, :8].copy(),
        "b1": model.params["b1"][:8].copy() + 0.5,
        "w2": model.params["w2"][:8].copy(),
        "b2": model.params["b2"].copy(),
    }
    starts = (np.arange(6) * 100,)

    check_gradients(lambda params: drained(model.step, params, starts), small)


def test_every_fifth_digit_is_held_out() -> None:
    model = digits_mlp()

    assert len(model.train[1]) == 1438
    assert len(model.test[1]) == 359
    seen = {image.tobytes() for image in model.train[0]}
    shared = sum(image.tobytes() in seen for image in model.test[0])
    assert shared <= 1  # the data set holds a few images twice


def test_the_text_model_has_two_million_parameters() -> None:
    model = text_model(max_bytes=10_000)

    assert sum(value.size for value in model.params.values()) >= 2_000_000


def test_the_text_is_the_standard_librarys_source() -> None:
    model = text_model(max_bytes=200_000)

    assert b"def " in model.step.text.tobytes()
    assert len(model.train[0]) == 200_000 - CONTEXT
