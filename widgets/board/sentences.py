"""The board in words and numbers: its status line, its row of numbers, its table.

Pure. It is made from the same moment as the picture, so the two cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.demo.verdict import number_text
from kit.markup import Html, joined, markup
from kit.settings import INSECURE
from kit.task import Task
from kit.trace.named_rows import listed
from kit.trace.trace import Trace
from widgets.board.run_state import WINDOW_NS, GroupFacts, Moment, whole_steps
from widgets.drawing.figure_data import TimeWindow


def status(moment: Moment) -> Html:
    """Return the status line as HTML: what the training does, requests, failures."""
    parts = [markup('<p class="ps-head">{}</p>', headline(moment))]
    parts += [markup('<p class="ps-wait">{}</p>', text) for text in requests(moment)]
    parts += [markup('<p class="ps-alarm">{}</p>', text) for text in alarms(moment)]
    parts += [markup('<p class="ps-note">{}</p>', text) for text in placement(moment)]
    return markup('<div class="ps-board">{}</div>', joined(parts))


def requests(moment: Moment) -> list[str]:
    """Return a phrase for each request that is not in force yet.

    >>> requests(Moment(("ps:0", "worker:0"), switching="ring", halting="pausing"))
    ['switching to ring… at the next step boundary', 'pausing… after this step']
    """
    texts = []
    if moment.switching:
        texts.append(f"switching to {moment.switching}\u2026 at the next step boundary")
    if moment.halting:
        texts.append(f"{moment.halting}\u2026 after this step")
    if moment.group is not None and not moment.is_over:
        doing = moment.group.doing
        texts += [f"{task} is in {call}" for task, call in doing.items()]
    return texts


def headline(moment: Moment) -> str:
    """Return the state of the training in one sentence without fast-moving numbers.

    >>> headline(Moment(("ps:0", "worker:0"), state="paused", step=7, steps=90))
    'Paused at step 7 of 90: ps.'
    """
    if moment.group is not None:
        return _of_group(moment, moment.group)
    how = configuration(moment)
    if moment.state == "paused" and not moment.halting:
        return f"Paused at step {moment.step:,} of {moment.steps:,}: {how}."
    if moment.state == "done":
        end = "Finished" if moment.step >= moment.steps else "Stopped"
        return f"{end} after step {moment.step:,} of {moment.steps:,}: {how}."
    if moment.state == "failed":
        return f"Failed at step {moment.step:,} of {moment.steps:,}: {how}."
    return f"Training, {moment.steps:,} steps: {how}."


def _of_group(moment: Moment, facts: GroupFacts) -> str:
    """Return the headline of a group.

    >>> headline(Moment(("worker:0",), state="done", group=GroupFacts(1, 0, 8)))
    'Group of worker:0: 1 call.'
    """
    parts = [f"{facts.n_calls:,} call{'s' * (facts.n_calls != 1)}"]
    if facts.n_messages:
        sent = f"{facts.n_messages:,} message{'s' * (facts.n_messages != 1)}"
        parts = [*parts * bool(facts.n_calls), sent]
    call = f"; the newest is {facts.call.words}" if facts.call else ""
    slow = f", links at {moment.link}" if moment.link else ""
    names = listed(moment.names)
    return f"Group of {names}: {' and '.join(parts)}{call}{slow}."


def configuration(moment: Moment) -> str:
    """Return how gradients meet, in a few words.

    >>> configuration(Moment((), topology="ps-async", link="1gbit"))
    'ps, asynchronous at 1gbit'
    """
    how = moment.plain_topology + ("" if moment.is_synchronous else ", asynchronous")
    return how + (f" at {moment.link}" if moment.link else "")


def alarms(moment: Moment) -> list[str]:
    """Return a sentence for each failure and danger: lost tasks, a refusal, the error.

    >>> alarms(Moment((), insecure=True))
    ['The links of this training have insecure=True: no encryption.']
    """
    sentences = [f"The links of this training have {INSECURE}."] * moment.insecure
    sentences += [
        text
        for name, text in moment.lost.items()
        # What the error says of the task, who watches it says in other words.
        if text not in moment.error and not _names(moment.error, name)
    ]
    if moment.refused:
        sentences.append(f"The last request was not taken up: {moment.refused}")
    return [*sentences, moment.error] if moment.error else sentences


def _names(error: str, task: str) -> bool:
    return re.search(rf"{Task.parse(task)}\b", error) is not None


def placement(moment: Moment) -> list[str]:
    """Return the last change of an elastic training, and which process hosts what."""
    lines = [change.sentence for change in moment.changes[-1:]]
    if moment.hosting and (who := moment.hosting.words()):
        lines.append(who)
    return lines


def facts(moment: Moment) -> list[tuple[str, str, str]]:
    """Return the row of numbers: name, value, remark."""
    n, when, unit = moment.numbers, moment.window, moment.unit
    formula = "" if n.formula is None else f"formula {n.formula:,}"
    if moment.group is not None:
        return _group_facts(moment, moment.group, formula)
    right = "" if moment.accuracy is None else f"batch: {moment.accuracy:.0%} right"
    loss = "\u2013" if moment.loss is None else number_text(float(f"{moment.loss:.4g}"))
    return [
        ("step", f"{moment.step:,}", f"of {moment.steps:,}"),
        ("loss", loss, right.replace("%", " %")),
        _pace(moment, unit),
        (f"bytes {moment.what}", _said(n.measured, ",.0f"), formula),
        ("workers wait", _said(n.waiting, ".0%").replace("%", " %"), when),
        *[("staleness", _said(n.staleness, ""), "at most")]
        * bool(n.staleness or not moment.is_synchronous),
    ]


def _group_facts(
    moment: Moment, facts: GroupFacts, formula: str
) -> list[tuple[str, str, str]]:
    n = moment.numbers
    whole = "" if facts.formula is None else f"formula {facts.formula:,}"
    return [
        ("calls", f"{facts.n_calls:,}", "of all tasks"),
        _pace(moment, "call"),
        ("bytes a call", _said(n.measured, ",.0f"), formula),
        ("messages", f"{facts.n_messages:,}", "from task to task"),
        ("bytes in all", f"{facts.measured:,}", whole),
        ("tasks wait", _said(n.waiting, ".0%").replace("%", " %"), moment.window),
    ]


def _pace(moment: Moment, unit: str) -> tuple[str, str, str]:
    """Return how many steps there are in a second; if only one, how long it took."""
    n = moment.numbers
    if n.n_steps == 1 and n.step_s is not None:
        remark = "none is under way" if moment.state == "paused" else ""
        return f"the last {unit} took", _duration(n.step_s), remark
    digits = ",.1f" if n.step_rate and n.step_rate < 10 else ",.0f"
    return f"{unit}s a second", _said(n.step_rate, digits), moment.window


def _duration(seconds: float) -> str:
    """Return a time in words.

    >>> _duration(1.5), _duration(0.0123), _duration(0.00042)
    ('1,500 ms', '12.3 ms', '420 \u00b5s')
    """
    if seconds < 1e-3:
        return f"{1e6 * seconds:,.0f} \u00b5s"
    return f"{number_text(float(f'{1e3 * seconds:.3g}'))} ms"


def _said(value: float | None, form: str) -> str:
    return "\u2013" if value is None else format(value, form)


def numbers(moment: Moment) -> Html:
    """Return the row of numbers as HTML."""
    said = cells(facts(moment))
    if moment.group is None:
        said += bottleneck(moment)
    return markup('<div class="ps-board ps-room">{}</div>', said)


def bottleneck(moment: Moment) -> Html:
    """Return what the newest steps waited for as HTML of a fixed height."""
    said = waited_for(moment)
    return markup('<p class="ps-bottleneck" title="{}">{}</p>', said, said)


def waited_for(moment: Moment) -> str:
    """Return what steps waited for as a sentence, with the steps that it is about.

    >>> waited_for(Moment(()))
    'What the steps wait for is not known yet.'
    """
    cause = moment.bottleneck
    if cause is None or not cause.window:
        return "What the steps wait for is not known yet."
    return f"{cause.window[0].upper()}{cause.window[1:]}: {cause}"


def cells(numbers: Iterable[tuple[str, str, str]]) -> Html:
    """Return names, values and remarks as a row of HTML."""
    items = joined(
        markup(
            '<div role="listitem"><span>{}</span> <b>{}</b> <span>{}</span></div>',
            name,
            value,
            remark,
        )
        for name, value, remark in numbers
    )
    return markup('<div class="ps-numbers" role="list">{}</div>', items)


def kept(moment: Moment) -> str:
    """Say what the trace of a long training still has; "" if it has all.

    >>> kept(Moment((), kept="before step 900 one step in 2"))
    'The trace is thinned out: before step 900 one step in 2. Totals are exact.'
    """
    said = f"The trace is thinned out: {moment.kept}. Totals are exact."
    return said if moment.kept else ""


def newest_steps(
    recent: Trace, n_steps: int = 3, *, is_complete: bool = False
) -> TimeWindow:
    """Return the newest steps that all members have reported, as a window.

    `is_complete` says that all news have come, so that even a single step is whole.
    """
    spans, steps = recent.spans, recent.steps
    new = spans["start"] > spans["end"].max(initial=0) - WINDOW_NS
    low, high = whole_steps(
        spans["task"][new], spans["step"][new], is_complete=is_complete
    )
    low = max(low, high - n_steps + 1)
    inside = steps[(steps["step"] >= low) & (steps["step"] <= high)]
    if not len(inside):
        start, end = recent.bounds()
        return TimeWindow(0, 0, start, end, start, "")
    start = int(inside["start"].min())
    return TimeWindow(low, high, start, int(inside["end"].max()), start, "")
