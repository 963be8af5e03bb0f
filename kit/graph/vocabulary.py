"""Which of numpy's functions mean which ops: two tables that `kit.graph.ops` fills.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

B = TypeVar("B", bound=Callable[..., Any])

UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
# Given a tensor and what stands in the brackets.
SLICING: list[Callable[[Any, Any], Any]] = []


def speaks(*functions: Callable[..., Any]) -> Callable[[B], B]:
    """Let the decorated builder stand for these numpy functions when given tensors."""

    def enter(builder: B) -> B:
        for function in functions:
            if isinstance(function, np.ufunc):
                UFUNCS[function] = builder
            else:
                FUNCTIONS[function] = builder
        return builder

    return enter
