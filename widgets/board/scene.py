"""The picture of the topology: tasks as boxes, links as arrows, as text in SVG.

Pure. An arrow is as wide as its link is fast now, and a task's bars show what it sends
and receives. Colours are variables of the page (`widgets.drawing.looks`), so the same
text is right on light and on dark ground.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from kit.exchange.topologies.topology import registered
from widgets.board.geometry import (
    BOX_H,
    WIDTH,
    HostPanel,
    SceneLayout,
    TaskBox,
    layout,
    path,
)
from widgets.board.hosting import GONE, STANDS_BY, Hosting, compact
from widgets.board.run_state import Link, Moment
from widgets.drawing.feed import MB

_WIDEST, _THINNEST = 13.0, 1.5
_FOOT = 26  # for the line below
_LABELS = 12  # more arrows than that are not labelled one by one
_UNIT = " MB/s"
_LINE = 18  # of text in a box
_LETTER_PX = 7.2
_RATE_PX = 40  # of a number on an arrow


def scene(moment: Moment) -> str:
    """Return the picture as an SVG element that fits the width of its place."""
    names, hosts = moment.names, moment.hosts
    hosting = moment.hosting
    groups = hosting.groups() if hosting else None
    tall = BOX_H + _LINE if hosting and hosting.words() else BOX_H
    found = layout(names, moment.topology, hosts, groups, tall)
    forms = (moment.topology, *(one.name for one in registered()))
    heights = (layout(names, form, hosts, groups, tall).height for form in forms)
    height = max(heights) + _FOOT
    above = (height - found.height - _FOOT) / 2  # one size for all: nothing else moves
    order = sorted(moment.rates.items(), key=lambda item: item[1])
    order.sort(key=lambda item: moment.is_far(item[0]))  # those above all others
    labelled = len(order) <= _LABELS
    panels = "".join(map(_panel, found.panels))
    arrows = "".join(_arrow(found, link, rate, moment) for link, rate in order)
    shown = order if labelled else ()
    labels = "".join(_label(found, *item, moment) for item in shown)
    boxes = "".join(_box(i, name, found, moment) for i, name in enumerate(names))
    return (
        f'<svg class="ps-scene" viewBox="0 {-above:.0f} {WIDTH} {height:.0f}" '
        f'role="img" xmlns="http://www.w3.org/2000/svg" '
        f'aria-label="{escape(title(moment))}">{panels}{arrows}{boxes}{labels}'
        f'<text class="ps-way" x="{WIDTH / 2}" y="{height - above - 8:.0f}" '
        f'text-anchor="middle">{_measure(moment)}</text></svg>'
    )


def _measure(moment: Moment) -> str:
    """Say what a full bar and the widest arrow stand for."""
    what = "the speed of the links" if moment.limit else "the fastest so far"
    if not any(moment.rates.values()):
        return ""
    return f"numbers are{_UNIT}; full bar: {speed(moment.scale)}, {what}"


def title(moment: Moment) -> str:
    """Return what the picture shows, for those who do not see it.

    >>> title(Moment(("ps:0", "worker:0"), topology="ps"))
    'Topology ps with 2 tasks; no bytes are moving.'
    """
    busiest = max(moment.rates, key=lambda link: moment.rates[link], default=None)
    head = f"Topology {moment.topology} with {len(moment.tasks)} tasks"
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


def speed(rate: float) -> str:
    """Return bytes a second in words.

    >>> speed(12_345_678), speed(2_000), speed(0), speed(2.5e9)
    ('12.3 MB/s', '0.002 MB/s', '0', '2,500 MB/s')
    """
    if rate <= 0:
        return "0"
    value = rate / MB
    decimals = max(0, min(3, 2 - math.floor(math.log10(value))))
    return f"{value:,.{decimals if value < 100 else 0}f}{_UNIT}"


def arrow_width(rate: float, scale: float) -> float:
    """Return how wide an arrow is, in pixels.

    >>> arrow_width(0, 10), arrow_width(10, 10), arrow_width(99, 10)
    (1.5, 13.0, 13.0)
    """
    return _THINNEST + (_WIDEST - _THINNEST) * min(1.0, rate / scale if scale else 0)


def _panel(host: HostPanel) -> str:
    x, y = host.left + 12, host.top + 22
    return (
        f'<g class="ps-host"><rect x="{host.left:.1f}" y="{host.top:.1f}" rx="12" '
        f'width="{host.width:.1f}" height="{host.height:.1f}"/>'
        f'<text class="ps-name" x="{x:.1f}" y="{y:.1f}">{escape(host.name)}</text></g>'
    )


def _arrow(found: SceneLayout, link: Link, rate: float, moment: Moment) -> str:
    width = arrow_width(rate, moment.scale)
    head = 6 + width * 0.9
    drawn = path(found, link).arrow(width, head, head * 0.55 + width * 0.25)
    far = " ps-far" if moment.is_far(link) else ""
    kind = "still" if not rate else "pull" if _pulls(found, link, moment) else "push"
    told = escape(f"{moment.where(link[0])} to {moment.where(link[1])}: {speed(rate)}")
    return (
        f'<g class="ps-arrow{far} ps-{kind}" data-link="{link[0]}-{link[1]}" '
        f'data-rate="{rate:.0f}"><title>{told}</title>{drawn}</g>'
    )


def _pulls(found: SceneLayout, link: Link, moment: Moment) -> bool:
    """Whether a link carries parameters, from who serves to who works."""
    source, target = link
    if moment.names[source].startswith("ps:"):
        return True
    # In the place of a server that is gone its host stands above the workers.
    is_above = found.boxes[source].y < found.boxes[target].y
    return moment.hosting is not None and not found.is_ring and is_above


def _label(found: SceneLayout, link: Link, rate: float, moment: Moment) -> str:
    if not rate:
        return ""
    at = 0.5
    if not found.is_ring:
        # Nearer to the workers, who stand apart, than to their server.
        at = 0.24 if found.boxes[link[0]].y > found.boxes[link[1]].y else 0.76
    # In a ring outwards, where there is room, but not between there and back.
    is_alone = link[::-1] not in moment.rates
    is_outwards = found.is_ring and not found.panels and is_alone
    for there in (at, 0.5, 1 - at):
        placed = path(found, link).beside(there, (9, 15), is_outwards=is_outwards)
        if not any(_covers(box, *placed) for box in found.boxes):
            break
    x, y, anchor = placed
    return (
        f'<text class="ps-rate" x="{x:.1f}" y="{y + 5:.1f}" text-anchor="{anchor}">'
        f"{speed(rate).removesuffix(_UNIT)}</text>"
    )


def _covers(box: TaskBox, x: float, y: float, anchor: str) -> bool:
    """Whether a box lies where a rate would be written."""
    middle = x + {"start": 0.5, "middle": 0.0, "end": -0.5}[anchor] * _RATE_PX
    is_beside = abs(middle - box.x) >= (box.width + _RATE_PX) / 2
    return not is_beside and abs(y - box.y) < (box.height + _LINE) / 2


def _box(task: int, name: str, found: SceneLayout, moment: Moment) -> str:
    box = found.boxes[task]
    left, top = box.x - box.width / 2, box.y - box.height / 2
    fate = GONE if name in moment.lost else ""
    if moment.hosting:
        fate = fate or moment.hosting.fate(name)
    is_lost = fate == GONE
    state = " ps-lost" if is_lost else " ps-idle" if fate or task in found.idle else ""
    text = f"{escape(name)} {fate}" if fate and fate != STANDS_BY else escape(name)
    bars = "".join(
        _bar(word, rate, left, top + 28 + 17 * row, box.width, moment.scale)
        for row, (word, rate) in enumerate(
            (("out", moment.sent(task)), ("in", moment.received(task)))
        )
    )
    told = _hosting(name, fate, box, moment.hosting) if moment.hosting else ""
    return (
        f'<g class="ps-task{state}"><rect x="{left:.1f}" y="{top:.1f}" rx="7" '
        f'width="{box.width:.1f}" height="{box.height}"/>'
        f'<text class="ps-name" x="{box.x:.1f}" y="{top + 20:.1f}">{text}</text>'
        f"{'' if fate else bars}{told}</g>"
    )


def _hosting(name: str, fate: str, box: TaskBox, hosting: Hosting) -> str:
    """Say in a box who hosts its task's member now, or whom else it hosts."""
    elsewhere, members = hosting.host_of(name), hosting.hosted_by(name)
    lines = [[fate]] if fate == STANDS_BY else []
    if fate and elsewhere not in ("", name):
        lines.append([f"now on {elsewhere}", elsewhere])
    elif members and members != (name,):
        lines.append([f"hosts {compact(members)}", f"hosts {len(members)}"])
    # Below the name where there are no bars, else below these.
    first = box.y - box.height / 2 + (20 + _LINE if fate else 28 + 2 * 17 + 13)
    fitting = (_fitting(some, box.width) for some in lines)
    return "".join(
        f'<text class="ps-way" x="{box.x:.1f}" y="{first + _LINE * row:.1f}" '
        f'text-anchor="middle">{escape(text)}</text>'
        for row, text in enumerate(fitting)
    )


def _fitting(texts: Sequence[str], width: float) -> str:
    """Return the first of some texts that a box has room for; "" if none."""
    return next((one for one in texts if len(one) * _LETTER_PX <= width), "")


def _bar(
    word: str, rate: float, left: float, y: float, width: float, scale: float
) -> str:
    """Draw one direction's rate against what the link can carry."""
    room = max(8.0, width - 46)
    full = room * min(1.0, rate / scale if scale else 0.0)
    return (
        f'<text class="ps-way" x="{left + 8:.1f}" y="{y + 11:.1f}">{word}</text>'
        f'<rect class="ps-trough" x="{left + 36:.1f}" y="{y + 2:.1f}" rx="2" '
        f'width="{room:.1f}" height="10"/>'
        f'<rect class="ps-{word}" x="{left + 36:.1f}" y="{y + 2:.1f}" rx="2" '
        f'width="{full:.1f}" height="10"><title>{word}: {speed(rate)}</title></rect>'
    )
