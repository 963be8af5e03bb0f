"""A fence between accesses to memory that is shared with other processes.

A processor may let others see its stores, and may itself load, in another order than
the program has. x86-64 only lets a load overtake an earlier store; ARM lets everything
overtake everything. With a fence, all that stands before it is visible before anything
after it happens. `hops.c` has its own. Python has none, so this one is compiled, and
takes some 60 ns to call.

    writes data      reads the counter
    fence            fence
    counts it        reads the data
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Final

from kit.native import library

_FORM: Final = 1  # as in memory_order.c


def _nothing() -> None:
    """Stand in for a fence on x86-64, where no data is read early without one.

    There a member may still fall asleep as it is rung; its slice of sleep ends that.
    """


# PyDLL: to give up the interpreter's lock would cost more than the fence.
_compiled = library("kit._memory_order", _FORM, ctypes.PyDLL)
if _compiled is not None:
    _compiled.kit_fence.restype = None
HAS_FENCE: Final = _compiled is not None
fence: Final[Callable[[], None]] = _compiled.kit_fence if _compiled else _nothing


def can_share(
    machine: str = os.uname().machine, *, has_fence: bool = HAS_FENCE
) -> bool:
    """Whether processes may work in each other's memory; else bytes must travel.

    >>> can_share("aarch64", has_fence=False), can_share("x86_64", has_fence=False)
    (False, True)
    """
    return has_fence or machine == "x86_64"
