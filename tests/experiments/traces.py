"""Traces made by hand, with curves that are known without reading them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit.trace.log import rows
from kit.trace.named_rows import EpochRow, Kept
from kit.trace.trace import Trace
from kit.trace.traffic import MEASURE, SPAN, STEP, TOTAL, TRANSFER, Phase, TransferKind

MS = 1_000_000
TASKS = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
PS = EpochRow(0, "ps", 0, 0, "")


def trace_of(
    losses: Sequence[float],
    sizes: Sequence[int] = (),
    *,
    epochs: Sequence[EpochRow] = (PS,),
    begin: int = 7_000 * MS,
    each: int = 10 * MS,
    keep_from: int = 0,
) -> Trace:
    """Return a training whose step k has `losses[k]` and moves `sizes[k]` bytes.

    A step takes `each` nanoseconds, a quarter of which the workers compute; the second
    worker ends a millisecond before the first. Transfers before the step `keep_from`
    are dropped, as of a long training; totals are exact.
    """
    steps, moved, spans = [], [], []
    totals: dict[tuple[int, int], list[int]] = {}
    for step, loss in enumerate(losses):
        epoch = max(row.number for row in epochs if row.first_step <= step)
        start = begin + step * each
        for task in (1, 2):
            end = start + each - (task - 1) * MS
            times = (start, end, each // 4, end - start - each // 4, 0)
            steps.append((task, step, epoch, loss, 32, *times))
            spans.append((task, Phase.COMPUTE, step, start, start + each // 4))
            spans.append((task, Phase.WAIT, step, start + each // 4, end))
            if step < len(sizes):
                where = (task, 0, TransferKind.PUSH, epoch)
                moved.append((*where, step, sizes[step] // 2, start, end))
                total = totals.setdefault((task, epoch), [0, 0])
                total[0] += sizes[step] // 2
                total[1] += 1
    return Trace(
        TASKS,
        tuple(epochs),
        rows(TRANSFER, [row for row in moved if row[4] >= keep_from]),
        rows(SPAN, spans),
        rows(STEP, steps),
        rows(
            TOTAL,
            [(task, 0, TransferKind.PUSH, e, *t) for (task, e), t in totals.items()],
        ),
        measures=rows(MEASURE),
        kept=Kept(details=keep_from),
    )


def measured(trace: Trace, name: str, values: dict[int, float]) -> Trace:
    """Return a trace in which the first worker measured something at some steps."""
    from dataclasses import replace

    result = [(1, step, name.encode(), value, 1, 0) for step, value in values.items()]
    both = np.concatenate([trace.measures, rows(MEASURE, result)])
    return replace(trace, measures=both)
