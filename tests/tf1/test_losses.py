"""`tf.losses` against the formulas in numpy, and the collection that losses are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each
from tests.tf1.look import run

LABELS = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], np.float32)
VALUES = np.array([[0.2, 0.7, 0.1], [0.5, 2.5, -1.0]], np.float32)
CHANCES = np.array([[0.2, 0.7, 0.1], [0.5, 0.9, 0.3]], np.float32)
DISTANCE = np.abs(VALUES - LABELS)
LIKELY = VALUES - np.log(np.exp(VALUES).sum(-1, keepdims=True))
SIGMOID = 1 / (1 + np.exp(-VALUES))


# The loss of each element, before weights.
OF_EACH: dict[str, tuple[Callable[..., Any], Any]] = {
    "mean_squared_error": (
        lambda **how: tf.losses.mean_squared_error(LABELS, VALUES, **how),
        DISTANCE**2,
    ),
    "absolute_difference": (
        lambda **how: tf.losses.absolute_difference(LABELS, VALUES, **how),
        DISTANCE,
    ),
    "log_loss": (
        lambda **how: tf.losses.log_loss(LABELS, CHANCES, **how),
        -LABELS * np.log(CHANCES + 1e-7) - (1 - LABELS) * np.log(1 - CHANCES + 1e-7),
    ),
    "hinge_loss": (
        lambda **how: tf.losses.hinge_loss(LABELS, VALUES, **how),
        np.maximum(0, 1 - (2 * LABELS - 1) * VALUES),
    ),
    "huber_loss": (
        lambda **how: tf.losses.huber_loss(LABELS, VALUES, delta=0.6, **how),
        np.where(DISTANCE <= 0.6, DISTANCE**2 / 2, 0.6 * DISTANCE - 0.18),
    ),
    "sigmoid_cross_entropy": (
        lambda **how: tf.losses.sigmoid_cross_entropy(LABELS, VALUES, **how),
        -LABELS * np.log(SIGMOID) - (1 - LABELS) * np.log(1 - SIGMOID),
    ),
    "softmax_cross_entropy": (
        lambda **how: tf.losses.softmax_cross_entropy(LABELS, VALUES, **how),
        -(LABELS * LIKELY).sum(-1),
    ),
    "sparse_softmax_cross_entropy": (
        lambda **how: tf.losses.sparse_softmax_cross_entropy([1, 0], VALUES, **how),
        -(LABELS * LIKELY).sum(-1),
    ),
}


@for_each("name", list(OF_EACH))
def test_a_loss_is_the_mean_of_its_formula_over_all_elements(name: str) -> None:
    loss, expected = OF_EACH[name]

    assert run(loss()) == pytest.approx(expected.mean(), rel=1e-5)


@for_each("name", list(OF_EACH))
def test_elements_of_weight_zero_do_not_count(name: str) -> None:
    loss, expected = OF_EACH[name]
    weights = np.array([3.0, 0.0], np.float32).reshape(2, *[1] * (expected.ndim - 1))

    result = run(loss(weights=weights))

    assert result == pytest.approx(3 * expected[0].mean(), rel=1e-5)


def test_each_reduction_divides_by_its_own_count() -> None:
    weights = np.array([[2.0], [0.0]], np.float32)
    total = (DISTANCE * weights).sum()
    expected = {
        tf.losses.Reduction.SUM: total,
        tf.losses.Reduction.MEAN: total / 6,
        tf.losses.Reduction.SUM_OVER_BATCH_SIZE: total / 6,
        tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS: total / 3,
        tf.losses.Reduction.SUM_OVER_NONZERO_WEIGHTS: total / 3,
    }
    for reduction, number in expected.items():
        loss = tf.losses.absolute_difference(
            LABELS, VALUES, weights, reduction=reduction
        )
        assert run(loss) == pytest.approx(number, rel=1e-5), reduction

    whole = tf.losses.absolute_difference(
        LABELS, VALUES, weights, reduction=tf.losses.Reduction.NONE
    )
    np.testing.assert_allclose(run(whole), DISTANCE * weights, rtol=1e-6)


def test_a_loss_without_any_weight_is_zero_and_so_is_its_gradient() -> None:
    x = tf.constant(VALUES)
    loss = tf.losses.mean_squared_error(LABELS, x, weights=0.0)
    (slope,) = tf.gradients(loss, x)

    assert run(loss) == 0
    assert np.array_equal(run(slope), np.zeros_like(VALUES))


def test_labels_are_smoothed_towards_all_classes_or_towards_one_half() -> None:
    soft = tf.losses.softmax_cross_entropy(LABELS, VALUES, label_smoothing=0.3)
    each = tf.losses.sigmoid_cross_entropy(LABELS, VALUES, label_smoothing=0.3)
    half = LABELS * 0.7 + 0.15
    of_each = -half * np.log(SIGMOID) - (1 - half) * np.log(1 - SIGMOID)

    expected = -((LABELS * 0.7 + 0.1) * LIKELY).sum(-1).mean()
    assert run(soft) == pytest.approx(expected, rel=1e-5)
    assert run(each) == pytest.approx(of_each.mean(), rel=1e-5)


def test_a_gradient_of_each_loss_is_its_finite_difference() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    losses = [
        tf.losses.softmax_cross_entropy(LABELS, x, weights=[0.5, 2.0]),
        tf.losses.huber_loss(LABELS, x, delta=0.6),
        tf.losses.hinge_loss(LABELS, x),
    ]
    slopes = [tf.gradients(loss, x)[0] for loss in losses]
    step = np.float32(1e-2)
    fed = VALUES + np.float32(0.05)  # away from where they have a corner
    for loss, slope in zip(losses, slopes, strict=True):
        exact = run(slope, {x: fed})
        for at in np.ndindex(2, 3):
            change = np.zeros_like(VALUES)
            change[at] = step
            high, low = (run(loss, {x: fed + s * change}) for s in (1, -1))
            assert exact[at] == pytest.approx((high - low) / (2 * step), abs=2e-3)


def test_losses_are_collected_and_summed_with_those_of_regularizers(
    session: Any,
) -> None:
    first = tf.losses.mean_squared_error(LABELS, VALUES)
    tf.losses.hinge_loss(LABELS, VALUES, loss_collection=None)
    own = tf.constant(0.25)
    tf.losses.add_loss(own)
    assert run(tf.losses.get_regularization_loss()) == 0
    weights = tf.get_variable(
        "w", initializer=[1.0, 2.0], regularizer=lambda w: 0.1 * tf.nn.l2_loss(w)
    )

    assert tf.losses.get_losses() == [first, own]
    assert len(tf.losses.get_regularization_losses()) == 1
    plain = tf.losses.get_total_loss(add_regularization_losses=False)
    session.run(weights.initializer)
    total, data = session.run([tf.losses.get_total_loss(), plain])
    assert data == pytest.approx((DISTANCE**2).mean() + 0.25, rel=1e-5)
    assert total - data == pytest.approx(0.25, rel=1e-5)


def test_a_loss_has_the_name_that_programs_fetch_it_by() -> None:
    loss = tf.losses.softmax_cross_entropy(LABELS, VALUES)
    named = tf.losses.mean_squared_error(LABELS, VALUES, scope="rest")

    assert loss.name == "softmax_cross_entropy_loss/value:0"
    assert named.name == "rest/value:0"
    assert tf.losses.get_losses("rest") == [named]


def test_labels_may_be_a_column_and_a_batch_of_unknown_size() -> None:
    logits = tf.placeholder(tf.float32, [None, 3])
    labels = tf.placeholder(tf.int64, [None, 1])
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)

    result = run(loss, {logits: VALUES, labels: [[1], [0]]})

    assert result == pytest.approx(-(LABELS * LIKELY).sum(-1).mean(), rel=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="weights can not be broadcast"):
        tf.losses.mean_squared_error(LABELS, VALUES, weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="labels must not be None"):
        tf.losses.mean_squared_error(None, VALUES)
    with pytest.raises(ValueError, match="incompatible"):
        tf.losses.mean_squared_error(LABELS[:, :2], VALUES)
    with pytest.raises(ValueError, match="Invalid Reduction Key mean"):
        tf.losses.mean_squared_error(LABELS, VALUES, reduction="mean")


@for_each(
    ("name", "extra"),
    [
        ("softmax_cross_entropy", {"label_smoothing": 0.2}),
        ("sigmoid_cross_entropy", {"label_smoothing": 0.2}),
        ("mean_squared_error", {}),
        ("absolute_difference", {}),
        ("log_loss", {"epsilon": 0.1}),
        ("hinge_loss", {}),
        ("cosine_distance", {"axis": 1}),
    ],
)
def test_losses_of_contrib_take_the_labels_second(name: str, extra: Any) -> None:
    weights = [[2.0], [0.5]]
    usual = getattr(tf.losses, name)(LABELS, CHANCES, weights=weights, **extra)
    other = getattr(tf.contrib.losses, name)(CHANCES, LABELS, weights=weights, **extra)

    assert tf.contrib.slim.losses.get_losses()[-2:] == [usual, other]
    assert run(other) == run(usual)


def test_numbered_classes_of_contrib_come_second_too() -> None:
    result = tf.contrib.losses.sparse_softmax_cross_entropy(
        VALUES, [1, 0], scope="loss"
    )

    assert result.op.name == "loss/value"
    np.testing.assert_allclose(run(result), -(LIKELY[0, 1] + LIKELY[1, 0]) / 2, 1e-6)
