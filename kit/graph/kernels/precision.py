"""Half precision: stored in 16 bits, computed in 32.

A sum of halves loses a bit for every doubling of its length, and no processor of a
host computes them fast. So a kernel widens what it reads and narrows what it returns.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

# Any: an array of whichever module computes.
Array = Any


def widened(xp: ModuleType, x: Array) -> Array:
    """Return a float array to compute with: `x` itself, or half precision as float32.

    >>> import numpy as np
    >>> widened(np, np.ones(2, np.float16)).dtype.name
    'float32'
    """
    return x.astype(xp.float32) if x.dtype.itemsize < 4 else x
