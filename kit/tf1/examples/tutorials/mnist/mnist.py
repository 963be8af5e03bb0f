"""The tutorial's network for handwritten digits: two hidden layers and a softmax."""

from __future__ import annotations

from math import sqrt
from typing import Any

from kit.tf1 import nn, summary, train
from kit.tf1.losses import sparse_softmax_cross_entropy
from kit.tf1.ops.arithmetic import cast, matmul, to_int64
from kit.tf1.ops.creation import zeros
from kit.tf1.ops.random import truncated_normal
from kit.tf1.ops.reduce import reduce_sum
from kit.tf1.tensor.dtypes import int32
from kit.tf1.variables.scopes import name_scope
from kit.tf1.variables.variables import Variable

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """Return the logits of images [example, pixel]."""
    with name_scope("hidden1"):
        first = nn.relu(_layer(images, IMAGE_PIXELS, hidden1_units))
    with name_scope("hidden2"):
        second = nn.relu(_layer(first, hidden1_units, hidden2_units))
    with name_scope("softmax_linear"):
        return _layer(second, hidden2_units, NUM_CLASSES)


def _layer(inputs: Any, n_in: int, n_out: int) -> Any:
    start = truncated_normal([n_in, n_out], stddev=1.0 / sqrt(n_in))
    weights = Variable(start, name="weights")
    return matmul(inputs, weights) + Variable(zeros([n_out]), name="biases")


def loss(logits: Any, labels: Any) -> Any:
    """Return the mean cross-entropy with the numbers of the true classes."""
    return sparse_softmax_cross_entropy(labels=to_int64(labels), logits=logits)


def training(loss: Any, learning_rate: float) -> Any:
    """Return the operation that makes a step down the gradient, and counts it."""
    summary.scalar("loss", loss)
    step = Variable(0, name="global_step", trainable=False)
    optimizer = train.GradientDescentOptimizer(learning_rate)
    return optimizer.minimize(loss, global_step=step)


def evaluation(logits: Any, labels: Any) -> Any:
    """Return how many examples of a batch are classified as they should be."""
    return reduce_sum(cast(nn.in_top_k(logits, labels, 1), int32))
