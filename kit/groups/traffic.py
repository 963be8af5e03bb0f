"""What a group has moved: measured where it arrived, beside what the formulas say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kit.errors import KitError
from kit.groups.state import GroupState
from kit.trace.log import Rows, rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import SPAN, TOTAL, TRANSFER, TransferKind

_ASK_S = 5.0


class LinkTraffic(NamedTuple):
    """The bytes from one task to another, of one kind."""

    source: str
    destination: str
    kind: str
    measured: int
    formula: int


@dataclass(frozen=True)
class GroupTraffic:
    """Bytes that a group has moved so far; shows itself as a table.

    The formula is that of the calls that were completed, and of what was sent.

    Parameters
    ----------
    links : tuple of LinkTraffic
        Each link and kind of transfer.
    """

    links: tuple[LinkTraffic, ...]

    @property
    def measured(self) -> int:
        """All bytes that have arrived."""
        return sum(one.measured for one in self.links)

    @property
    def formula(self) -> int:
        """All bytes that should have."""
        return sum(one.formula for one in self.links)

    def __repr__(self) -> str:
        head = ("from", "to", "kind", "measured", "formula")
        table = [head, *(tuple(map(_shown, one)) for one in self.links)]
        table.append(("all", "", "", _shown(self.measured), _shown(self.formula)))
        widths = [max(len(row[n]) for row in table) for n in range(5)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if n < 3 else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        )


def _shown(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def account(state: GroupState, *, details: bool) -> tuple[dict[str, Any], bytes]:
    """Return what this task has counted, for the others."""
    told: dict[str, Any] = {
        "totals": [list(map(int, row)) for row in state.meter.totals().tolist()],
        "formula": [[*map(int, key), n] for key, n in state.formula.items()],
    }
    if not details:
        return told, b""
    transfers, spans = state.meter.transfers.since(0)[0], state.meter.spans.since(0)[0]
    told["n_transfers"] = len(transfers)
    return told, transfers.tobytes() + spans.tobytes()


def traffic_of(state: GroupState) -> GroupTraffic:
    """Return the bytes of all links, asked of all tasks."""
    measured, formula = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
    n_members = len(state.members.tasks)
    for rank, (told, _) in enumerate(_accounts(state, details=False)):
        for source, destination, kind, _, n_bytes, _ in told["totals"]:
            measured[source, destination, kind] += n_bytes
        for source, destination, kind, n_bytes in told["formula"]:
            is_message = kind == TransferKind.MESSAGE
            # All have the same formula of the calls, and each of what it has sent.
            if n_bytes and (rank == source if is_message else rank == state.members.me):
                formula[source, destination, kind] += n_bytes
    names = [task.short for task in state.members.tasks]
    assert len(names) == n_members
    return GroupTraffic(
        tuple(
            LinkTraffic(
                *(names[key[0]], names[key[1]], TransferKind(key[2]).name.lower()),
                *(measured[key], formula[key]),
            )
            for key in sorted({*measured, *formula})
        )
    )


def trace_of(state: GroupState) -> Trace:
    """Return all messages of all tasks, asked of them."""
    found = _accounts(state, details=True)
    transfers, spans, totals = list[Rows](), list[Rows](), list[tuple[int, ...]]()
    for told, blob in found:
        cut = told["n_transfers"] * TRANSFER.itemsize
        transfers.append(np.frombuffer(blob[:cut], TRANSFER))
        spans.append(np.frombuffer(blob[cut:], SPAN))
        totals += [tuple(row) for row in told["totals"]]
    joined = np.concatenate(transfers)
    epochs = sorted({row[3] for row in totals})
    first = int(joined["start"].min()) if len(joined) else 0
    link = str(state.members.link)
    return Trace(
        tuple(str(task) for task in state.members.tasks),
        tuple(EpochRow(number, "group", 0, first, link) for number in epochs),
        joined,
        np.concatenate(spans),
        totals=rows(TOTAL, totals),
        insecure=state.members.settings.insecure,
    )


def _accounts(
    state: GroupState, *, details: bool
) -> Sequence[tuple[dict[str, Any], bytes | bytearray]]:
    members, found = state.members, list[tuple[dict[str, Any], bytes | bytearray]]()
    for rank in range(len(members.tasks)):
        if rank == members.me:
            found.append(account(state, details=details))
            continue
        try:
            found.append(
                state.talks.ask(
                    *(members, rank, "group.account", {"details": details}),
                    deadline_s=_ASK_S,
                )
            )
        except KitError as error:
            error.add_note(f"{members.tasks[rank].short} was asked what it counted.")
            raise
    return found
