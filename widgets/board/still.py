"""A beat made of a saved trace: what a board shows of a training long over.

Pure.
"""

from __future__ import annotations

from kit.trace.trace import Trace
from widgets.board.history import TrainingHistory
from widgets.board.moment import WINDOW_NS, Moment, capacity, mean_rates, numbers
from widgets.board.pulse import Beat


def beat_of(trace: Trace) -> Beat:
    """Return the one and last beat of a trace."""
    history = TrainingHistory(trace.tasks)
    history.add(trace)
    epoch = max(trace.epochs, default=None)
    rates = mean_rates(trace)
    recent = newest(trace, 3 * WINDOW_NS)
    link = epoch.link if epoch else ""
    probe = Moment(trace.tasks, rates=rates)
    sums = [probe.sent(i) for i in range(len(trace.tasks))]
    sums += [probe.received(i) for i in range(len(trace.tasks))]
    scale, limit = capacity(link, max(sums, default=0.0))
    losses = history.loss()["loss"]
    shares = history.measure("accuracy")["value"]
    moment = Moment(
        trace.tasks,
        state="done",
        step=history.n_steps,
        steps=history.n_steps,
        topology=epoch.topology if epoch else "ps",
        link=link,
        loss=losses[-1] if losses else None,
        accuracy=shares[-1] if shares else None,
        rates=rates,
        scale=scale,
        limit=limit,
        numbers=numbers(recent, None),
        kept=str(trace.kept),
    )
    return Beat(moment, history, recent, is_last=True)


def newest(trace: Trace, length_ns: int) -> Trace:
    """Return a trace with only the rows that ended in its last `length_ns`."""
    tables = (trace.transfers, trace.spans, trace.steps)
    last = max((int(t["end"].max()) for t in tables if len(t)), default=0)
    kept = (table[table["end"] > last - length_ns] for table in tables)
    transfers, spans, steps = kept
    return Trace(trace.tasks, trace.epochs, transfers, spans, steps, trace.totals)
