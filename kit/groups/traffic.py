"""What a group has moved: measured where it arrived, beside what the formulas say."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from kit.errors import KitError
from kit.groups.state import GroupState
from kit.trace.clock import ClockOffset
from kit.trace.log import Rows, rows
from kit.trace.named_rows import CallRow, EpochRow, Kept
from kit.trace.trace import Trace
from kit.trace.traffic import RECEIPT, SPAN, STEP, TOTAL, TRANSFER, TransferKind

TABLES = (TRANSFER, SPAN, STEP, RECEIPT)  # of an account with details
GROUP = "group"  # what an epoch has for a topology: each call may have another
_ASK_S, _FAR = 5.0, 2**62


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
        return sum(link.measured for link in self.links)

    @property
    def formula(self) -> int:
        """All bytes that should have."""
        return sum(link.formula for link in self.links)

    def __repr__(self) -> str:
        head = ("from", "to", "kind", "measured", "formula")
        table = [head, *(tuple(map(_shown, link)) for link in self.links)]
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


def account(
    state: GroupState, *, details: bool, most: int | None = None
) -> tuple[dict[str, Any], bytes]:
    """Return what this task has counted, for the others; at most `most` rows of each.

    With details also the newest rows of `TABLES`, one table after the other.
    """
    report: dict[str, Any] = {
        "totals": [list(map(int, row)) for row in state.meter.totals().tolist()],
        "formula": [[*map(int, key), n] for key, n in state.formula.items()],
    }
    if not details:
        return report, b""
    meter, history = state.meter, state.history
    logs = meter.transfers, meter.spans, meter.steps, history.receipts
    added = [log.added for log in logs]
    tables = [log.newest(log.added if most is None else most) for log in logs]
    call = state.call
    report |= {
        "counts": [len(table) for table in tables],
        "is_cut": [n > len(table) for n, table in zip(added, tables, strict=True)],
        "highest": [[*map(int, pair)] for pair in sorted(history.highest.items())],
        "calls": [note.to_plain() for note in list(history.notes)],
        "unread": state.unread(),
        "doing": call.seen.words if call is not None else "",
        "now": time.monotonic_ns(),
    }
    return report, b"".join(table.tobytes() for table in tables)


def traffic_of(state: GroupState) -> GroupTraffic:
    """Return the bytes of all links, asked of all tasks."""
    names = [task.short for task in state.members.tasks]
    statuses = [item.status for item in _accounts(state, details=False)]
    return traffic_in(names, statuses, state.members.me)


def traffic_in(
    names: Sequence[str], statuses: Sequence[Mapping[str, Any]], by: int
) -> GroupTraffic:
    """Return the bytes of all links, from what each task has told; empty: nothing.

    All have the same formula of the calls, so that of task number `by` is taken, and
    each has that of what it has sent.
    """
    measured, formula = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
    for rank, status in enumerate(statuses):
        for source, destination, kind, _, n_bytes, _ in status.get("totals", ()):
            measured[source, destination, kind] += n_bytes
        for source, destination, kind, n_bytes in status.get("formula", ()):
            is_message = kind == TransferKind.MESSAGE
            if n_bytes and rank == (source if is_message else by):
                formula[source, destination, kind] += n_bytes
    return GroupTraffic(
        tuple(
            LinkTraffic(
                *(names[key[0]], names[key[1]], TransferKind(key[2]).name.lower()),
                *(measured[key], formula[key]),
            )
            for key in sorted({*measured, *formula})
        )
    )


class GroupAccount(NamedTuple):
    """What a task has counted, and by how much its clock is ahead of ours."""

    status: Mapping[str, Any]
    blob: bytes | bytearray
    clock: ClockOffset

    def tables(self) -> list[Rows]:
        """Return its `TABLES` by our clock; empty ones if it told none."""
        result, at = list[Rows](), 0
        for dtype, count in zip_longest(TABLES, self.status.get("counts", ())):
            table = np.frombuffer(self.blob, dtype, count or 0, at).copy()
            result.append(self.clock.here(table))
            at += table.nbytes
        return result


def trace_of(state: GroupState) -> Trace:
    """Return all messages of all tasks, asked of them."""
    members = state.members
    names = [str(task) for task in members.tasks]
    accounts = _accounts(state, details=True)
    return joined(names, str(members.link), accounts, members.settings.insecure)


def joined(
    tasks: Sequence[str], link: str, accounts: Sequence[GroupAccount], insecure: bool
) -> Trace:
    """Return the trace of a group from the accounts of its tasks.

    A call is a step of it. After a failure tasks count their calls anew; here the
    numbers go on.
    """
    before = calls_before([item.status for item in accounts])
    tables: list[list[Rows]] = [[] for _ in TABLES]
    totals, firsts = list[tuple[int, ...]](), [0]
    for report in accounts:
        totals += [tuple(row) for row in report.status.get("totals", ())]
        mine = report.tables()
        for into, table in zip(tables, _numbered(mine, before), strict=True):
            into.append(table)
        for table, is_cut in zip(
            mine[:3], report.status.get("is_cut", ()), strict=False
        ):
            if is_cut:
                firsts.append(int(table["step"].min()) + 1)
    transfers, spans, steps, receipts = map(np.concatenate, tables)
    first = int(transfers["start"].min()) if len(transfers) else 0
    return Trace(
        tuple(tasks),
        tuple(EpochRow(n + 1, GROUP, at, first, link) for n, at in before.items()),
        transfers,
        spans,
        steps,
        rows(TOTAL, totals),
        kept=Kept(details=max(firsts)),
        insecure=insecure,
        calls=_calls([item.status for item in accounts], before),
        receipts=np.concatenate([receipts, _unread(accounts)]),
    )


def calls_before(statuses: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Return how many calls there were before each generation."""
    highest = {0: 0}
    for status in statuses:
        for generation, number in status.get("highest", ()):
            highest[generation] = max(number, highest.get(generation, 0))
        for _, _, generation, *_ in status.get("unread", ()):
            highest.setdefault(generation, 0)
        for _, _, _, epoch, *_ in status.get("totals", ()):
            highest.setdefault(epoch - 1, 0)
    counts, n_calls = {}, 0
    for generation, number in sorted(highest.items()):
        counts[generation] = n_calls
        n_calls += number
    return counts


