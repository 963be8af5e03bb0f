"""The model of the training benchmarks: a perceptron with two hidden layers, in numpy.

`step` and `write` have the two forms that `kit.train` takes. The gradients of the first
are new arrays each time, as a user's would be; `write` puts them into given arrays.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
SIZES = {"small": (784, 256, 128, 10), "large": (784, 2048, 2048, 10)}
BATCH = 64  # examples a worker and step
RATE = 0.01
_EXAMPLES = 4096


def parameters(widths: tuple[int, ...], seed: int = 0) -> dict[str, Floats]:
    """Return weights and biases of the layers between `widths`."""
    dice = np.random.default_rng(seed)
    result: dict[str, Floats] = {}
    for number, (rows, columns) in enumerate(pairwise(widths)):
        scale = np.float32(np.sqrt(2 / rows))
        result[f"w{number}"] = dice.standard_normal((rows, columns), np.float32) * scale
        result[f"b{number}"] = np.zeros(columns, np.float32)
    return result


def examples(widths: tuple[int, ...], seed: int = 1) -> tuple[Floats, npt.NDArray[Any]]:
    """Return inputs, and classes that the inputs determine, so there is what to learn.

    >>> x, y = examples((4, 3, 2))
    >>> x.shape, y.shape, sorted(set(y.tolist()))
    ((4096, 4), (4096,), [0, 1])
    """
    dice = np.random.default_rng(seed)
    x = dice.standard_normal((_EXAMPLES, widths[0]), np.float32)
    teacher = dice.standard_normal((widths[0], widths[-1]), np.float32)
    return x, (x @ teacher).argmax(axis=1)


def step(
    params: dict[str, Floats], batch: tuple[Floats, npt.NDArray[Any]]
) -> tuple[float, dict[str, Floats]]:
    """Return the mean cross-entropy over the batch and all gradients."""
    gradients = {name: np.empty_like(value) for name, value in params.items()}
    return write(params, batch, gradients), gradients


def write(
    params: dict[str, Floats],
    batch: tuple[Floats, npt.NDArray[Any]],
    grads: dict[str, Floats],
) -> float:
    """Return the mean cross-entropy over the batch; all gradients go into `grads`."""
    x, y = batch
    last = len(params) // 2 - 1
    values = [x]
    for number in range(last):
        hidden = values[-1] @ params[f"w{number}"]
        hidden += params[f"b{number}"]
        values.append(np.maximum(hidden, 0, out=hidden))
    scores = values[-1] @ params[f"w{last}"] + params[f"b{last}"]
    scores -= scores.max(axis=1, keepdims=True)
    delta = np.exp(scores)
    delta /= delta.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    loss = float(-np.log(delta[rows, y]).mean())
    delta[rows, y] -= 1
    delta /= np.float32(len(y))
    for number in range(last, -1, -1):
        np.matmul(values[number].T, delta, out=grads[f"w{number}"])
        delta.sum(axis=0, out=grads[f"b{number}"])
        if number:
            delta = delta @ params[f"w{number}"].T
            delta *= values[number] > 0
    return loss
