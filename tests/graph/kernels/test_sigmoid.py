"""The logistic function and its relatives hold at any size of input, without warnings.

The expected values come from the standard library, in double precision.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kit.errors import InvalidArgumentError
from kit.graph.kernels.sigmoid import sigmoid, sigmoid_cross_entropy, softplus
from tests.cases import for_each
from tests.graph.kernels.slopes import host

SPAN = [-1e4, -745.0, -90.0, -20.0, -1.0, -1e-9, 0.0, 1e-9, 0.5, 20.0, 710.0, 1e4]
PRECISION = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}


def expected_sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def expected_softplus(x: float) -> float:
    return x + math.log1p(math.exp(-x)) if x >= 0 else math.log1p(math.exp(x))


@for_each("dtype", PRECISION)
@for_each(
    ("kernel", "expected"), [(sigmoid, expected_sigmoid), (softplus, expected_softplus)]
)
def test_values_hold_from_minus_to_plus_ten_thousand(
    xp: ModuleType, kernel: Any, expected: Any, dtype: str
) -> None:
    x = np.array(SPAN, dtype)

    y = kernel(xp, xp.asarray(x))

    tiny = float(np.finfo(np.dtype(dtype)).smallest_subnormal)
    wanted = [expected(float(number)) for number in x]
    np.testing.assert_allclose(host(y), wanted, rtol=PRECISION[dtype], atol=2 * tiny)
    assert y.dtype.name == dtype


@pytest.mark.parametrize("kernel", [sigmoid, softplus])
def test_value_without_axes_is_welcome(xp: ModuleType, kernel: Any) -> None:
    y = kernel(xp, xp.asarray(np.float32(-2.0)))

    assert y.shape == ()
    assert float(y) == pytest.approx(float(kernel(np, np.array([-2.0]))[0]), rel=1e-6)


@pytest.mark.parametrize("kernel", [sigmoid, softplus])
def test_nan_stays_nan(xp: ModuleType, kernel: Any) -> None:
    assert np.isnan(host(kernel(xp, xp.asarray(np.array([np.nan])))))


@given(
    x=hnp.arrays(float, 5, elements=st.floats(-500, 500)),
    z=hnp.arrays(float, 5, elements=st.floats(0, 1)),
)
def test_cross_entropy_is_that_of_two_probabilities(
    xp: ModuleType, x: Any, z: Any
) -> None:
    loss = sigmoid_cross_entropy(xp, xp.asarray(x), xp.asarray(z))

    wanted = [
        q * expected_softplus(-a) + (1 - q) * expected_softplus(a)
        for a, q in zip(x.tolist(), z.tolist(), strict=True)
    ]
    np.testing.assert_allclose(host(loss), wanted, rtol=1e-12, atol=1e-12)


def test_labels_of_another_shape_are_refused(xp: ModuleType) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\[3\].*\[4\]"):
        sigmoid_cross_entropy(xp, xp.zeros(3), xp.zeros(4))
