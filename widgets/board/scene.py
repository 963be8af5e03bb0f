"""The picture of the topology: tasks as boxes, links as arrows, as text in SVG.

Pure. The width of an arrow is the rate of its link, and the bars of a task show what it
sends and receives. Colours are variables of the page (`widgets.drawing.looks`), so the
same text suits a light and a dark background.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

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
)
from widgets.board.hosting import GONE, STANDS_BY, Hosting, compact
from widgets.board.run_state import Link, Moment
from widgets.drawing.figure_data import MB

_WIDEST, _THINNEST = 13.0, 1.5
_FOOT = 56  # for the two lines below
_LABELS = 12  # more arrows than that are not labelled one by one
_BOTH = 6  # with up to this many arrows, the bytes of a step are written too
_UNIT = " MB/s"
# Text is half as large again here as it is seen: a board is about 420 pixels wide.
_MOST_PX = 350  # in height, which is what a board has room for
_LINE = 23  # of text in a box
_TALL = BOX_H + 18
_LETTER_PX = 9.4
_LEAST_RATE = 500.0  # bytes a second; less would be written as 0.000
_RATE_PX = 80  # width of a number on an arrow, in the mode for projectors
_TEXT_PX = 62  # width of most numbers
_MOST_COVERED = 600.0  # square pixels, of a label that is still drawn
_POINTS = 24  # of an arrow, where it is looked at whether a label is on it
_ARROW, _OUTSIDE = (
    90.0,
    500.0,
)  # square pixels that such a point, and an edge, counts as
_BARS = 30, 23  # the first one below a box's top, and from one to the next


def scene(moment: Moment) -> Html:
    """Return the picture as an SVG element that fits the width of its place."""
    names, hosts = moment.names, moment.hosts
    hosting = moment.hosting
    groups = hosting.groups() if hosting else None
    if moment.group is not None:
        groups = (), tuple(range(len(names)))
    tall = _TALL + _LINE if hosting and hosting.words() else _TALL
    found = layout(names, moment.topology, hosts, groups, tall)
    forms = [moment.topology]
    if moment.group is None:  # its calls seldom change the topology
        forms += [one.name for one in registered()]
    heights = (layout(names, form, hosts, groups, tall).height for form in forms)
    height = max(heights) + _FOOT
    height += _LINE if moment.group is not None else 0  # a number below the lowest box
    # One size for all topologies: at a switch nothing else on the page moves.
    above = (height - found.height - _FOOT) / 2
    order = sorted(moment.rates.items(), key=lambda item: item[1])
    # Drawn last, and so on top: the widest, and above all those between hosts.
    order.sort(key=lambda item: moment.is_far(item[0]))
    labelled = len(order) <= _LABELS
    panels = joined(map(_panel, found.panels))
    arrows = joined(_arrow(found, link, rate, moment) for link, rate in order)
    labels = joined(_labels(found, moment)) if labelled else ""
    boxes = joined(_box(i, name, found, moment) for i, name in enumerate(names))
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
        labels,
        _foot(measure(moment), height - above),
    )


def _foot(lines: Sequence[str], bottom: float) -> Html:
    """Write two lines at the bottom of the picture."""
    return joined(
        markup(
            '<text class="ps-way" x="{}" y="{:.0f}" text-anchor="middle">{}</text>',
            WIDTH / 2,
            bottom - 34 + 24 * row,
            line,
        )
        for row, line in enumerate(lines)
    )


def measure(moment: Moment) -> list[str]:
    """Say what the numbers at the arrows are, and what a full bar means.

    >>> measure(Moment((), per_step={(1, 0): 9e3}, state="paused"))
    ['at arrows: bytes of the last step']
    """
    if not any(moment.rates.values()):
        whole = moment.what if moment.group else f"of the last {moment.unit}"
        return [f"at arrows: bytes {whole}"] if moment.per_step else []
    what = "the speed of the links"
    if not moment.limit:
        what = "the busiest task" if moment.is_over else "the fastest so far"
    if moment.group is not None and len(moment.rates) > _BOTH:
        return [
            f"at arrows: bytes {moment.what}" * (len(moment.rates) <= _LABELS),
            f"full bar: {speed(moment.scale)}, {what}",
        ]
    both = f"bytes {moment.what}," if len(moment.rates) <= _BOTH else ""
    return [
        f"at arrows: {both}{_UNIT} {moment.window}".replace("  ", " "),
        f"full bar: {speed(moment.scale)}, {what}",
    ]


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


def speed(rate: float) -> str:
    """Return bytes a second in words.

    >>> speed(12_345_678), speed(2_000), speed(0), speed(2.5e9)
    ('12.3 MB/s', '0.002 MB/s', '0', '2,500 MB/s')
    """
    if rate <= 0:
        return "0"
    if rate < _LEAST_RATE:
        return f"{rate:.3g} B/s"
    value = rate / MB
    decimals = max(0, min(3, 2 - math.floor(math.log10(value))))
    return f"{value:,.{decimals if value < 100 else 0}f}{_UNIT}"


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


def _arrow(found: SceneLayout, link: Link, rate: float, moment: Moment) -> Html:
    width = arrow_width(rate, moment.scale)
    head = 6 + width * 0.9
    drawn = path(found, link).arrow(width, head, head * 0.55 + width * 0.25)
    far = " ps-far" if moment.is_far(link) else ""
    kind = "still" if not rate else "pull" if _pulls(found, link, moment) else "push"
    told = f"{moment.where(link[0])} to {moment.where(link[1])}: {speed(rate)}"
    if n_bytes := moment.per_step.get(link):
        told += f", {size(n_bytes)} {moment.what}"
    return markup(
        '<g class="ps-arrow{} ps-{}" data-link="{}-{}" '
        'data-rate="{:.0f}"><title>{}</title>{}</g>',
        far,
        kind,
        link[0],
        link[1],
        rate,
        told,
        drawn,
    )


def _pulls(found: SceneLayout, link: Link, moment: Moment) -> bool:
    """Whether a link carries parameters, from a server to a worker."""
    source, target = link
    if moment.group is not None:
        return False
    if moment.names[source].startswith("ps:"):
        return True
    # A process that took over a lost server's part is above the workers like a server.
    is_above = found.boxes[source].y < found.boxes[target].y
    return moment.hosting is not None and not found.is_ring and is_above


def _labels(found: SceneLayout, moment: Moment) -> Iterator[Html]:
    """Write beside each arrow what it carries, where nothing else is."""
    has_both = len(moment.rates) <= _BOTH
    texts: dict[Link, list[str]] = {}
    for link, rate in sorted(moment.rates.items()):
        n_bytes = moment.per_step.get(link, 0.0)
        n_bytes = n_bytes if has_both or moment.group is not None else 0.0
        has_rate = rate >= _LEAST_RATE and (has_both or moment.group is None)
        texts[link] = [size(n_bytes)] * bool(n_bytes)
        texts[link] += [speed(rate).removesuffix(_UNIT)] * has_rate
    rows = tuple((link, len(lines)) for link, lines in texts.items())
    for (link, n_rows), place in zip(rows, _label_places(found, rows), strict=True):
        if place is None:
            continue
        x, y, anchor = place
        for row, line in enumerate(texts[link]):
            at = y + 6 + (row - (n_rows - 1) / 2) * _LINE
            yield markup(
                '<text class="ps-rate" x="{:.1f}" y="{:.1f}" '
                'text-anchor="{}">{}</text>',
                x,
                at,
                anchor,
                line,
            )


@lru_cache(maxsize=64)  # a board asks at each beat, and they seldom change
def _label_places(
    found: SceneLayout, rows: tuple[tuple[Link, int], ...]
) -> list[tuple[float, float, str] | None]:
    """Return where the labels of links with some rows of text are, and their anchors.

    None where all places are taken: what the link carries is in the table then, and
    where the mouse rests on the arrow.
    """
    links = {link for link, _ in rows}
    points = [
        path(found, link).at(share / _POINTS)
        for link in links
        for share in range(_POINTS + 1)
    ]
    taken = [*found.boxes]
    places: list[tuple[float, float, str] | None] = []
    for link, n_rows in rows:
        tall = n_rows * _LINE
        cost = partial(_covers, taken, points, tall)
        # Of equals the first, which is the best place.
        place = min(_beside(found, link, link[::-1] in links, tall), key=cost)
        is_free = n_rows > 0 and cost(place) < _MOST_COVERED
        if is_free:
            taken.append(TaskBox(_middle(place), place[1], _RATE_PX, tall))
        places.append(place if is_free else None)
    return places


def _beside(
    found: SceneLayout, link: Link, has_arrow_back: bool, tall: float
) -> Iterator[tuple[float, float, str]]:
    """Yield the places for what an arrow carries, the best first."""
    order = [0.5, 0.35, 0.65, 0.2, 0.8]
    if not found.is_ring:
        # Nearer to the workers, which are apart, than to their server.
        order = [0.24, 0.36, 0.5, 0.64, 0.76]
        if found.boxes[link[0]].y < found.boxes[link[1]].y:
            order.reverse()
    # In a ring outwards, where there is room; but if there is an arrow back as well,
    # that side is between the two.
    is_outwards = found.is_ring and not found.panels and not has_arrow_back
    line = path(found, link)
    for far in (1.0, 1.8, 2.6):
        off = 11.0 * far, 8.0 * far + tall / 2
        for side in (is_outwards, not is_outwards):
            for there in order:
                yield line.beside(there, off, is_outwards=side)


def _middle(place: tuple[float, float, str], width: float = _RATE_PX) -> float:
    x, _, anchor = place
    return x + {"start": 0.5, "middle": 0.0, "end": -0.5}[anchor] * width


def _covers(
    taken: Sequence[TaskBox],
    points: Sequence[tuple[float, float]],
    tall: float,
    place: tuple[float, float, str],
) -> float:
    """Return how much of what is there already a label at this place would cover."""
    x, y = _middle(place), place[1]
    left, right = x - _RATE_PX / 2, x + _RATE_PX / 2
    covered = _OUTSIDE * (max(0.0, -left) + max(0.0, right - WIDTH))
    for box in taken:
        wide = (box.width + _RATE_PX) / 2 - abs(x - box.x)
        high = (box.height + tall) / 2 - abs(y - box.y)
        covered += max(0.0, wide) * max(0.0, high)
    x = _middle(place, _TEXT_PX)
    on_it = sum(
        abs(at - x) < _TEXT_PX / 2 + 3 and abs(height - y) < tall / 2
        for at, height in points
    )
    return covered + _ARROW * on_it


def _box(task: int, name: str, found: SceneLayout, moment: Moment) -> Html:
    box = found.boxes[task]
    left, top = box.x - box.width / 2, box.y - box.height / 2
    fate = GONE if name in moment.lost else ""
    if moment.hosting:
        fate = fate or moment.hosting.fate(name)
    is_lost = fate == GONE
    state = " ps-lost" if is_lost else " ps-idle" if fate or task in found.idle else ""
    text = f"{name} {fate}" if fate and fate != STANDS_BY else name
    bars = joined(
        _bar(word, rate, left, top + _BARS[0] + _BARS[1] * row, box, moment.scale)
        for row, (word, rate) in enumerate(
            (("out", moment.sent(task)), ("in", moment.received(task)))
        )
    )
    told = _hosting(name, fate, box, moment.hosting) if moment.hosting else ""
    return markup(
        '<g class="ps-task{}"><rect x="{:.1f}" y="{:.1f}" rx="7" '
        'width="{:.1f}" height="{}"/>'
        '<text class="ps-name" x="{:.1f}" y="{:.1f}">{}</text>'
        "{}{}</g>",
        state,
        left,
        top,
        box.width,
        box.height,
        box.x,
        top + 23,
        text,
        "" if fate else bars,
        told,
    )


def _hosting(name: str, fate: str, box: TaskBox, hosting: Hosting) -> Html:
    """Say in a box which process hosts its member now, or which others it hosts."""
    elsewhere, members = hosting.host_of(name), hosting.hosted_by(name)
    lines = [[fate]] if fate == STANDS_BY else []
    if fate and elsewhere not in ("", name):
        lines.append([f"now on {elsewhere}", elsewhere])
    elif members and members != (name,):
        told, job = compact(members), name.partition(":")[0]
        # Within its own job the numbers are enough.
        short = told.removeprefix(f"{job}:")
        short = told if ":" in short else short
        lines.append([f"hosts {told}", f"hosts {short}", f"hosts {len(members)}"])
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
    return next((one for one in texts if len(one) * _LETTER_PX <= width), "")


def _bar(
    word: str, rate: float, left: float, y: float, box: TaskBox, scale: float
) -> Html:
    """Draw the rate of one direction as a share of the scale."""
    room = max(8.0, box.width - 52)
    full = room * min(1.0, rate / scale if scale else 0.0)
    return markup(
        '<text class="ps-way" x="{:.1f}" y="{:.1f}">{}</text>'
        '<rect class="ps-trough" x="{:.1f}" y="{:.1f}" rx="2" '
        'width="{:.1f}" height="13"/>'
        '<rect class="ps-{}" x="{:.1f}" y="{:.1f}" rx="2" '
        'width="{:.1f}" height="13"><title>{}: {}</title></rect>',
        left + 8,
        y + 15,
        word,
        left + 44,
        y + 3,
        room,
        word,
        left + 44,
        y + 3,
        full,
        word,
        speed(rate),
    )
