"""Each figure in words: what it shows, in a sentence for reading aloud.

Pure. The sentences are made from the same columns as the figures, so the two cannot
disagree. They are for those who cannot see the figure, and for the record.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kit.trace.named_rows import listed as listed
from kit.trace.trace import Ints, Trace
from kit.trace.traffic import Phase
from widgets.drawing import figure_data
from widgets.drawing.figure_data import MB, Columns, TimeWindow

LEAST_RATE = 500.0  # bytes a second; less would be written as 0.000 MB/s
MB_A_SECOND = " MB/s"
_NOTHING = "Nothing was recorded for this figure."
PREDICTED = "Predicted by a rehearsal, not measured; its bytes are exact."


def loss(trace: Trace) -> str:
    """Say how the loss went and where the topology changed."""
    steps, values = trace.losses()
    if not len(steps):
        return _NOTHING
    width = figure_data.mean_width(len(steps))
    mean = f"; the thick line is the mean of {width} steps" if width > 1 else ""
    went = (
        f"The loss goes from {values[0]:.3g} at step {steps[0]} to {values[-1]:.3g} at "
        f"step {steps[-1]}{mean}."
    )
    return f"{went} {_switches(figure_data.switches(trace))}"


def _switches(switches: Columns) -> str:
    if not switches["step"]:
        return "The configuration stayed the same throughout."
    pairs = zip(switches["label"], switches["step"], strict=True)
    changes = [f"{label} at step {step}" for label, step in pairs]
    if len(changes) > 6:
        changes[6:] = [f"{len(changes) - 6} more"]
    return f"Changes on the way: {listed(changes)}."


def speed(rate: float) -> str:
    """Return bytes a second in words.

    >>> speed(12_345_678), speed(2_000), speed(5.91), speed(0), speed(2.5e9)
    ('12.3 MB/s', '0.002 MB/s', '5.91 B/s', '0', '2,500 MB/s')
    """
    if rate <= 0:
        return "0"
    if rate < LEAST_RATE:
        return f"{rate:.3g} B/s"
    value = rate / MB
    decimals = max(0, min(3, 2 - math.floor(math.log10(value))))
    return f"{value:,.{decimals if value < 100 else 0}f}{MB_A_SECOND}"


def links(lines: dict[str, Columns]) -> str:
    """Say which links carried the most and how much on average."""
    if not lines:
        return _NOTHING
    single = {
        n: line for n, line in lines.items() if not n.endswith(figure_data.OTHERS)
    }
    means = {name: _mean_rate(line) for name, line in single.items()}
    busiest = sorted(means, key=lambda name: -means[name])[:3]
    parts = [f"{name} ({speed(MB * means[name])})" for name in busiest]
    peak_name = max(single, key=lambda name: single[name]["rate"].max())
    peak = single[peak_name]["rate"].max()
    return (
        f"Over the whole time shown, most was carried by {listed(parts)} on average; "
        f"the highest rate was {speed(MB * peak)}, on {peak_name}."
    )


def _mean_rate(line: Columns) -> float:
    """Return the mean of a rate over time; its stretches differ in length."""
    length = np.diff(line["second"])
    return float((line["rate"][:-1] * length).sum() / length.sum())


def timeline(trace: Trace, view: TimeWindow, unit: str = "step") -> str:
    """Say how the tasks of each job divided the time of the steps shown."""
    spent = trace.phase_time(view.first_step, view.last_step)
    if unit == "call":  # messages between two calls have the number of the first
        inside = (trace.spans["start"] < view.end) & (trace.spans["end"] > view.start)
        spent = replace(trace, spans=trace.spans[inside]).phase_time()
    if not spent.any():
        return _NOTHING
    jobs = dict.fromkeys(name.split(":")[0] for name in trace.names)
    shares = [share for job in jobs if (share := _share(trace, job, spent))]
    where = f"{unit.capitalize()}s {view.first_step} to {view.last_step}"
    if view.first_step == view.last_step:
        where = f"{unit.capitalize()} {view.first_step}"
        if unit == "call" and not view.last_step:
            where = "The messages shown"
    switch = f", around the switch from {view.label}" if view.label else ""
    return f"{where}{switch}. Of the time recorded, {'; '.join(shares)}."


def bottleneck(trace: Trace) -> str:
    """Say what the newest steps waited for, and which steps these are."""
    cause = trace.bottleneck
    return f"The last {cause.window}: {cause}" if cause.window else str(cause)


def _share(trace: Trace, job: str, spent: Ints) -> str:
    """Return the shares of one job's time, the largest first; "" if it has none."""
    mine = [i for i, name in enumerate(trace.names) if name.split(":")[0] == job]
    total = spent[mine].sum(axis=0)
    if not total.sum():
        return ""
    verbs = {
        Phase.COMPUTE: "computed",
        Phase.SEND: "sent",
        Phase.RECEIVE: "received",
        Phase.WAIT: "waited",
        Phase.APPLY: "applied updates",
        Phase.LOAD: "loaded data",
        Phase.QUEUE: "queued for a core",
    }
    order = sorted(Phase, key=lambda phase: -total[phase])
    parts = [
        f"{verbs[phase]} {100 * total[phase] / total.sum():.0f}\u00a0%"
        for phase in order
        if total[phase] / total.sum() >= 0.005
    ]
    return f"{job} {listed(parts)}"


def volume(columns: Columns, what: str = "measured") -> str:
    """Say whether the bytes per step, `what` somehow, are those of the formula."""
    if not columns["place"]:
        return _NOTHING
    most = int(np.argmax(np.maximum(columns["sent"], columns["received"])))
    topology, task = columns["place"][most]
    busiest = (
        f"The busiest task is {task} under {topology}: it sends "
        f"{columns['sent'][most]:.3g} MB and receives {columns['received'][most]:.3g} "
        f"MB in each step."
    )
    return f"{busiest} {_agreement(columns, what)}"


def _agreement(columns: Columns, source: str) -> str:
    measured = np.array([columns["sent"], columns["received"]])
    formula = np.array([columns["formula_sent"], columns["formula_received"]])
    has_formula = ~np.isnan(formula)
    if not has_formula.any():
        return "No formula was given to compare with."
    # Less than half a byte is rounding: bytes are whole numbers, the columns are in MB.
    off = np.abs(measured - formula)[has_formula] * figure_data.MB
    n_equal = int((off < 0.5).sum())
    if n_equal == len(off):
        return f"All {n_equal} {source} values equal the formula to the byte."
    return (
        f"{n_equal} of {len(off)} {source} values equal the formula to the byte; the "
        f"largest difference is {off.max():,.0f} bytes per step."
    )
