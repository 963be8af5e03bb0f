"""Gradients by the definition of a derivative, and arrays back on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Host = npt.NDArray[Any]


def host(x: Any) -> Host:
    """Return a kernel's result, of whichever module, as a numpy array."""
    return np.asarray(x.get() if hasattr(x, "get") else x)


def slopes(f: Callable[[Host], float], x: Host, step: float = 1e-5) -> Host:
    """Return df/dx by central differences, one number after the other."""
    result = np.zeros_like(x)
    for spot in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[spot] += step
        down[spot] -= step
        result[spot] = (f(up) - f(down)) / (2 * step)
    return result
