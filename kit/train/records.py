"""The metrics of a training: one record a step, made from all members' rows.

Pure.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from kit.trace import Trace


class Record(TypedDict):
    """One step of the training, over all workers.

    `loss` is the mean over the batch's examples; `seconds` the time from the first
    worker's begin to the last one's end; `compute` and `wait` are means over the
    workers, in seconds; `staleness` is the largest.
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


def records(trace: Trace) -> list[Record]:
    """Return the records of all steps that every worker's rows are known of."""
    table = trace.steps[trace.steps["examples"] > 0]
    table = table[np.argsort(table["step"], kind="stable")]
    names = {row.number: row.topology for row in trace.epochs}
    steps, first = np.unique(table["step"], return_index=True)
    found: list[Record] = []
    if not len(table):
        return found
    for step, rows in zip(steps, np.split(table, first[1:]), strict=True):
        examples = int(rows["examples"].sum())
        epoch = int(rows["epoch"][0])
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
            )
        )
    return found
