"""The picture of the topology: tasks as boxes, links as arrows, as text in SVG.

Pure. The width of an arrow is the rate of its link, and the bars of a task show what it
sends and receives. Colours are variables of the page (`widgets.drawing.looks`), so the
same text suits a light and a dark background.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kit.exchange.topologies.topology import registered
from kit.markup import Html, joined, markup
from widgets.board.geometry import (
    BOX_H,
    WIDTH,
    HostPanel,
    SceneLayout,
    TaskBox,
    layout,
    path,
    short_name,
)
from widgets.board.hosting import GONE, STANDS_BY, Hosting, compact
from widgets.board.labels import Links, label_places
from widgets.board.run_state import Link, Moment
from widgets.drawing.words import LEAST_RATE, MB_A_SECOND, speed

_WIDEST, _THINNEST = 13.0, 1.5
_FOOT = 74  # for the lines below
_LABELS = 12  # more than these are not written
_ALIKE = 0.9  # rates that differ by less are told as one
_BYTES, _RATE = "bytes {}", "MB/s"  # what may be written at arrows
# Text is half as large again here as it is seen: a board is about 420 pixels wide.
_MOST_PX = 350  # in height, which is what a board has room for
_LINE = 23  # of text in a box
_TALL = BOX_H + 18
_LETTER_PX = 9.4
_RATE_PX, _BYTES_PX = 52, 76  # width of a rate and of bytes at an arrow
_SIDES = "out", "in"  # what the bars of a task are, by the ends of a link
_BARS = 30, 23  # the first one below a box's top, and from one to the next
_KEY = Html(
    '<tspan class="ps-push">&#9632;</tspan> gradients \u2003 '
    '<tspan class="ps-pull">&#9632;</tspan> parameters'
)


def scene(moment: Moment) -> Html:
    """Return the picture as an SVG element that fits the width of its place."""
    names, hosts = moment.names, moment.hosts
    hosting = moment.hosting
    groups = hosting.groups() if hosting else None
    if moment.group is not None:
        groups = (), tuple(range(len(names)))
    tall = _TALL + _LINE if hosting and hosting.words() else _TALL
    forms = [moment.topology]
    if moment.group is None:  # its calls seldom change the topology
        forms += [topology.name for topology in registered()]
    heights = (layout(names, form, hosts, groups, tall).height for form in forms)
    highest = max(heights)
    drawn = layout(names, moment.topology, hosts, groups, tall, highest)
    height = highest + _FOOT
    height += _LINE if moment.group is not None else 0  # a number below the lowest box
    # One size for all topologies: at a switch nothing else on the page moves.
    above = (height - drawn.height - _FOOT) / 2
    order = sorted(moment.rates.items(), key=lambda item: item[1])
    # Drawn last, and so on top: the widest, and above all those between hosts.
    order.sort(key=lambda item: moment.is_far(item[0]))
    panels = joined(map(_panel, drawn.panels))
    arrows = joined(_arrow(drawn, link, rate, moment) for link, rate in order)
    labels = _labels(drawn, moment)
    boxes = joined(_box(i, name, drawn, moment) for i, name in enumerate(names))
    return markup(
        '<svg class="ps-scene" viewBox="0 {:.0f} {} {:.0f}" '
        'style="max-width:{:.0f}px" '
        'role="img" xmlns="http://www.w3.org/2000/svg" '
        'aria-label="{}">{}{}{}{}'
        "{}</svg>",
        -above,
        WIDTH,
        height,
        min(540, _MOST_PX * WIDTH / height),
        title(moment),
        panels,
        arrows,
        boxes,
        joined(_label(labels, links) for links in labels.places),
        _foot(_legend(drawn, moment, labels), height - above),
    )


def _foot(lines: Sequence[str], bottom: float) -> Html:
    """Write lines at the bottom of the picture."""
    return joined(
        markup(
            '<text class="ps-way" x="{}" y="{:.0f}" text-anchor="middle">{}</text>',
            WIDTH / 2,
            bottom - _FOOT + 22 * (row + 1),
            line,
        )
        for row, line in enumerate(lines)
    )


def _legend(layout: SceneLayout, moment: Moment, labels: _Labels) -> list[str]:
    """Say what colours and numbers at arrows mean, and a full bar."""
    has_pulls = any(_kind(layout, link, moment) == "pull" for link in moment.rates)
    lines: list[str] = [_KEY] * has_pulls  # a colour alone needs no words
    is_moving = any(moment.rates.values())
    is_mean = is_moving or moment.group is not None
    what = moment.what if is_mean else f"of the last {moment.unit}"
    units = labels.units if is_moving else (_BYTES,)
    each = ", each way" * any(len(links) > 1 for links in labels.places)
    if labels.places:
        shown = ", ".join(unit.format(what) for unit in units)
        window = moment.window * is_moving
        lines.append(f"at arrows: {shown} {window}".rstrip() + each)
    elif labels.each:
        n_bytes, *rate = labels.each
        said = ", ".join([f"{n_bytes} {what}", *rate])
        lines.append(f"each arrow: {said} {moment.window * is_moving}".rstrip())
    if is_moving:
        full = "the busiest task" if moment.is_over else "the fastest so far"
        full = "the speed of the links" if moment.limit else full
        lines.append(f"full bar: {speed(moment.scale)}, {full}")
    return lines


def size(n_bytes: float) -> str:
    """Return bytes of a step in words.

    >>> size(437_646.0), size(12), size(1_500_000)
    ('438 kB', '12 B', '1.5 MB')
    """
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def title(moment: Moment) -> str:
    """Return what the picture shows in words, for those who cannot see it.

    >>> title(Moment(("ps:0", "worker:0"), topology="ps"))
    'Topology ps with 2 tasks; no bytes are moving.'
    """
    busiest = max(moment.rates, key=lambda link: moment.rates[link], default=None)
    head = f"Topology {moment.topology} with {len(moment.tasks)} tasks"
    if moment.group is not None:
        head = f"A group of {len(moment.tasks)} tasks"
    if moment.hosting and (who := moment.hosting.words()):
        head += f"; {who.removesuffix('.')}"
    if busiest is None or not moment.rates[busiest]:
        return f"{head}; no bytes are moving."
    source, target = (moment.where(i) for i in busiest)
    most = speed(moment.rates[busiest])
    said = f"{head}; the busiest link is {source} to {target} with {most}."
    if far := [rate for link, rate in moment.rates.items() if moment.is_far(link)]:
        n_hosts = len(set(moment.hosts))
        said += f" Between the {n_hosts} hosts {speed(sum(far))} are moving."
    return said


def arrow_width(rate: float, scale: float) -> float:
    """Return how wide an arrow is, in pixels.

    >>> arrow_width(0, 10), arrow_width(10, 10), arrow_width(99, 10)
    (1.5, 13.0, 13.0)
    """
    return _THINNEST + (_WIDEST - _THINNEST) * min(1.0, rate / scale if scale else 0)


def _panel(host: HostPanel) -> Html:
    x, y = host.left + 12, host.top + 22
    return markup(
        '<g class="ps-host"><rect x="{:.1f}" y="{:.1f}" rx="12" '
        'width="{:.1f}" height="{:.1f}"/>'
        '<text class="ps-name" x="{:.1f}" y="{:.1f}">{}</text></g>',
        host.left,
        host.top,
        host.width,
        host.height,
        x,
        y,
        host.name,
    )


def _arrow(layout: SceneLayout, link: Link, rate: float, moment: Moment) -> Html:
    width = arrow_width(rate, moment.scale)
    head = 6 + width * 0.9
    drawn = path(layout, link).arrow(width, head, head * 0.55 + width * 0.25)
    far = " ps-far" if moment.is_far(link) else ""
    kind = _kind(layout, link, moment) if rate else "still"
    title_text = f"{moment.where(link[0])} to {moment.where(link[1])}: {speed(rate)}"
    if n_bytes := moment.per_step.get(link):
        title_text += f", {size(n_bytes)} {moment.what}"
    return markup(
        '<g class="ps-arrow{} ps-{}" data-link="{}-{}" '
        'data-rate="{:.0f}"><title>{}</title>{}</g>',
        far,
        kind,
        link[0],
        link[1],
        rate,
        title_text,
        drawn,
    )


def _kind(layout: SceneLayout, link: Link, moment: Moment) -> str:
    """Return "pull" if a link carries parameters, from a server to a worker."""
    source, target = link
    is_server = moment.names[source].startswith("ps:")
    # A process that took over a lost server's part is above the workers like a server.
    is_above = layout.boxes[source].y < layout.boxes[target].y
    is_server |= moment.hosting is not None and not layout.is_ring and is_above
    return "pull" if is_server and moment.group is None else "push"


class _Labels(NamedTuple):
    """What is written at the arrows, where, and what it is."""

    texts: dict[Links, list[str]]
    places: dict[Links, tuple[float, float]]
    units: tuple[str, ...]
    each: tuple[str, ...] = ()  # in place of all these


def _labels(layout: SceneLayout, moment: Moment) -> _Labels:
    """Return bytes and rates at arrows, or one of them if so more arrows have some.

    Where not all arrows have room for both, and all would have the same, it is told
    once.
    """
    pairs, best = _labelled(moment), _Labels({}, {}, ())
    links = pairs if len(pairs) <= _LABELS else ()
    for units in (_BYTES, _RATE), (_RATE if moment.group is None else _BYTES,):
        texts = {some: _texts(some, moment, units) for some in links}
        rows = max(map(len, texts.values()), default=0)
        width = _BYTES_PX if _BYTES in units else _RATE_PX
        places = label_places(layout, links, width, rows * _LINE) if rows else {}
        if len(places) > len(best.places):
            best = _Labels(texts, places, units)
    each, is_whole = _each(moment), len(best.places) == len(pairs)
    if each and not (is_whole and (len(best.units) > 1 or len(each) == 1)):
        return _Labels({}, {}, (), each)
    return best


def _each(moment: Moment) -> tuple[str, ...]:
    """Return the bytes that each arrow carries, if they are the same, and the rate.

    >>> rates = {(0, 1): 5e6, (0, 2): 5e6}
    >>> _each(Moment((), rates=rates, per_step=dict.fromkeys(rates, 9e3)))
    ('9 kB', '5.00 MB/s')
    >>> _each(Moment((), rates=rates, per_step={(0, 1): 9e3, (0, 2): 8e3}))
    ()
    """
    sizes = {size(moment.per_step.get(link, 0.0)) for link in moment.rates}
    if len(sizes) != 1 or not any(moment.per_step.values()):
        return ()
    rates = moment.rates.values()
    is_alike = max(rates) and min(rates) > _ALIKE * max(rates)
    return *sizes, *[speed(sum(rates) / len(rates))] * bool(is_alike)


def _texts(links: Links, moment: Moment, units: Sequence[str]) -> list[str]:
    n_bytes = moment.per_step.get(links[0], 0.0)
    rate = sum(moment.rates[link] for link in links) / len(links)
    texts = [size(n_bytes)] * (_BYTES in units and n_bytes > 0)
    has_rate = _RATE in units and rate >= LEAST_RATE
    return texts + [speed(rate).removesuffix(MB_A_SECOND)] * has_rate


def _label(labels: _Labels, links: Links) -> Html:
    x, y = labels.places[links]
    lines = labels.texts[links]
    first = y + 7 - (len(lines) - 1) / 2 * _LINE
    return joined(
        markup(
            '<text class="ps-rate" x="{:.1f}" y="{:.1f}">{}</text>',
            x,
            first + row * _LINE,
            line,
        )
        for row, line in enumerate(lines)
    )


def _labelled(moment: Moment) -> tuple[Links, ...]:
    """Return what is labelled: links, and pairs of them that carry the same.

    >>> _labelled(Moment((), rates={(0, 1): 5e6, (1, 0): 5e6, (2, 0): 3e6}))
    (((0, 1), (1, 0)), ((2, 0),))
    """
    pairs: dict[frozenset[int], Links] = {}
    for link, rate in sorted(moment.rates.items()):
        back = link[::-1]
        is_alike = moment.per_step.get(link) == moment.per_step.get(back)
        is_alike &= math.isclose(rate, moment.rates.get(back, math.nan), rel_tol=0.02)
        key = frozenset(link) if is_alike else frozenset([*link, -1 - link[0]])
        pairs[key] = (*pairs.get(key, ()), link)
    return tuple(pairs.values())


def _box(task: int, name: str, layout: SceneLayout, moment: Moment) -> Html:
    box = layout.boxes[task]
    left, top = box.x - box.width / 2, box.y - box.height / 2
    fate = GONE if name in moment.lost else ""
    if moment.hosting:
        fate = fate or moment.hosting.fate(name)
    is_lost = fate == GONE
    state = " ps-lost" if is_lost else " ps-idle" if fate or task in layout.idle else ""
    text = short_name(name, box)
    text += f" {fate}" if fate and fate != STANDS_BY else ""
    squeezed = markup(
        ' textLength="{:.1f}" lengthAdjust="spacingAndGlyphs"', box.width - 12
    )
    bars = joined(_bar(task, side, layout, moment) for side in range(len(_SIDES)))
    title_text = _hosting(name, fate, box, moment.hosting) if moment.hosting else ""
    return markup(
        '<g class="ps-task{}"><rect x="{:.1f}" y="{:.1f}" rx="7" '
        'width="{:.1f}" height="{}"/>'
        '<text class="ps-name" x="{:.1f}" y="{:.1f}"{}>{}</text>'
        "{}{}</g>",
        state,
        left,
        top,
        box.width,
        box.height,
        box.x,
        top + 23,
        squeezed if len(text) * _LETTER_PX > box.width else "",
        text,
        "" if fate else bars,
        title_text,
    )


def _hosting(name: str, fate: str, box: TaskBox, hosting: Hosting) -> Html:
    """Say in a box which process hosts its member now, or which others it hosts."""
    elsewhere, members = hosting.host_of(name), hosting.hosted_by(name)
    lines = [[fate]] if fate == STANDS_BY else []
    if fate and elsewhere not in ("", name):
        lines.append([f"now on {elsewhere}", elsewhere])
    elif members and members != (name,):
        compacted, job = compact(members), name.partition(":")[0]
        # Within its own job the numbers are enough.
        short = compacted.removeprefix(f"{job}:")
        short = compacted if ":" in short else short
        lines.append([f"hosts {compacted}", f"hosts {short}", f"hosts {len(members)}"])
    # Below the name where there are no bars, else below these.
    first = box.y - box.height / 2 + (23 if fate else _BARS[0] + _BARS[1] + 18) + _LINE
    fitting = (_fitting(some, box.width) for some in lines)
    return joined(
        markup(
            '<text class="ps-way" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>',
            box.x,
            first + _LINE * row,
            text,
        )
        for row, text in enumerate(fitting)
    )


def _fitting(texts: Sequence[str], width: float) -> str:
    """Return the first text that fits into a box; "" if none does."""
    return next((text for text in texts if len(text) * _LETTER_PX <= width), "")


def _bar(task: int, side: int, layout: SceneLayout, moment: Moment) -> Html:
    """Draw what a task sends, or receives, as a share of the scale, in its colours."""
    box, word = layout.boxes[task], _SIDES[side]
    x = box.x - box.width / 2 + 46
    y = box.y - box.height / 2 + _BARS[0] + _BARS[1] * side
    room, all_px = max(8.0, box.width - 54), 0.0
    parts = []
    for kind in ("push", "pull"):
        rate = sum(
            rate
            for link, rate in moment.rates.items()
            if link[side] == task and _kind(layout, link, moment) == kind
        )
        px = min(room - all_px, room * rate / moment.scale if moment.scale else 0.0)
        parts.append(
            markup(
                '<rect class="ps-{}" x="{:.1f}" y="{:.1f}" '
                'width="{:.1f}" height="13"><title>{}: {}</title></rect>',
                kind,
                x + all_px,
                y + 3,
                px,
                word,
                speed(rate),
            )
        )
        all_px += px
    return markup(
        '<text class="ps-way" x="{:.1f}" y="{:.1f}">{}</text>'
        '<rect class="ps-trough" x="{:.1f}" y="{:.1f}" rx="2" '
        'width="{:.1f}" height="13"/>{}',
        x - 38,
        y + 15,
        word,
        x,
        y + 3,
        room,
        joined(parts),
    )
