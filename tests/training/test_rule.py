"""An update does not see how the flat vector is cut, and refuses what does not fit."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import GradientMismatch, InvalidArgumentError
from kit.testing import check_optimizer
from kit.training.optimizers import rule
from kit.training.optimizers.rules import (
    Adagrad,
    Adam,
    GradientDescent,
    Momentum,
    Optimizer,
    RMSProp,
)
from tests.cases import for_each
from tests.training.flat import DTYPES, Array, new_slots, problem, trained

EVERY: list[Optimizer] = [
    GradientDescent(0.3),
    Momentum(0.3),
    Momentum(0.3, momentum=0.7, use_nesterov=True),
    Adagrad(0.3, initial_accumulator_value=0.2),
    RMSProp(0.03),
    RMSProp(0.03, decay=0.8, momentum=0.6, centered=True),
    Adam(0.03, beta1=0.8, beta2=0.99, epsilon=1e-6),
]


@given(
    which=st.integers(0, len(EVERY) - 1),
    dtype=st.sampled_from(DTYPES),
    cuts=st.lists(st.integers(0, 150), max_size=6),
    offset=st.integers(0, 9),
    piece=st.integers(9, 200),
    seed=st.integers(0, 2**32),
)
def test_cutting_the_vector_anywhere_changes_no_bit(
    which: int, dtype: Any, cuts: list[int], offset: int, piece: int, seed: int
) -> None:
    optimizer, n = EVERY[which], 150
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-8, 4, (4, n))
    start, *gradients = (rng.normal(size=(4, n)) * scale).astype(dtype)
    edges = [0, *sorted(cuts), n]

    whole = trained(optimizer, start, gradients)
    parts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "PIECE", piece)
        for lo, hi in pairwise(edges):
            moved = [np.empty(offset + hi - lo, dtype)[offset:] for _ in range(4)]
            for copy, original in zip(moved, (start, *gradients), strict=True):
                copy[:] = original[lo:hi]
            parts.append(trained(optimizer, moved[0], moved[1:]))

    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.slow
@for_each(
    "optimizer",
    [
        *(*EVERY, kit.LAMB(0.05), kit.LARS(0.05)),
        *(kit.Averaged(kit.Adam(0.01), 0.9), kit.DelayCompensated(kit.Adam(0.1))),
    ],
)
def test_rule_is_what_a_training_takes_it_for(optimizer: Optimizer) -> None:
    check_optimizer(optimizer)


@for_each("optimizer", EVERY)
def test_memory_used_does_not_grow_with_the_array(optimizer: Optimizer) -> None:
    start, gradients = problem(np.float32, n=8 * rule.PIECE, steps=1)
    slots = new_slots(optimizer, start)

    tracemalloc.start()
    try:
        optimizer.apply(start, gradients[0], slots, start, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 1.2 * rule.PIECE * start.itemsize


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("gradient", "part"),
    [
        (floats(3), r"float32\[3\].*float32\[4\]"),
        (floats(4, dtype=np.float64), r"float64\[4\].*float32\[4\]"),
    ],
)
def test_gradient_that_does_not_fit_is_a_gradient_mismatch(
    gradient: Array, part: str
) -> None:
    value = floats(4)

    with pytest.raises(GradientMismatch, match=part):
        GradientDescent().apply(value, gradient, [], value, 0)


READ_ONLY = floats(4)
READ_ONLY.flags.writeable = False


@for_each(
    ("arguments", "part"),
    [
        ((floats(2, 2), floats(2, 2), [floats(2, 2)], floats(2, 2), 0), "1-d"),
        ((floats(8)[::2], floats(4), [floats(4)], floats(4), 0), "contiguous: False"),
        ((floats(4), floats(8)[::2], [floats(4)], floats(4), 0), "gradient is"),
        ((np.zeros(4, int), np.zeros(4, int), [floats(4)], floats(4), 0), "int64"),
        ((floats(4), floats(4), [], floats(4), 0), "needs 1 .momentum."),
        ((floats(4), floats(4), [floats(5)], floats(4), 0), r"slot 0 is float32\[5\]"),
        ((floats(4), floats(4), [floats(4)], floats(3), 0), r"out is float32\[3\]"),
        ((floats(4), floats(4), [floats(4)], READ_ONLY, 0), "out is read-only"),
        ((floats(4), floats(4), [READ_ONLY], floats(4), 0), "slot 0 is read-only"),
        ((floats(4), floats(4), [floats(4)], floats(4), -1), "step is -1"),
    ],
)
def test_misfit_is_refused_before_anything_is_written(
    arguments: tuple[Any, ...], part: str
) -> None:
    before = [np.copy(a) for a in (*arguments[:2], *arguments[2], arguments[3])]

    with pytest.raises(InvalidArgumentError, match=part):
        Momentum(0.1).apply(*arguments)

    after = (*arguments[:2], *arguments[2], arguments[3])
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
