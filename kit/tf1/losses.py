"""`tf.losses`: weighted losses of a batch, and the collection that they are in.

Each loss is computed for every element, multiplied by `weights`, reduced to a number as
`Reduction` says and added to `loss_collection`. `weights` is a number, or a tensor of
as many axes as the loss, of which each has its size or 1: a weight of 0 leaves an
element out, also of the count that the sum is divided by.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from kit.tf1.graph.collections import GraphKeys, add_to_collection, get_collection
from kit.tf1.not_offered import refusing
from kit.tf1.ops import arithmetic, nn_loss, reduce
from kit.tf1.ops.arithmetic import abs as absolute
from kit.tf1.ops.arithmetic import cast, minimum, multiply, square, stop_gradient
from kit.tf1.ops.creation import constant, ones_like, zeros_like
from kit.tf1.ops.index import where
from kit.tf1.ops.nn_activation import relu
from kit.tf1.ops.shape import expand_dims, squeeze
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.ops.shape import size as size_of
from kit.tf1.ops.write import one_of
from kit.tf1.signature import with_options
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import float32


class Reduction:
    """How the weighted losses of the elements become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    _ALL: ClassVar = (NONE, SUM, SUM_OVER_BATCH_SIZE, MEAN, SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all ways."""
        return cls._ALL

    @classmethod
    def validate(cls, key: Any) -> None:
        """Raise `ValueError` for anything else."""
        if key not in cls._ALL:
            raise ValueError(
                f"Invalid Reduction Key {key}; give one of {', '.join(cls._ALL)}."
            )


# --------------------------------------------------------------------------------------
# The collection of the losses.


def add_loss(loss: Any, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Add a loss that was computed otherwise to a collection; None adds it to none."""
    if loss_collection:
        add_to_collection(loss_collection, loss)


def get_losses(
    scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES
) -> list[Any]:
    """Return the losses in a collection; with `scope`, those whose names begin so."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Return what the regularizers of variables and layers cost."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Any:
    """Return the sum of what regularizers cost; 0 without any."""
    losses = get_regularization_losses(scope)
    return arithmetic.add_n(losses, name=name) if losses else constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True,
    name: str = "total_loss",
    scope: str | None = None,
) -> Any:
    """Return the sum of all losses, and of what regularizers cost.

    Raises `ValueError` if there are none.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope)
    return arithmetic.add_n(losses, name=name)


