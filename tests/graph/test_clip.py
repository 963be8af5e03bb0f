"""Gradients made shorter: alone, and all together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit.graph.ops
from kit.graph.clip import clip_by_global_norm, clip_by_norm, global_norm
from kit.graph.gradients import gradients
from kit.graph.op import IndexedSlices
from kit.graph.ops.state.source import constant
from kit.session.client.session import Session

assert kit.graph.ops  # fills the table


def value(fetch: Any) -> Any:
    with Session() as session:
        return session.run(fetch)


def rows(*values: Any) -> IndexedSlices:
    """Return rows at 0, 1, ..."""
    return IndexedSlices(
        constant(np.array(values)), constant(np.arange(len(values))), constant([9, 2])
    )


def test_zeros_stay_zeros_and_have_a_gradient() -> None:
    x = constant([0.0, 0.0])
    clipped = clip_by_norm(x, 1.0)

    result = value([clipped, gradients(clipped, x)[0]])

    np.testing.assert_array_equal(result[0], [0.0, 0.0])
    np.testing.assert_array_equal(result[1], [1.0, 1.0])


def test_a_length_along_axes_is_each_row_s_own() -> None:
    x = constant([[3.0, 4.0], [0.3, 0.4]])

    result = value(clip_by_norm(x, 1.0, axes=[1]))

    np.testing.assert_allclose(result, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_rows_are_clipped_by_the_length_of_the_rows() -> None:
    result = value(clip_by_norm(rows([3.0, 0.0], [0.0, 4.0]), 2.5))

    np.testing.assert_allclose(result.values, [[1.5, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(result.indices, [0, 1])


def test_the_global_norm_is_over_all_and_passes_over_none() -> None:
    xs = [constant([1.0, 2.0], "float64"), None, rows([2.0, 0.0], [0.0, 4.0])]

    assert value(global_norm(xs)) == pytest.approx(np.sqrt(1 + 4 + 4 + 16))


def test_gradients_that_are_short_together_are_kept() -> None:
    clipped, _ = clip_by_global_norm([constant([0.3]), constant([0.4])], 1.0)

    np.testing.assert_allclose(np.ravel(value(clipped)), [0.3, 0.4], rtol=1e-6)


def test_rows_are_scaled_with_the_others() -> None:
    (clipped,), _ = clip_by_global_norm([rows([3.0, 4.0])], 1.0)

    np.testing.assert_allclose(value(clipped).values, [[0.6, 0.8]])


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_length_that_is_not_finite_makes_all_nan(bad: float) -> None:
    clipped, _ = clip_by_global_norm([constant([1.0]), constant([bad])], 1.0)

    assert np.isnan(value(clipped)).all()


def test_what_is_no_list_or_holds_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="list"):
        global_norm(constant([1.0]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no gradient"):
        global_norm([None, None])
