"""The tables of a group: its newest calls, its links, and what can be typed.

Pure. Bytes that were measured are beside those of the formula.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit.markup import Html, element, markup, rows_table
from kit.trace.named_rows import CallRow
from kit.trace.trace import Trace
from kit.trace.traffic import TransferKind
from kit.trace.waits import milliseconds, waits_in
from widgets.board.run_state import GroupFacts, Moment

_UNKNOWN = "\u2013"
_MOST = 12  # rows of calls; a loop of like calls is one
COMMANDS = [
    ("bytes of each link, and by formula", "group.traffic"),
    ("all messages with their times", "group.trace"),
    ("keep what was recorded", 'group.trace.save("group.json")'),
    ("show this board again", "group.board()"),
    ("slower links", 'group = kit.group(link="100mbit,5ms")'),
    ("another algorithm", 'group.all_reduce(x, algorithm="mesh")'),
    ("who waited for whom", "%%on worker --trace"),
]


def calls(trace: Trace) -> Html:
    """Return the newest calls as a table: bytes beside the formula, and time."""
    rows = (trace.calls or ())[-_MOST:]
    more = len(trace.calls or ()) - len(rows)
    caption = "The calls, the newest last; bytes and times are of one call"
    caption += f". {more:,} older rows are left out" if more else ""
    heads = ["call", "what", "bytes", "formula", "ms", "waiting"]
    cells = [_call(trace, row) for row in rows]
    return _scrolled(rows_table(caption, heads, cells, class_="ps-calls"))


def _scrolled(table: Html) -> Html:
    return element("div", table, class_="ps-scroll")


def _call(trace: Trace, row: CallRow) -> Sequence[object]:
    steps, moved = trace.steps, trace.transfers
    mine = steps[(steps["step"] >= row.first) & (steps["step"] <= row.last)]
    numbers = np.unique(mine["step"])
    table = moved[np.isin(moved["step"], numbers)]
    table = table[table["kind"] != TransferKind.MESSAGE]
    n = len(numbers)
    spent = int((mine["end"] - mine["start"]).sum())
    which = f"{row.first:,}"
    if row.last > row.first:
        which += f"\u2013{row.last:,}"
    n_bytes, ms, waiting = _UNKNOWN, _UNKNOWN, _UNKNOWN
    if n:
        mean = int(table["bytes"].sum()) / n
        n_bytes = f"{mean:,.0f}"
        took = [mine[mine["step"] == number] for number in numbers[-200:]]
        longest = [int(rows["end"].max() - rows["start"].min()) for rows in took]
        ms = milliseconds(sum(longest) / len(longest))
        if spent > 0:
            waiting = f"{100 * int(mine['wait'].sum()) / spent:.0f} %"
    what = markup("<code>{}</code> {}", row.text, row.line)
    return which, what, n_bytes, f"{row.formula:,}", ms, waiting


def waits(trace: Trace) -> Html:
    """Return who waited how long for whose messages, the longest first."""
    rows = [
        (wait.task, wait.source, _line(wait.line), f"{wait.n:,}", wait.duration)
        for wait in waits_in(trace)[:_MOST]
    ]
    heads = ["task", "waited for", "receive in", "messages", "waited"]
    return _scrolled(rows_table("Who waited for whom", heads, rows))


def _line(number: int) -> str:
    return f"line {number}" if number else ""


def links(moment: Moment, facts: GroupFacts) -> Html:
    """Return each link with its bytes, measured and by formula."""
    rows = [
        (
            f"{moment.where(link[0])} to {moment.where(link[1])}",
            f"{moment.per_step.get(link, 0):,.0f}",
            f"{facts.formulas.get(link, 0):,}" if facts.formulas else _UNKNOWN,
        )
        for link in sorted({*moment.per_step, *facts.formulas})
    ]
    caption = "What each link has carried so far"
    n_bytes: float = facts.measured
    formula = facts.formula
    if facts.is_of_calls:
        caption = f"What each link carried, {moment.stretch}"
        n_bytes, formula = moment.numbers.measured or 0, moment.numbers.formula
    whole = _UNKNOWN if formula is None else f"{formula:,}"
    rows.append(("all links", f"{n_bytes:,.0f}", whole))
    return rows_table(caption, ["link", "bytes measured", "by formula"], rows)
