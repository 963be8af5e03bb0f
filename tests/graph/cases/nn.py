"""Cases of activations, softmax and cross-entropies, layers and parts of tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.graph.convert import make_op
from kit.graph.ops.nn import activations as act
from kit.graph.ops.nn import embedding, layers, softmax
from tests.graph.cases.case import Case, Host, bare, flat, numbers, sloped

# Nothing near the places where a slope jumps: 0 and 6.
X = np.array([[-3.0, -0.5, 0.25], [0.75, 2.0, 9.0]])
Y, G = numbers(2, 2, 3), numbers(3, 2, 3)
HALVES = np.array([[0.2, 0.5, 0.9], [0.4, 0.6, 0.1]])
LARGE = np.array([1e4, -1e4, 0.5])
INTS = np.array([[-2, 0, 7]], np.int32)
LOGITS, CUBE = numbers(4, 2, 3), numbers(5, 2, 3, 4)
LABELS = np.array([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6]])
CLASSES, MORE_CLASSES = np.array([2, 0]), np.array([[0, 3, 1], [2, 2, 1]], np.int32)
IMAGE, BIAS = numbers(6, 2, 3, 4), numbers(7, 4)


def logistic(x: Host) -> Host:
    return np.asarray(np.tanh(x / 2) / 2 + 0.5)


def shares(x: Host, axis: int = -1) -> Host:
    powers = np.exp(x - np.max(x))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def surprise(logits: Host, labels: Host) -> Host:
    """The mean, weighted by the labels, of minus the logarithm of each share."""
    return np.asarray((labels * -np.log(shares(logits))).sum(axis=-1))


def one_hot(classes: Host, n: int) -> Host:
    return np.asarray(np.eye(n)[classes])


def binary_surprise(logits: Host, labels: Host) -> Host:
    p = logistic(logits)
    return np.asarray(-labels * np.log(p) - (1 - labels) * np.log(1 - p))


def cross_entropy(op_type: str) -> Any:
    return lambda logits, labels: list(make_op(op_type, logits, labels).outputs)


ACTIVATIONS = [
    sloped("Relu", act.relu, lambda x: np.where(x > 0, x, 0), X),
    flat("Relu", act.relu, lambda x: np.array([[0, 0, 7]], np.int32), INTS),
    bare("ReluGrad", lambda g, y: np.where(y > 0, g, 0.0), (G, X)),
    sloped("Relu6", act.relu6, lambda x: np.where(x > 6, 6, np.where(x > 0, x, 0)), X),
    bare("Relu6Grad", lambda g, y: np.where((y > 0) & (y < 6), g, 0.0), (G, X)),
    sloped("Elu", act.elu, lambda x: np.where(x > 0, x, np.exp(x) - 1), X),
    bare("EluGrad", lambda g, y: np.where(y > 0, g, g * (y + 1)), (G, X)),
    sloped("LeakyRelu", act.leaky_relu, lambda x: np.where(x > 0, x, x / 5), X),
    sloped(
        "LeakyRelu",
        lambda x: act.leaky_relu(x, 3.0),
        lambda x: np.where(x > 0, x, x * 3),
        X,
    ),
    bare("LeakyReluGrad", lambda g, x: np.where(x > 0, g, g / 2), (G, X), alpha=0.5),
    sloped("Sigmoid", act.sigmoid, logistic, X),
    sloped("Sigmoid", act.sigmoid, lambda x: np.array([1, 0, logistic(x)[2]]), LARGE),
    bare("SigmoidGrad", lambda y, g: g * (y - y * y), (HALVES, G)),
    sloped("Softplus", act.softplus, lambda x: np.log(1 + np.exp(x)), X),
    bare("SoftplusGrad", lambda g, x: g * logistic(x), (G, X)),
]

LOSSES = [
    sloped("Softmax", softmax.softmax, shares, LOGITS),
    sloped("Softmax", lambda x: softmax.softmax(x, 1), lambda x: shares(x, 1), CUBE),
    sloped("LogSoftmax", softmax.log_softmax, lambda x: np.log(shares(x)), LOGITS),
    sloped(
        "LogSoftmax",
        lambda x: softmax.log_softmax(x, axis=0),
        lambda x: np.log(shares(x, 0)),
        CUBE,
    ),
    sloped(
        "SoftmaxCrossEntropyWithLogits",
        cross_entropy("SoftmaxCrossEntropyWithLogits"),
        lambda x, z: [surprise(x, z), shares(x) - z],
        (LOGITS, LABELS),
    ),
    sloped(
        "SoftmaxCrossEntropyWithLogits",
        lambda x, z: softmax.softmax_cross_entropy(z, x, axis=1),
        lambda x, z: surprise(np.moveaxis(x, 1, -1), np.moveaxis(z, 1, -1)),
        (CUBE, shares(numbers(8, 2, 3, 4), 1)),
    ),
    sloped(
        "SparseSoftmaxCrossEntropyWithLogits",
        cross_entropy("SparseSoftmaxCrossEntropyWithLogits"),
        lambda x, z: [surprise(x, one_hot(z, 3)), shares(x) - one_hot(z, 3)],
        (LOGITS, CLASSES),
    ),
    sloped(
        "SparseSoftmaxCrossEntropyWithLogits",
        lambda x, z: softmax.sparse_softmax_cross_entropy(z, x),
        lambda x, z: surprise(x, one_hot(z, 4)),
        (CUBE, MORE_CLASSES),
    ),
    sloped(
        "SigmoidCrossEntropyWithLogits",
        lambda x, z: softmax.sigmoid_cross_entropy(z, x),
        binary_surprise,
        (LOGITS, HALVES),
    ),
    bare(
        "ScaleRows",
        lambda x, f: np.stack([row * f[i] for i, row in enumerate(x)]),
        (X, numbers(9, 2)),
    ),
]

LAYERS = [
    sloped("BiasAdd", layers.bias_add, lambda x, b: x + b, (X, numbers(10, 3))),
    sloped("BiasAdd", layers.bias_add, lambda x, b: x + b, (IMAGE, BIAS)),
    bare("BiasAddGrad", lambda g: np.array([g[..., k].sum() for k in range(4)]), IMAGE),
    sloped("L2Loss", layers.l2_loss, lambda x: np.square(x).sum() / 2, IMAGE),
]

PARTS = [
    Case(
        "DynamicPartition",
        lambda x, p: embedding.dynamic_partition(x, p, 2),
        lambda x, p: [np.array([x[1]]), np.array([x[0], x[2]])],
        (numbers(11, 3, 2), np.array([1, 0, 1], np.int32)),
        is_dynamic=True,
    ),
    Case(
        "DynamicStitch",
        lambda i, j, x, y: embedding.dynamic_stitch([i, j], [x, y]),
        lambda i, j, x, y: np.array([y[0], x[1], x[0]]),
        (np.array([2, 1]), np.array([0]), numbers(12, 2, 2), numbers(13, 1, 2)),
        is_dynamic=True,
    ),
]

CASES = ACTIVATIONS + LOSSES + LAYERS + PARTS
