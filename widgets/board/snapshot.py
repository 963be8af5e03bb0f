"""The board as it stood at one moment: text, tables and pictures, complete in itself.

Pure text. A saved notebook keeps this, `nbconvert` and GitHub show it, and without
ipywidgets it is all there is. It needs no script and no other host.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.markup import NO_HTML, Html, element, joined, markup, rows_table, verbatim
from widgets.board import call_tables, group_moment, sentences
from widgets.board.follower import Beat
from widgets.board.scene import scene, title
from widgets.drawing import curves, svg_charts, words
from widgets.drawing.curves import Chart
from widgets.drawing.figure_data import TimeWindow
from widgets.drawing.looks import colours, style
from widgets.drawing.theme import LIGHT

# If there is a live board before it in the same cell, the page shows that one. Of one
# without a kernel the page has only a line that complains, which is hidden too.
ONE_OF_BOTH = verbatim("""
.jp-OutputArea-child:has(.ps-live) ~ .jp-OutputArea-child:has(.ps-snapshot)
  { display: none; }
.jp-OutputArea-child:has(~ .jp-OutputArea-child .ps-snapshot)
  > .jupyter-widgets.jp-OutputArea-output:not(:has(.ps-live)) { display: none; }
""")


Pictures = Sequence[tuple[Html, str]]  # each as SVG, and what it shows in words


def html(
    beat: Beat, more: Html = NO_HTML, hint: str = "", *, drawn: Pictures | None = None
) -> Html:
    """Return the board as HTML; `more` is HTML below it, `hint` a sentence above.

    `drawn` are its `pictures`, if they have been drawn already.
    """
    moment = beat.moment
    figures = joined(
        markup("<figure>{}<figcaption>{}</figcaption></figure>", picture, said)
        for picture, said in drawn or pictures(beat)
    )
    return markup(
        '<style>{}{}</style><div class="ps-snapshot">'
        "{}"
        "{}{}"
        '<div class="ps-board"><div class="ps-pictures">{}</div>'
        "<details><summary>The links, as a table</summary>"
        "{}</details>{}{}</div></div>",
        style(),
        ONE_OF_BOTH,
        markup("<p>{}</p>", hint) if hint else "",
        sentences.status(moment),
        sentences.numbers(moment),
        figures,
        rates_table(beat),
        kept(beat),
        calls(beat) + waits(beat) + more,
    )


def pictures(beat: Beat) -> Pictures:
    """Return the pictures that have data, as SVG, each with what it shows in words."""
    loss, links = charts_of(beat)
    lines = {strip.label: strip.data for strip in links.series}
    drawings = [
        (scene(beat.moment), title(beat.moment)),
        (svg_charts.curves_chart(loss), loss_words(beat)),
        (svg_charts.links_chart(links), words.links(lines)),
        _timeline(beat),
    ]
    return [(picture, said) for picture, said in drawings if picture]


def timeline(beat: Beat) -> Html:
    """Return what each task did as SVG, with its words below."""
    picture, said = _timeline(beat)
    return markup("{}<figcaption>{}</figcaption>", picture, said)


def _timeline(beat: Beat) -> tuple[Html, str]:
    window, unit = window_of(beat), beat.moment.unit
    chart = curves.timeline_of(beat.recent, window, unit)
    return svg_charts.timeline_chart(chart), words.timeline(beat.recent, window, unit)


def window_of(beat: Beat) -> TimeWindow:
    """Return the newest steps, or calls, as a window of the timeline."""
    if beat.moment.group is not None:
        return group_moment.window(beat.recent)
    return sentences.newest_steps(beat.recent, is_complete=beat.moment.is_complete)


def charts_of(beat: Beat) -> tuple[Chart, Chart]:
    """Return the loss over the steps, and each link's rate over time."""
    history, changes = beat.history, beat.moment.changes
    measures, again = history.measures(), history.changes(changes)
    loss = curves.loss(history.loss(), history.regions(), measures, again)
    return loss, curves.links(history.links(), history.switches(changes))


