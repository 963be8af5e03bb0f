"""What others may see of a member while its training goes on: news, and parameters.

Nothing here stops the training. The parameters of the last step stay whole in their
region until the next step is done, so a copy is good if the step number is the same
before and after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    UnavailableError,
    to_plain,
)
from kit.trace.log import Rows
from kit.trace.log import rows as rows_of
from kit.trace.traffic import MEASURE, SPAN, STEP, TOTAL, TRANSFER
from kit.training.core.activity import activity
from kit.training.core.member import Member

MOST_ROWS = 50_000  # of each kind in one answer; the caller comes back for the rest
_TRY_FOR_S = 5.0
LOGS = (TRANSFER, SPAN, STEP, MEASURE)
N_CURSORS = len(LOGS) + 1  # of the lines that were printed, too
_DTYPES = (*LOGS, TOTAL)


def poll(
    member: Member, cursors: list[int], most: int = MOST_ROWS
) -> tuple[dict[str, Any], bytes]:
    """Return state and the news since cursors (`LOGS`, and the lines printed).

    At most `most` rows of each; "more" says that there are others.

    The blob holds the new rows of these logs and the exact totals, one after the
    other, as little-endian structured arrays. A log without a cursor begins at 0.
    """
    # First: a member that ends while its rows are read would else be reported as over
    # without the last of them.
    is_stuck, error, meter = member.is_stuck, member.final_error, member.meter
    is_over = is_stuck or member.is_over
    logs = (meter.transfers, meter.spans, meter.steps, meter.measures)
    *begun, n_printed = [*cursors, *[0] * (N_CURSORS - len(cursors))]
    news = [
        (log.since(cursor, most) if log else (rows_of(MEASURE), 0))
        for log, cursor in zip(logs, begun, strict=True)
    ]
    rows = [rows_new for rows_new, _ in news] + [meter.totals()]
    status = {
        "now": time.monotonic_ns(),
        "state": "failed" if is_stuck else member.state if is_over else "running",
        "stuck": is_stuck,
        "step": member.step,
        "error": to_plain(error) if error else None,
        "epochs": [list(epoch) for epoch in member.epochs],
        "cursors": [cursor for _, cursor in news],
        "counts": [len(row) for row in rows],
        "n_steps": list(meter.n_steps.copy().items()),
        "more": any(
            log is not None and cursor < log.added
            for (_, cursor), log in zip(news, logs, strict=True)
        ),
        "doing": member.last_doing or activity(member),
        "leads": member.coordinator.status() if member.coordinator else None,
    }
    lines, n_lines = member.printed.since(n_printed)
    if lines:
        status["printed"] = {"lines": lines, "end": n_lines}
    return status, b"".join(row.tobytes() for row in rows)


def unpack_news(counts: list[int], blob: bytes | bytearray) -> list[Rows]:
    """Return the arrays that `poll` put into its blob."""
    tables: list[Rows] = []
    start = 0
    for dtype, count in zip(_DTYPES, counts, strict=True):
        tables.append(np.frombuffer(blob, dtype, count, start))
        start += count * dtype.itemsize
    return tables


def parameters(
    member: Member, clock: Callable[[], float] = time.monotonic
) -> tuple[int, bytes]:
    """Return the step and the flat parameters after it, without stopping anything.

    Raises `UnavailableError` when there are none yet, `FailedPreconditionError` when
    there are none any more, and `DeadlineExceededError` when the steps are too short to
    copy between two of them.
    """
    context = member.context
    if context is None or not member.epochs:
        error = FailedPreconditionError if member.is_over else UnavailableError
        raise error(f"{member.task} has no parameters: the training is {member.state}.")
    give_up = clock() + _TRY_FOR_S
    while clock() < give_up:
        before = context.moment
        flat = context.parameters()
        if context.moment == before:
            return before[0], flat
    raise DeadlineExceededError(
        f"{member.task} makes steps faster than its parameters can be copied; pause "
        f"the run first: run.pause()."
    )
