"""Arrays that cross between a program and the tasks of its own process.

What goes over a link is copied by that. Within one process an array would be shared: a
user who changes a fetched array would change a variable, and a variable that was set
from a fed array would follow what the user does with it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from kit.graph.table import lookup
from kit.session.master.partition import Segment


def keeps_feeds(segment: Segment) -> bool:
    """Whether a segment may keep what it is fed beyond its run, in a variable or queue.

    Most that only compute do not; a copy is saved for them.
    """
    return any(
        op_def.stateful and len(node.inputs) > len(op_def.refs)
        for node in segment.nodes
        for op_def in (lookup(node.type),)
    )


def taken_over(values: list[Any]) -> list[Any]:
    """Return results that are the caller's alone; what others hold too is copied.

    A view may be of anything, so it is copied as well. Nothing else must refer to the
    list's own arrays: that is how those that nobody shares are told.
    """
    return [_mine(values, i) for i in range(len(values))]


def _mine(values: list[Any], i: int) -> Any:
    n_references = sys.getrefcount(values[i])
    value = values[i]
    if not isinstance(value, np.ndarray):
        return value
    if n_references <= _ALONE and value.base is None:
        return value
    return value.copy()


# Measured, as it differs between versions of Python: the list, and the call itself.
_ALONE = (lambda values: sys.getrefcount(values[0]))([np.zeros(1)])
