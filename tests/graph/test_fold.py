"""What is known of small integer tensors, and the shapes that follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit.graph.ops
from kit.graph.op import Tensor
from kit.graph.ops.array import broadcast, fill, join, shape
from kit.graph.ops.state.source import constant, placeholder

assert kit.graph.ops  # fills the table


def batch() -> Tensor:
    return placeholder("float32", (None, 6))


def shape_after(x: Tensor, wanted: Any) -> Any:
    return shape.reshape(x, wanted).static.shape


def test_the_shape_of_a_known_shape_is_a_known_value() -> None:
    result = shape.shape_of(placeholder("float32", (2, 3))).static

    assert result.value is not None
    np.testing.assert_array_equal(result.value, [2, 3])


def test_a_size_taken_from_a_shape_is_known() -> None:
    sizes = shape.shape_of(batch())

    assert sizes[1].static.value == 6
    assert sizes[0].static.value is None


def test_a_reshape_by_computed_sizes_knows_those_that_are_known() -> None:
    x = batch()
    sizes = shape.shape_of(x)

    assert shape_after(x, join.stack([sizes[0], 6])) == (None, 6)
    assert shape_after(x, [sizes[0] * 2, 3]) == (None, 3)
    assert shape_after(x, [sizes[0], sizes[1] // 2, 2]) == (None, 3, 2)
    assert shape_after(x, join.concat([sizes[:1], [2, 3]], 0)) == (None, 2, 3)
    assert shape_after(x, np.concatenate([[-1], sizes[1:]])) == (None, 6)
    assert shape_after(x, sizes[::-1]) == (6, None)
    assert shape_after(x, sizes.astype("int64")) == (None, 6)
    assert shape_after(x, np.prod(sizes).reshape(1)) == (None,)


def test_filled_and_repeated_tensors_know_computed_sizes() -> None:
    sizes = shape.shape_of(batch())

    assert fill.fill(sizes, 1.0).static.shape == (None, 6)
    assert broadcast.broadcast_to(constant(1.0), sizes).static.shape == (None, 6)
    assert fill.arange(sizes[1] // 2).static.shape == (3,)
    assert fill.arange(sizes[0]).static.shape == (None,)


def test_an_unknown_rank_is_known_again_after_a_reshape() -> None:
    x = placeholder("float32")

    assert x.static.shape is None
    assert shape_after(x, [2, -1]) == (2, None)
    assert shape_after(x, placeholder("int32", (3,))) == (None, None, None)
    assert shape_after(x, placeholder("int32")) is None


def test_a_fold_that_would_fail_waits_for_the_run() -> None:
    quotient = constant(1) // constant(0)

    assert quotient.static.value is None


def test_large_and_floating_values_are_not_folded() -> None:
    assert (constant(np.arange(100)) + 1).static.value is None
    assert (constant(1.5) + 1).static.value is None


def test_a_shape_that_is_told_is_merged_with_what_is_known() -> None:
    x = batch()
    x.set_shape((4, None))

    assert x.static.shape == (4, 6)
    with pytest.raises(ValueError, match="5"):
        x.set_shape((5, 6))
