"""The pieces of a small network that puzzles offer: real work, in plain numpy.

Pure. A layer is `tanh(x @ w)`, all arrays are float32, and the loss is half the sum of
squares of the last layer's errors, so its gradient is `y - t`.
"""

from __future__ import annotations

import numpy as np

from kit.puzzles.task import Array

WIDTH = 100  # of a layer, so 40,000 bytes
N_LAYERS = 4
LAYER = 4 * WIDTH**2
RATE, DECAY = np.float32(0.1), np.float32(0.9)


def forward(w: Array, x: Array) -> Array:
    """Return the output of a layer, with a row for each example, like its input."""
    y: Array = np.tanh(x @ w)
    return y


def backward(w: Array, x: Array, y: Array, dy: Array) -> tuple[Array, Array]:
    """Return the gradients of a layer's input and of its weights.

    >>> w = x = np.ones((1, 1), np.float32)
    >>> backward(w, x, np.zeros_like(x), x)[1].item()
    1.0
    """
    before: Array = dy * (1 - y * y)
    return before @ w.T, x.T @ before


def linear(w: Array, x: Array) -> Array:
    """Return `x @ w`: a layer without its tanh."""
    y: Array = x @ w
    return y


def linear_backward(w: Array, x: Array, dy: Array) -> tuple[Array, Array]:
    """Return the gradients of the input and of the weights of `linear`."""
    return dy @ w.T, x.T @ dy


def gradient(params: Array, x: Array, t: Array) -> Array:
    """Return the gradient of all layers, which are one after another in `params`."""
    layers = [part.reshape(WIDTH, WIDTH) for part in np.split(params, N_LAYERS)]
    return np.concatenate([slope.ravel() for slope in gradients(layers, x, t)])


def gradients(layers: list[Array], x: Array, t: Array) -> list[Array]:
    """Return the gradient of each layer."""
    seen = [x]
    for w in layers:
        seen.append(forward(w, seen[-1]))
    dy, slopes = seen[-1] - t, []
    for k in reversed(range(len(layers))):
        dy, g = backward(layers[k], seen[k], seen[k + 1], dy)
        slopes.append(g)
    return slopes[::-1]


def weights(dice: np.random.Generator) -> Array:
    """Return a layer's weights: WIDTH x WIDTH."""
    w: Array = dice.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH)
    return w.astype(np.float32)


def batch(dice: np.random.Generator, rows: int) -> Array:
    """Return numbers between -1 and 1: an input, or what the output should be."""
    return dice.uniform(-1, 1, (rows, WIDTH)).astype(np.float32)