def loss_words(beat: Beat) -> str:
    """Say how the loss went and where the configuration changed."""
    loss, switches = beat.history.loss(), beat.history.switches(beat.moment.changes)
    if not loss["step"]:
        return "No step is known yet."
    said = (
        f"The loss went from {loss['loss'][0]:.3g} to {loss['loss'][-1]:.3g} in "
        f"{beat.history.n_steps:,} steps."
    )
    measured = beat.history.measure
    if held_out := measured(f"{curves.VALIDATION}loss")["value"]:
        said += (
            f" On held-out data it went from {held_out[0]:.3g} to {held_out[-1]:.3g}"
        )
        if shares := measured(f"{curves.VALIDATION}accuracy")["value"]:
            said += f", and {shares[0]:.1%} to {shares[-1]:.1%} were right"
        said += "."
    if shares := measured("accuracy")["value"]:
        said += f" The accuracy went from {shares[0]:.1%} to {shares[-1]:.1%}."
    changes = [
        f"{label} at step {step:,}"
        for label, step in zip(switches["label"], switches["step"], strict=True)
    ]
    if changes:
        said += f" Changes: {', '.join(changes[:8])}."
    if any(change.repeated for change in beat.moment.changes):
        said += " The grey bands are steps that were done again; each is drawn once."
    return said


def rates_table(beat: Beat) -> Html:
    """Return the picture of the topology as a table: bytes and rate of each link."""
    moment = beat.moment
    if moment.group is not None:
        return call_tables.links(moment, moment.group)
    rows = [
        (
            f"{moment.where(link[0])} to {moment.where(link[1])}",
            f"{moment.per_step.get(link, 0):,.0f}",
            words.speed(rate),
        )
        for link, rate in sorted(moment.rates.items())
    ]
    unit = "step" if moment.is_synchronous else "update"
    caption = f"What each link carries, {moment.window or 'so far'}"
    return rows_table(caption, ["link", f"bytes a {unit}", "rate"], rows)


def calls(beat: Beat) -> Html:
    """Return the newest calls of a group as a table; "" for a training."""
    trace = beat.recent
    return call_tables.calls(trace) if trace.calls else Html()


def waits(beat: Beat) -> Html:
    """Return who waited for whose messages as a table; "" if nobody received one."""
    trace = beat.recent
    return call_tables.waits(trace) if len(trace.receipts) else Html()


def kept(beat: Beat) -> Html:
    """Say what is left of the trace of a long training, as HTML; "" if all of it."""
    said = sentences.kept(beat.moment)
    return markup("<p>{}</p>", said) if said else Html()


def commands(beat: Beat) -> Html:
    """Return the controls as code, with the present settings."""
    moment = beat.moment
    pairs = (
        call_tables.COMMANDS
        if moment.group is not None
        else [
            ("another topology", f'run.topology = "{moment.plain_topology}"'),
            ("the same, as a magic", f"%topology {moment.plain_topology}"),
            ("wait for all workers", f"run.synchronous = {moment.is_synchronous}"),
            ("speed and latency of links", f'run.link = "{moment.link}"'),
            ("pause, one step, go on", "run.pause(); run.advance(1); run.resume()"),
            ("end it", "run.stop()"),
            ("bytes by topology and task", "run.traffic"),
            ("one row a step", "run.frame()"),
            ("keep what was recorded", 'run.trace.save("run.json")'),
            ("this board as a page", 'TrafficBoard(run).save("board.html")'),
        ]
    )
    rows = [(what, element("code", code)) for what, code in pairs]
    caption = "The same in a cell, with what holds now"
    return rows_table(caption, ["what", "command"], rows)


def svg(beat: Beat, drawn: Pictures | None = None) -> Html:
    """Return the pictures below each other as one SVG file, with its style sheet."""
    parts, at = [], 34.0
    for picture, _ in drawn or pictures(beat):
        height = float(picture.split(Html('viewBox="'), 1)[1].split('"')[0].split()[3])
        size = markup(
            '<svg x="0" y="{:.0f}" width="{}" height="{:.0f}" ',
            at,
            svg_charts.WIDTH,
            height,
        )
        parts.append(picture.replace(Html("<svg "), size, 1))
        at += height + 16
    said = sentences.headline(beat.moment)
    return markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{}" '
        'height="{:.0f}" viewBox="0 0 {} {:.0f}" class="ps-board">'
        "<style>{} svg {{ {} }}</style>"
        '<rect width="100%" height="100%" fill="{}"/>'
        '<text x="8" y="22" class="ps-title">{}</text>{}</svg>',
        svg_charts.WIDTH,
        at,
        svg_charts.WIDTH,
        at,
        style(),
        colours(LIGHT),
        LIGHT.background,
        said,
        joined(parts),
    )


def text(beat: Beat) -> str:
    """Return the board as plain text: a sentence, and a line for each number."""
    moment = beat.moment
    lines = [sentences.headline(moment), *sentences.alarms(moment)]
    lines += sentences.placement(moment)
    lines += [" ".join(filter(None, fact)) for fact in sentences.facts(moment)]
    if moment.group is None:
        lines.append(sentences.waited_for(moment))
    return "\n".join([*lines, *filter(None, [sentences.kept(moment)])])
