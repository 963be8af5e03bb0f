"""A small multilayer perceptron for scikit-learn's handwritten digits, in plain numpy.

1,797 real images of 8 x 8 pixels ship with scikit-learn; nothing is downloaded. Every
fifth image is held out for the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.demo import check_installed

Array = npt.NDArray[Any]
Batch = tuple[Array, ...]


@dataclass
class DigitsMlp:
    """64 pixels - `hidden` - `hidden` - 10 classes, with ReLU and cross-entropy.

    `params` are the initial parameters, `train` and `test` are (images, labels).
    """

    params: dict[str, Array]
    train: Batch
    test: Batch

    @staticmethod
    def step(
        params: Mapping[str, Array], batch: Batch
    ) -> tuple[float, dict[str, Array], dict[str, float]]:
        """Return the loss and gradients of a batch, and the share that is right."""
        images, labels = batch
        first = np.maximum(images @ params["w1"] + params["b1"], 0)
        second = np.maximum(first @ params["w2"] + params["b2"], 0)
        logits = second @ params["w3"] + params["b3"]
        right = float((logits.argmax(1) == labels).mean())
        loss, error = softmax_loss(logits, labels)
        back2 = (error @ params["w3"].T) * (second > 0)
        back1 = (back2 @ params["w2"].T) * (first > 0)
        gradients = {
            "w1": images.T @ back1,
            "b1": back1.sum(0),
            "w2": first.T @ back2,
            "b2": back2.sum(0),
            "w3": second.T @ error,
            "b3": error.sum(0),
        }
        return loss, gradients, {"accuracy": right}

    def accuracy(self, params: Mapping[str, Array]) -> float:
        """Return the share of the held-out images that are classified right."""
        return self.step(params, self.test)[2]["accuracy"]


def load_images() -> Batch:
    """Return the images, float32 (1797, 64) from 0 to 1, and their classes, 0 to 9."""
    check_installed()
    # Its file is read and scikit-learn not imported, which takes a second.
    package = find_spec("sklearn")
    assert package is not None, "it is installed"
    assert package.origin is not None, "it is a file"
    path = Path(package.origin).with_name("datasets") / "data" / "digits.csv.gz"
    rows = np.loadtxt(path, delimiter=",")
    return (rows[:, :-1] / 16).astype(np.float32), rows[:, -1].astype(int)


def digits_mlp(seed: int = 0, hidden: int = 128) -> DigitsMlp:
    """Load the images and draw the initial parameters.

    Raises `NotFoundError` if scikit-learn, which has the images, is not installed.
    """
    images, labels = load_images()
    held_out = np.arange(len(images)) % 5 == 4
    dice = np.random.default_rng(seed)
    params: dict[str, Array] = {}
    sizes = (64, hidden, hidden, 10)
    for layer, (n_in, n_out) in enumerate(pairwise(sizes), 1):
        spread = np.sqrt(2 / n_in)
        weights = dice.standard_normal((n_in, n_out)) * spread
        params[f"w{layer}"] = weights.astype(np.float32)
        params[f"b{layer}"] = np.zeros(n_out, np.float32)
    return DigitsMlp(
        params,
        (images[~held_out], labels[~held_out]),
        (images[held_out], labels[held_out]),
    )


def softmax_loss(logits: Array, labels: Array) -> tuple[float, Array]:
    """Return the mean cross-entropy and its gradient with respect to the logits.

    >>> loss, gradient = softmax_loss(np.zeros((1, 2), np.float32), np.array([0]))
    >>> round(loss, 4), gradient.tolist()
    (0.6931, [[-0.5, 0.5]])
    """
    # Less the largest, which changes neither result: `exp` would overflow.
    shifted = logits - logits.max(1, keepdims=True)
    likely = np.exp(shifted)
    total = likely.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float((np.log(total[:, 0]) - shifted[rows, labels]).mean())
    gradient = likely / total
    gradient[rows, labels] -= 1
    gradient /= gradient.dtype.type(len(labels))
    return loss, gradient
