"""Which configuration was in force for which steps of a recorded training.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.trace.named_rows import EpochRow


@dataclass(frozen=True)
class Stretch:
    """Steps `begin` to `end`, without `end`, in one configuration."""

    row: EpochRow
    begin: int
    end: int


def stretches(epochs: Sequence[EpochRow], n_steps: int) -> list[Stretch]:
    """Return the configurations in their order, with their steps.

    Steps that a later generation of an elastic training repeated are there once.

    >>> rows = [EpochRow(1, "ps", 0, 0, ""), EpochRow(2, "ring", 7, 0, "")]
    >>> again = EpochRow(3, "ring", 4, 0, "", "", 1)
    >>> [(s.row.number, s.begin, s.end) for s in stretches([*rows, again], 9)]
    [(1, 0, 4), (3, 4, 9)]
    """
    kept: list[EpochRow] = []
    for row in epochs:
        # Going back undid every configuration that began at this step or after it.
        while row.generation and kept and kept[-1].first_step >= row.first_step:
            kept.pop()
        kept.append(row)
    ends = [*(row.first_step for row in kept[1:]), n_steps]
    return [
        Stretch(row, row.first_step, max(row.first_step, end))
        for row, end in zip(kept, ends, strict=True)
    ]
