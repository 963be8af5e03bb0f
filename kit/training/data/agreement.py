"""Whether all workers read the same data: what each reports of them.

Pure. A source of which every worker has its own, and reads the same mini-batches as all
others to keep its rows of them, says so in `report`: in the first mini-batch of each
pass, and in the first one that a worker reads at all. The coordinator compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kit.crc import digest

_MOST = 1000  # passes, and mini-batches, that are remembered


class DataReport(NamedTuple):
    """What a worker reports of the mini-batch of a step.

    Attributes:
        step: whose mini-batch it is.
        pass_index: how many times all examples had been read before.
        begin: the step with which this pass began.
        length: of the source, in its own unit; -1 where that is not known.
        digest: of the whole mini-batch, not of one worker's rows.
    """

    step: int
    pass_index: int
    begin: int
    length: int
    digest: int

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> DataReport:
        """Rebuild a report from what JSON makes of it."""
        return cls(*map(int, plain))


def batch_digest(parts: Sequence[Any]) -> int:
    """Return a digest of arrays: their values, dtypes and shapes.

    >>> batch_digest([np.zeros(2)]) == batch_digest([np.zeros(2, np.float32)])
    False
    """
    pieces: list[Any] = []
    for part in map(np.ascontiguousarray, parts):
        pieces.append(f"{part.dtype}{part.shape}".encode())
        if not part.dtype.hasobject:  # their bytes would be addresses
            pieces.append(part.reshape(-1).view(np.uint8).data)
    return digest(pieces)


class DataComparison:
    """What the workers of a training have reported, as far as others can differ.

    >>> same, comparison = DataReport(0, 0, 0, 10, digest=7), DataComparison()
    >>> comparison.note(0, same), comparison.note(1, same)
    (None, None)
    >>> comparison.note(2, same._replace(digest=8))
    (0, 'their mini-batch of step 0 holds other examples')
    """

    def __init__(self) -> None:
        self._lengths: tuple[int, int] | None = None  # a member, and its source's
        self._begins: dict[int, tuple[int, int]] = {}  # by pass, of its first reporter
        self._digests: dict[int, tuple[int, int]] = {}  # by step

    def note(self, member: int, report: DataReport) -> tuple[int, str] | None:
        """Compare a report; returns whose is another one, and what differs."""
        if self._lengths is None:
            self._lengths = member, report.length
        other, length = self._lengths
        if length != report.length:
            return other, f"they have the lengths {report.length} and {length}"
        other, begin = _first(self._begins, report.pass_index, member, report.begin)
        if begin != report.begin:
            return other, (
                f"they begin pass {report.pass_index} over the data at the steps "
                f"{report.begin} and {begin}"
            )
        other, value = _first(self._digests, report.step, member, report.digest)
        if value != report.digest:
            return other, f"their mini-batch of step {report.step} holds other examples"
        return None


def _first(
    table: dict[int, tuple[int, int]], key: int, member: int, value: int
) -> tuple[int, int]:
    if key not in table and len(table) == _MOST:
        del table[next(iter(table))]
    return table.setdefault(key, (member, value))
