"""What a training looks like in a notebook: a small table.

Pure. It is plain semantic HTML without colours of its own, so it is readable on light
and on dark ground, and complete without any script. The live board is in `widgets`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kit.exchange.topologies.topology import maybe_by_name
from kit.markup import Html, joined, rows_table
from kit.trace.named_rows import Change, EpochRow
from kit.training.client.metrics import Entry

#: Where to look when a training has failed.
LOOK = "run.flight() shows what each task did and waited for"


@dataclass(frozen=True)
class RunReport:
    """A training as it is at one moment; `traffic` is empty until it is over.

    `changes` are what an elastic training has lost, taken in and let go; `chosen` says
    why it began with its topology, if that was to be chosen; `warning` says that its
    links are not encrypted.
    """

    run: str
    state: str
    step: int
    steps: int
    loss: float
    epochs: Sequence[EpochRow] = ()
    switching: str = ""
    error: str = ""
    traffic: Sequence[Entry] = ()
    saved: str = ""
    kept: str = ""
    changes: Sequence[Change] = ()
    chosen: str = ""
    warning: str = ""


def table(picture: RunReport) -> Html:
    """Return the training as HTML: facts, and the bytes of each task when it is over.

    >>> text = table(RunReport("abc123", "running", 3, 10, 0.5))
    >>> "<td>3 of 10</td>" in text, "bytes" in text
    (True, False)
    """
    caption = f"Training {picture.run[:8]}: {picture.state}"
    account = _account(picture.traffic) if picture.traffic else ""
    changed = _changes(picture.changes) if picture.changes else ""
    return joined([rows_table(caption, (), _facts(picture)), changed, account])


def _facts(picture: RunReport) -> list[tuple[str, str]]:
    facts = [("step", f"{picture.step:,} of {picture.steps:,}")]
    if picture.epochs:
        facts.append(("topology", _topology(picture)))
    if (agreed := _agreed_before(picture.epochs)) is not None:
        facts.append(("parameters", f"{_OLD} {agreed:,}; {_UNTIL}"))
    if picture.chosen:
        facts.append(("chosen", picture.chosen))
    if not math.isnan(picture.loss):
        facts.append(("loss", f"{picture.loss:.4g}"))
    if picture.saved:
        facts.append(("checkpoints", picture.saved))
    if picture.kept:
        facts.append(("trace", picture.kept))
    if picture.warning:
        facts.append(("links", picture.warning))
    if picture.error:
        facts += [("error", picture.error), ("why", LOOK)]
    return facts


def _topology(picture: RunReport) -> str:
    """Return what held from which step on, and what is requested."""
    parts, before = [], ""
    for row in picture.epochs:
        how = f"{row.topology}{f' at {row.link}' if row.link else ''}"
        if how != before:  # another epoch may only have other tasks
            parts.append(f"{how} from step {row.first_step:,}")
        before = how
    if picture.switching:
        parts.append(f"switching to {picture.switching}")
    return ", ".join(parts)


_OLD = "the workers have differed since step"
_UNTIL = "run.params are older, until the step in which all agree again"


def _agreed_before(epochs: Sequence[EpochRow]) -> int | None:
    """Return the step since which workers do not agree; None where they do."""
    agreed = None
    for row in epochs:
        topology = maybe_by_name(row.topology)
        if topology is None or topology.agrees:
            agreed = None
        elif agreed is None:
            agreed = row.first_step
    return agreed


def _changes(changes: Sequence[Change]) -> Html:
    heads = (
        "change",
        "at step",
        "steps done again",
        "seconds to agree",
        "what was noticed",
    )
    rows = (
        (
            change.label,
            f"{change.step:,}",
            f"{change.repeated:,}",
            f"{change.seconds:.2f}",
            change.reason,
        )
        for change in changes
    )
    return rows_table("Tasks lost, joined and left", heads, rows)


def _account(entries: Sequence[Entry]) -> Html:
    heads = ("topology", "task", "steps", "sent", "received", "by formula")
    return rows_table("Gradient traffic in bytes", heads, map(_row, entries))


def _row(entry: Entry) -> tuple[str, ...]:
    formula = f"{entry.formula_sent:,} and {entry.formula_received:,}"
    return (
        entry.topology,
        entry.task,
        f"{entry.steps:,}",
        f"{entry.sent:,}",
        f"{entry.received:,}",
        "the same" if entry.agrees else formula,
    )