def _numbered(tables: list[Rows], before: Mapping[int, int]) -> list[Rows]:
    """Let the numbers of calls go on from one generation to the next, in place."""
    transfers, spans, steps, _ = tables
    begun = spans["start"].copy()
    # From the newest: what began before a generation has the number of the one before.
    for generation, n_calls in sorted(before.items(), reverse=True):
        mine = steps[steps["epoch"] == generation + 1]
        since = int(mine["start"].min()) if len(mine) else _FAR
        since = since if generation else 0
        spans["step"][begun >= since] += n_calls
        begun[begun >= since] = -1
        for table in (transfers, steps):
            table["step"][table["epoch"] == generation + 1] += n_calls
    return tables


def _calls(
    statuses: Sequence[Mapping[str, Any]], before: Mapping[int, int]
) -> tuple[CallRow, ...]:
    """Return the calls as the first task that has told any has made them."""
    notes = next((status["calls"] for status in statuses if status.get("calls")), ())
    return tuple(
        CallRow(first + before[generation], last + before[generation], *rest)
        for generation, first, last, *rest in notes
        if generation in before
    )


def _unread(accounts: Sequence[GroupAccount]) -> Rows:
    """Return the messages that nobody has asked for yet, without an end."""
    return rows(
        RECEIPT,
        [
            (source, rank, generation + 1, 0, tag, n_bytes, sent, usable, 0, 0)
            for rank, item in enumerate(accounts)
            for source, tag, generation, n_bytes, sent, usable in item.status.get(
                "unread", ()
            )
        ],
    )


def _accounts(state: GroupState, *, details: bool) -> list[GroupAccount]:
    members, accounts = state.members, list[GroupAccount]()
    for rank in range(len(members.tasks)):
        if rank == members.me:
            accounts.append(
                GroupAccount(*account(state, details=details), ClockOffset())
            )
            continue
        try:
            asked = time.monotonic_ns()
            status, blob = state.talks.ask(
                *(members, rank, "group.account", {"details": details}),
                deadline_s=_ASK_S,
            )
            accounts.append(GroupAccount(status, blob, heard(asked, status)))
        except KitError as error:
            error.add_note(f"{members.tasks[rank].short} was asked what it counted.")
            raise
    return accounts


def heard(asked: int, reply: Mapping[str, Any]) -> ClockOffset:
    """Return how far the clock of a task is ahead that was asked at a time (ns)."""
    clock = ClockOffset()
    if "now" in reply:
        clock.hear(asked, reply["now"], time.monotonic_ns())
    return clock