# --------------------------------------------------------------------------------------
# From the losses of the elements to a number.


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return the losses of the elements, weighted and reduced to a number.

    Raises `ValueError` for weights that do not fit the losses, and for another
    `reduction` than one of `Reduction`.
    """
    Reduction.validate(reduction)
    with op_scope(scope, "weighted_loss", [losses, weights]):
        values = convert_to_tensor(losses)
        dtype = values.dtype.base_dtype
        values = cast(values, float32)
        factors = cast(convert_to_tensor(weights), float32)
        _check_weights(factors.shape, values.shape)
        weighted = multiply(values, factors)
        loss = cast(_reduced(weighted, factors, reduction), dtype)
        add_loss(loss, loss_collection)
        return loss


def _reduced(weighted: Any, weights: Any, reduction: str) -> Any:
    if reduction == Reduction.NONE:
        return weighted
    total = reduce.reduce_sum(weighted)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return _mean(total, cast(size_of(weighted), float32))
    of_each = multiply(ones_like(weighted), weights)
    if reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        of_each = cast(arithmetic.not_equal(of_each, 0.0), float32)
    return _mean(total, reduce.reduce_sum(of_each))


def _mean(total: Any, count: Any) -> Any:
    """Return total / count, and 0 if nothing counts; so are its gradients then."""
    is_empty = arithmetic.equal(count, 0.0)
    share = 1.0 / where(is_empty, ones_like(count), count)
    return multiply(total, where(is_empty, zeros_like(share), share), name="value")


def _check_weights(weights: Any, values: Any) -> None:
    if weights.ndims in (0, None) or values.ndims is None:
        return
    pairs = zip(weights.as_list(), values.as_list(), strict=False)
    fit = all(w in (1, None, size) or size is None for w, size in pairs)
    if weights.ndims != values.ndims or not fit:
        raise ValueError(
            f"weights can not be broadcast to values. values.rank={values.ndims}. "
            f"weights.rank={weights.ndims}. values.shape={values}. "
            f"weights.shape={weights}. Give a number, or a shape such as "
            f"{[*values.as_list()[:1], *[1] * (values.ndims - 1)]}."
        )


# --------------------------------------------------------------------------------------
# The losses.


@dataclass
class _Options:
    """What all losses take behind their own arguments."""

    scope: str | None = None
    loss_collection: Any = GraphKeys.LOSSES
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS


def _loss(scope_name: str, *, of_rows: bool = False) -> Callable[..., Any]:
    """Make a loss of a function that computes it for each element.

    With `of_rows` the result lacks the last axis, and weights may.
    """

    def decorate(of_each: Callable[..., Any]) -> Any:
        labels_name, x_name, *_ = inspect.signature(of_each).parameters

        @with_options(_Options)
        @functools.wraps(of_each)
        def loss(*, options: Any, **values: Any) -> Any:
            labels, x = values[labels_name], values[x_name]
            for name in (labels_name, x_name):
                if values[name] is None:
                    raise ValueError(f"{name} must not be None.")
            weights = values.pop("weights", 1.0)
            with op_scope(options.scope, scope_name, [x, labels, weights]) as scope:
                losses = of_each(**values)
                if of_rows:
                    weights = _rows(weights, losses)
                to, reduction = options.loss_collection, options.reduction
                return compute_weighted_loss(losses, weights, scope, to, reduction)

        return loss

    return decorate


@_loss("softmax_cross_entropy_loss", of_rows=True)
def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: Any = 0
) -> Any:
    """Return the cross-entropy of logits with distributions over classes.

    `label_smoothing` moves that share of each label evenly to all classes.
    """
    x = convert_to_tensor(logits)
    y = cast(convert_to_tensor(onehot_labels), x.dtype.base_dtype)
    x.shape.assert_is_compatible_with(y.shape)
    if label_smoothing > 0:
        classes = cast(shape_of(y)[1], y.dtype)
        y = y * (1.0 - label_smoothing) + label_smoothing / classes
    return nn_loss.softmax_cross_entropy_with_logits_v2(
        labels=stop_gradient(y), logits=x, name="xentropy"
    )


@_loss("sparse_softmax_cross_entropy_loss", of_rows=True)
def sparse_softmax_cross_entropy(labels: Any, logits: Any, weights: Any = 1.0) -> Any:
    """Return the cross-entropy of logits with the numbers of the true classes.

    Labels may have a last axis of size 1 too many.
    """
    x, y = convert_to_tensor(logits), convert_to_tensor(labels)
    ranks = (x.shape.ndims, y.shape.ndims)
    if None not in ranks and ranks[0] == ranks[1] and y.shape.as_list()[-1] == 1:
        y = squeeze(y, [-1])
    return nn_loss.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=x, name="xentropy"
    )


@_loss("sigmoid_cross_entropy_loss")
def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: Any = 0
) -> Any:
    """Return the cross-entropy of each logit with a probability.

    `label_smoothing` moves the labels by that share towards 1/2.
    """
    x = convert_to_tensor(logits)
    y = cast(convert_to_tensor(multi_class_labels), x.dtype.base_dtype)
    x.shape.assert_is_compatible_with(y.shape)
    if label_smoothing > 0:
        y = y * (1 - label_smoothing) + 0.5 * label_smoothing
    return nn_loss.sigmoid_cross_entropy_with_logits(
        labels=y, logits=x, name="xentropy"
    )


@_loss("mean_squared_error")
def mean_squared_error(labels: Any, predictions: Any, weights: Any = 1.0) -> Any:
    """Return (prediction - label)**2."""
    y, x = _pair(labels, predictions)
    return arithmetic.squared_difference(x, y)


@_loss("absolute_difference")
def absolute_difference(labels: Any, predictions: Any, weights: Any = 1.0) -> Any:
    """Return |prediction - label|."""
    y, x = _pair(labels, predictions)
    return absolute(x - y)


@_loss("log_loss")
def log_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7
) -> Any:
    """Return the cross-entropy of probabilities; epsilon guards against log(0)."""
    y, x = _pair(labels, predictions)
    losses = -y * arithmetic.log(x + epsilon)
    return losses - (1 - y) * arithmetic.log(1 - x + epsilon)


@_loss("hinge_loss")
def hinge_loss(labels: Any, logits: Any, weights: Any = 1.0) -> Any:
    """Return max(0, 1 - y * logit), where y is -1 for the label 0, and 1 for 1."""
    y, x = _pair(labels, logits)
    return relu(1 - (2 * y - 1) * x)


@_loss("huber_loss")
def huber_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0
) -> Any:
    """Return half the squared difference up to `delta`, and a line beyond."""
    y, x = _pair(labels, predictions)
    error = absolute(x - y)
    near = minimum(error, delta)
    return 0.5 * square(near) + delta * (error - near)


@_loss("cosine_distance_loss")
def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    *,
    dim: int | None = None,
) -> Any:
    """Return 1 - the inner product of vectors of length 1 along an axis."""
    axis = one_of("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    y, x = _pair(labels, predictions)
    return 1 - reduce.reduce_sum(multiply(x, y), [axis], keepdims=True)


def _pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Return both as float32, as the original does; `ValueError` for two shapes."""
    x = cast(convert_to_tensor(predictions), float32)
    y = cast(convert_to_tensor(labels), float32)
    x.shape.assert_is_compatible_with(y.shape)
    return y, x


def _rows(weights: Any, losses: Any) -> Any:
    """Return weights with as many axes as the losses of rows, which lack the last."""
    factors = convert_to_tensor(weights)
    ranks = (factors.shape.ndims, losses.shape.ndims)
    if None in ranks or ranks[0] == 0:
        return factors
    if ranks[0] == ranks[1] + 1:
        return squeeze(factors, [-1])
    return expand_dims(factors, [-1]) if ranks[0] == ranks[1] - 1 else factors


__getattr__ = refusing("losses")
