"""What the caller and the hooks fetch in one run, as one list and apart again.

Pure. A flat list of tensors is recognised by a session when it comes again, which a
deep structure is not: that makes a run with hooks as quick as one without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.graph.op import Op
from kit.graph.speak import Speaker
from kit.tf1.session.config import RunOptions

_SIMPLE = (Speaker, Op)


class Bundle:
    """Several structures of fetches, run as one.

    Lists and tuples of plain tensors are laid out flat; others stay what they are.

    >>> Bundle([["a", "b"], "c"]).parts([[1, 2], 3])
    [[1, 2], 3]
    """

    def __init__(self, structures: Sequence[Any]) -> None:
        self.fetches: list[Any] = []
        self._kinds: list[tuple[type | None, int]] = []
        for one in structures:
            kind = type(one)
            if kind in (list, tuple) and all(isinstance(x, _SIMPLE) for x in one):
                self._kinds.append((kind, len(one)))
                self.fetches += one
            else:
                self._kinds.append((None, 1))
                self.fetches.append(one)

    def parts(self, values: Sequence[Any]) -> list[Any]:
        """Return the values in the structures."""
        found: list[Any] = []
        at = 0
        for kind, length in self._kinds:
            some = values[at : at + length]
            found.append(some[0] if kind is None else kind(some))
            at += length
        return found


def merged(given: RunOptions | None, more: Sequence[RunOptions]) -> RunOptions:
    """Return the options of a run that does all that each of these asks for.

    Of numbers the largest counts; a switch is on if it is on in one of them.
    """
    found = RunOptions()
    for one in [*([] if given is None else [given]), *more]:
        for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
            setattr(found, name, max(getattr(found, name), getattr(one, name)))
        for name in ("output_partition_graphs", "report_tensor_allocations_upon_oom"):
            setattr(found, name, getattr(found, name) or getattr(one, name))
    return found
