"""The metrics of a training: one record a step, made from all members' rows.

Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

import numpy as np

from kit.trace.trace import Trace
from kit.trace.traffic import Kind


class Record(TypedDict):
    """One step of the training, over all workers whose gradients count.

    `loss` is the mean over the batch's examples; `seconds` the time from the first
    worker's begin to the last one's end; `compute` and `wait` are means over the
    workers, in seconds; `staleness` is the largest. `contributors` are the workers;
    `dropped` is how many more gradients of this step came, too late to count.
    """

    step: int
    epoch: int
    topology: str
    loss: float
    examples: int
    seconds: float
    compute: float
    wait: float
    staleness: int
    contributors: tuple[str, ...]
    dropped: int


def records(trace: Trace) -> list[Record]:
    """Return the records of all steps that every worker's rows are known of."""
    counts = trace.steps["examples"] > 0
    table = trace.steps[counts]
    table = table[np.lexsort((table["task"], table["step"]))]
    late = Counter(trace.steps[~counts & (trace.steps["staleness"] > 0)]["step"])
    pushed = _pushed(trace)
    names = {row.number: row.topology for row in trace.epochs}
    steps, first = np.unique(table["step"], return_index=True)
    found: list[Record] = []
    if not len(table):
        return found
    for step, rows in zip(steps, np.split(table, first[1:]), strict=True):
        examples = int(rows["examples"].sum())
        epoch = int(rows["epoch"][0])
        who = {*rows["task"].tolist(), *pushed.get(int(step), ())}
        found.append(
            Record(
                step=int(step),
                epoch=epoch,
                topology=names.get(epoch, ""),
                loss=float((rows["loss"] * rows["examples"]).sum() / examples),
                examples=examples,
                seconds=float(rows["end"].max() - rows["start"].min()) * 1e-9,
                compute=float(rows["compute"].mean()) * 1e-9,
                wait=float(rows["wait"].mean()) * 1e-9,
                staleness=int(rows["staleness"].max()),
                contributors=tuple(trace.names[task] for task in sorted(who)),
                dropped=late[step],
            )
        )
    return found


def _pushed(trace: Trace) -> dict[int, set[int]]:
    """Return whose gradients the servers took in each step, as far as that is kept.

    A worker that is killed once its gradient has arrived leaves no row of its own.
    """
    if not (trace.totals["kind"] == Kind.LATE).any():
        return {}
    table = trace.transfers[trace.transfers["kind"] == Kind.PUSH]
    found: dict[int, set[int]] = {}
    for step, source in np.unique(table[["step", "source"]]).tolist():
        found.setdefault(step, set()).add(source)
    return found
