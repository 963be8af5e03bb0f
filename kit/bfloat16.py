"""bfloat16: a float32 without its last 16 bits, which ml_dtypes gives to numpy.

Pure. With it `np.dtype("bfloat16")` is known. Its kind is V to numpy, as of bytes that
mean nothing, and its `str` is the same for all types of ml_dtypes: take its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

BFLOAT16: Final[np.dtype[Any]] = np.dtype(ml_dtypes.bfloat16)
# As np.finfo, which does not know bfloat16.
limits_of: Final[Callable[[Any], Any]] = ml_dtypes.finfo


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return numpy's letter for what numbers a dtype has; f of bfloat16.

    >>> kind_of(np.dtype("int8")), kind_of(np.dtype("bfloat16"))
    ('i', 'f')
    """
    kind = dtype.kind
    return "f" if kind == "V" and dtype == BFLOAT16 else kind
