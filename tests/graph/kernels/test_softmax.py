"""Softmax and the cross-entropies are what they are called, at any size of logit."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.graph.kernels.softmax import (
    log_softmax,
    softmax,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from tests.cases import for_each
from tests.graph.kernels.slopes import host

Host = npt.NDArray[Any]

# Few classes and many are laid out differently inside.
SHAPES = [(1, 1), (7, 10), (3, 32), (3, 33), (2, 100), (0, 4), (5,), (40,), (2, 3, 4)]
SHAPES += [(2, 3, 40)]


def logits_of(shape: tuple[int, ...], seed: int = 0) -> Host:
    return 5 * np.random.default_rng(seed).standard_normal(shape)


def labels_of(shape: tuple[int, ...]) -> Host:
    return np.random.default_rng(1).dirichlet(np.ones(shape[-1]), shape[:-1])


def row_log_softmax(row: list[float]) -> list[float]:
    peak = max(row)
    log_total = math.log(math.fsum(math.exp(x - peak) for x in row))
    return [x - peak - log_total for x in row]


def expected_log_softmax(x: Host) -> Host:
    rows = x.reshape(-1, x.shape[-1]).tolist()
    return np.array([row_log_softmax(row) for row in rows]).reshape(x.shape)


@for_each("shape", SHAPES)
def test_softmax_and_its_logarithm_are_what_they_are_called(
    xp: ModuleType, shape: tuple[int, ...]
) -> None:
    x = logits_of(shape)

    p, log_p = softmax(xp, xp.asarray(x)), log_softmax(xp, xp.asarray(x))

    wanted = expected_log_softmax(x)
    np.testing.assert_allclose(host(log_p), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(host(p), np.exp(wanted), rtol=1e-12)


@for_each("axis", [0, 1, 2, -1, -3])
def test_any_axis_may_be_that_of_the_classes(xp: ModuleType, axis: int) -> None:
    x = logits_of((4, 5, 6))

    p, log_p = (f(xp, xp.asarray(x), axis) for f in (softmax, log_softmax))

    wanted = np.moveaxis(expected_log_softmax(np.moveaxis(x, axis, -1)), -1, axis)
    np.testing.assert_allclose(host(log_p), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(host(p), np.exp(wanted), rtol=1e-12)


@for_each("shape", SHAPES)
def test_cross_entropy_and_its_gradient_follow_from_the_softmax(
    xp: ModuleType, shape: tuple[int, ...]
) -> None:
    x, y = logits_of(shape), labels_of(shape)

    loss, gradient = softmax_cross_entropy(xp, xp.asarray(x), xp.asarray(y))

    log_p = expected_log_softmax(x)
    np.testing.assert_allclose(host(loss), -(y * log_p).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(host(gradient), np.exp(log_p) - y, atol=1e-14)


@for_each("shape", SHAPES)
@for_each("dtype", ["int32", "int64", "uint8"])
def test_labels_by_number_give_what_the_same_labels_give_as_distributions(
    xp: ModuleType, shape: tuple[int, ...], dtype: str
) -> None:
    x = logits_of(shape)
    rng = np.random.default_rng(2)
    numbers = np.asarray(rng.integers(0, shape[-1], shape[:-1]), dtype)

    loss, gradient = sparse_softmax_cross_entropy(
        xp, xp.asarray(x), xp.asarray(numbers)
    )

    y, log_p = np.eye(shape[-1])[numbers], expected_log_softmax(x)
    np.testing.assert_allclose(host(loss), -(y * log_p).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(host(gradient), np.exp(log_p) - y, atol=1e-14)


@given(
    few=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=9),
    times=st.sampled_from([1, 40]),
)
def test_no_logit_up_to_ten_thousand_overflows(
    xp: ModuleType, few: list[float], times: int
) -> None:
    row = times * few
    x = xp.asarray(np.array([row, row], np.float32))

    p, log_p = softmax(xp, x), log_softmax(xp, x)
    loss, gradient = sparse_softmax_cross_entropy(xp, x, xp.asarray([0, len(row) - 1]))

    assert all(np.isfinite(host(array)).all() for array in (p, log_p, loss, gradient))
    np.testing.assert_allclose(host(p).sum(-1), 1, rtol=1e-5)
    ends = host(log_p)[0, [0, -1]]
    np.testing.assert_allclose(host(loss), -ends, rtol=1e-5, atol=1e-5)


def test_labels_that_do_not_add_up_to_one_count_as_in_the_original(
    xp: ModuleType,
) -> None:
    x, y = np.array([[0, 1, 2.5]], np.float32), np.array([[1, 2, 3]], np.float32)

    loss, gradient = softmax_cross_entropy(xp, xp.asarray(x), xp.asarray(y))

    # Computed by tensorflow-cpu 2.21.0.
    np.testing.assert_allclose(host(loss), [7.0982075], rtol=1e-6)
    wanted = [[-0.93711, -1.8290472, -2.2338428]]
    np.testing.assert_allclose(host(gradient), wanted, rtol=1e-5)


@for_each("dtype", ["float16", "float32", "float64"])
def test_dtype_stays_and_the_inputs_too(xp: ModuleType, dtype: str) -> None:
    x, y = (xp.asarray(a.astype(dtype)) for a in (logits_of((4, 5)), labels_of((4, 5))))
    kept = host(x).copy(), host(y).copy()
    numbers = xp.asarray([0, 1, 2, 4])

    made = [softmax(xp, x), log_softmax(xp, x), *softmax_cross_entropy(xp, x, y)]
    made += sparse_softmax_cross_entropy(xp, x, numbers)

    assert {array.dtype.name for array in made} == {dtype}
    assert np.array_equal(host(x), kept[0])
    assert np.array_equal(host(y), kept[1])


def test_many_halves_are_not_added_up_in_half_precision(xp: ModuleType) -> None:
    x = logits_of((2, 5000)).astype(np.float16)
    numbers = xp.asarray([0, 1])

    loss, _ = sparse_softmax_cross_entropy(xp, xp.asarray(x), numbers)

    wanted = -expected_log_softmax(x.astype(float))[[0, 1], [0, 1]]
    assert np.array_equal(host(loss), wanted.astype(np.float16))


def test_softmax_over_no_classes_is_empty(xp: ModuleType) -> None:
    assert softmax(xp, xp.zeros((3, 0))).shape == (3, 0)
    assert log_softmax(xp, xp.zeros((3, 0))).shape == (3, 0)


@for_each("label", [-1, 5, 2**31])
def test_label_that_is_no_class_is_named_with_its_place(
    xp: ModuleType, label: int
) -> None:
    labels = xp.asarray(np.array([1, 4, label, -7]))

    with pytest.raises(
        InvalidArgumentError, match=rf"labels\[2\] = {label} .*\[0, 5\)"
    ):
        sparse_softmax_cross_entropy(xp, xp.zeros((4, 5)), labels)


@for_each(
    ("kernel", "dtype", "logits", "labels"),
    [
        *(
            (softmax_cross_entropy, "float64", *shapes)
            for shapes in (((2, 3), (3, 2)), ((2, 3), (2,)), ((2, 0), (2, 0)), ((), ()))
        ),
        *(
            (sparse_softmax_cross_entropy, "int64", *shapes)
            for shapes in (((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 0), (2,)), ((), ()))
        ),
    ],
)
def test_labels_that_do_not_fit_the_logits_are_refused(
    xp: ModuleType, kernel: Any, dtype: str, logits: Any, labels: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="logits have the shape"):
        kernel(xp, xp.zeros(logits), xp.zeros(labels, dtype=dtype))
