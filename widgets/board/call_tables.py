"""The tables of a group: its newest calls, its links, and what can be typed.

Pure. Bytes that were measured are beside those of the formula.
"""

from __future__ import annotations

import numpy as np

from kit.markup import Html, joined, markup
from kit.trace.named_rows import CallRow
from kit.trace.trace import Trace
from kit.trace.traffic import TransferKind
from kit.trace.waits import waits_in
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
    return markup(
        '<div class="ps-scroll"><table class="ps-calls"><caption>{}</caption><thead>'
        '<tr><th scope="col">call</th><th scope="col">what</th>'
        '<th scope="col">bytes</th><th scope="col">formula</th>'
        '<th scope="col">ms</th><th scope="col">waiting</th></tr></thead>'
        "<tbody>{}</tbody></table></div>",
        caption,
        joined(_call(trace, row) for row in rows),
    )


def _call(trace: Trace, row: CallRow) -> Html:
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
        ms = f"{sum(longest) / len(longest) / 1e6:,.3g}"
        if spent > 0:
            waiting = f"{100 * int(mine['wait'].sum()) / spent:.0f} %"
    return markup(
        '<tr><th scope="row">{}</th><td class="ps-what"><code>{}</code> {}</td>'
        "<td>{}</td><td>{:,}</td><td>{}</td><td>{}</td></tr>",
        which,
        row.text,
        row.line,
        n_bytes,
        row.formula,
        ms,
        waiting,
    )


def waits(trace: Trace) -> Html:
    """Return who waited how long for whose messages, the longest first."""
    rows = joined(
        markup(
            '<tr><th scope="row">{}</th><td>{}</td><td>{}</td><td>{:,}</td>'
            "<td>{}</td></tr>",
            *(wait.task, wait.source, f"line {wait.line}" if wait.line else "", wait.n),
            wait.told,
        )
        for wait in waits_in(trace)[:_MOST]
    )
    return markup(
        '<div class="ps-scroll"><table><caption>Who waited for whom</caption><thead>'
        '<tr><th scope="col">task</th><th scope="col">waited for</th>'
        '<th scope="col">receive in</th><th scope="col">messages</th>'
        '<th scope="col">waited</th></tr></thead><tbody>{}</tbody></table></div>',
        rows,
    )


def links(moment: Moment, facts: GroupFacts) -> Html:
    """Return each link with its bytes, measured and by formula."""
    every = sorted({*moment.per_step, *facts.formulas})
    rows = joined(
        markup(
            '<tr><th scope="row">{} to {}</th><td>{:,.0f}</td><td>{}</td></tr>',
            moment.where(link[0]),
            moment.where(link[1]),
            moment.per_step.get(link, 0),
            f"{facts.formulas.get(link, 0):,}" if facts.formulas else _UNKNOWN,
        )
        for link in every
    )
    whole = _UNKNOWN if facts.formula is None else f"{facts.formula:,}"
    caption = "What each link has carried so far"
    if facts.is_of_calls:
        caption = f"What each link carried, {moment.stretch}"
        n_bytes, formula = moment.numbers.measured or 0, moment.numbers.formula
        whole = _UNKNOWN if formula is None else f"{formula:,}"
    else:
        n_bytes = facts.measured
    total = markup(
        '<tr><th scope="row">all links</th><td>{}</td><td>{}</td></tr>',
        f"{n_bytes:,.0f}",
        whole,
    )
    return markup(
        "<table><caption>{}</caption>"
        '<thead><tr><th scope="col">link</th><th scope="col">bytes measured</th>'
        '<th scope="col">by formula</th></tr></thead><tbody>{}{}</tbody></table>',
        caption,
        rows,
        total,
    )
