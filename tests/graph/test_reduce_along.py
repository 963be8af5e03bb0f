"""Reductions along axes that are fed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit.errors import InvalidArgumentError
from kit.graph.ops.math.reduce import reduce_along
from kit.graph.ops.state.source import placeholder
from kit.session.client.session import Session
from tests.cases import for_each

X = np.arange(24.0).reshape(2, 3, 4)
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "Sum": np.sum,
    "Mean": np.mean,
    "Prod": np.prod,
    "Max": np.max,
}


def along(kind: str, axis: Any, keepdims: bool = False) -> Any:
    where = placeholder("int32")
    result = reduce_along(kind, X, where, keepdims)
    with Session() as session:
        return session.run(result, {where: np.asarray(axis, np.int32)})


@for_each("axis", [0, -1, [0, 2], []], ids=str)
@for_each("kind", REDUCTIONS)
def test_fed_axes_do_what_written_ones_do(kind: str, axis: Any) -> None:
    expected = REDUCTIONS[kind](X, axis=tuple(np.atleast_1d(axis).astype(int)))

    np.testing.assert_allclose(along(kind, axis), expected, rtol=1e-12)


def test_axes_may_stay_with_size_one() -> None:
    assert along("Sum", [1], keepdims=True).shape == (2, 1, 4)


def test_an_axis_that_is_not_there_is_refused_in_the_run() -> None:
    with pytest.raises(InvalidArgumentError, match="axis 3"):
        along("Sum", 3)


def test_fractions_are_no_axes() -> None:
    with pytest.raises(TypeError, match="float32"):
        reduce_along("Sum", X, placeholder("float32"))
