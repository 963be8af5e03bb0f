"""Where the tasks of a topology are in its picture, and how an arrow runs.

Pure arithmetic, in pixels. A topology says which tasks are in which row, as servers
above workers (`Topology.rows`). Without rows the workers are in a circle. A task with
nothing to do is put aside.

             [ps:0]                      [worker:0]

    [w:0]    [w:1]    [w:2]        [worker:2]  [worker:1]

In an elastic training the tasks are processes (`widgets.board.hosting`). If there are
several hosts, each has a panel with its tasks in such rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kit.exchange.plan import Group, by_host
from kit.exchange.topologies.topology import maybe_by_name
from kit.markup import Html, markup
from widgets.board.run_state import Link

WIDTH = 640
_BOX_W, BOX_H = 148, 66
_GAP = 24
_ROW = 256  # from the top of a row to the top of the next, for usual boxes
_LOW_ROW = 134  # if there are more than two
_MOST_IN_A_ROW = 7
_CORNERS, _ASIDE_W = (78, WIDTH - 78), 140  # of tasks that take no part
_LOW_RING, _MANY = 188, 6  # half the height of a ring, unless it has more workers
_LETTER = 12.0  # of a name
_MOST_BENT = 16.0  # lines beside each other would meet
_RIM = 16  # beside a circle, and within a host's panel
_HOST_HEAD = 34  # for a host's name
_HOST_GAP = 84  # between hosts, where their links are
_HOST_ROW = 50  # between the rows of tasks on a host
_MOST_BESIDE, _BETWEEN = 2, 36  # tasks of a host in one line, and what is between them

Groups = tuple[tuple[int, ...], tuple[int, ...]]


class TaskBox(NamedTuple):
    """Where a task is: its centre and its size in pixels."""

    x: float
    y: float
    width: float
    height: float = BOX_H


class HostPanel(NamedTuple):
    """A host: its name, and the place of its panel by corner and size in pixels."""

    name: str
    left: float
    top: float
    width: float
    height: float

    @property
    def head(self) -> TaskBox:
        """Where its name is."""
        return TaskBox(self.left + self.width / 4, self.top + 16, self.width / 2, 26)


class SceneLayout(NamedTuple):
    """Where all tasks are, which take no part in the exchange, and the height."""

    boxes: tuple[TaskBox, ...]
    idle: frozenset[int]
    height: float
    is_ring: bool = False
    panels: tuple[HostPanel, ...] = ()


def layout(
    names: Sequence[str],
    topology: str,
    hosts: Sequence[str] = (),
    groups: Groups | None = None,
    tall: float = BOX_H,
    height: float = 0.0,
) -> SceneLayout:
    """Return where the tasks are under a topology; `hosts` has the host of each.

    `groups` are the servers and the workers, by default those with such names. A task
    that is both is where the topology names it first. `tall` is the height of a box;
    rows are further from each other if there is a `height` to fill.

    >>> result = layout(["ps:0", "worker:0", "worker:1"], "ps")
    >>> result.boxes[0].y < result.boxes[1].y == result.boxes[2].y
    True
    >>> layout(["ps:0", "worker:0", "worker:1"], "ring").idle
    frozenset({0})
    """
    servers, workers = groups or _by_name(names)
    maybe_topology = maybe_by_name(
        topology
    )  # a trace may be of one that is not known here
    rows = (
        _once(maybe_topology.rows(_group(servers, workers, hosts)))
        if maybe_topology
        else ()
    )
    placed = {task for row in rows or (workers,) for task in row}
    aside = [task for task in range(len(names)) if task not in placed]
    if len(set(hosts)) > 1:
        shown = [row for row in (aside, *(rows or (workers,))) if row]
        return _on_hosts(shown, hosts, frozenset(aside), tall)
    at: dict[int, TaskBox] = {}
    top = 8.0
    has_corners = len(rows[0]) == 1 if rows else len(workers) <= _MANY
    if has_corners and len(aside) <= len(_CORNERS):
        for x, task in zip(_CORNERS, aside, strict=False):
            at[task] = TaskBox(x, 8 + tall / 2, _ASIDE_W, tall)
    elif aside:
        top = _rows(at, aside, 8 + tall / 2, tall) + tall / 2 + 22
    if not rows:
        bottom = _circle(at, workers, top, tall)
        return SceneLayout(_ordered(at), frozenset(aside), bottom, is_ring=True)
    pitch = (_ROW if len(rows) < 3 else _LOW_ROW) + 3 * (tall - BOX_H)
    more = sum((len(row) - 1) // _MOST_IN_A_ROW for row in rows)  # lines of long rows
    room = height - top - tall - 8 - more * (tall + _GAP)
    pitch = max(pitch, room / max(1, len(rows) - 1))
    y = top + tall / 2 - pitch
    for row in rows:
        y = _rows(at, row, y + pitch, tall)
    return SceneLayout(_ordered(at), frozenset(aside), y + tall / 2 + 8)


def _by_name(names: Sequence[str]) -> Groups:
    servers = tuple(i for i, name in enumerate(names) if name.startswith("ps:"))
    return servers, tuple(i for i in range(len(names)) if i not in servers)


def _once(rows: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the rows without repeated tasks, and without empty rows."""
    seen: set[int] = set()
    seen_rows = []
    for row in rows:
        seen_rows.append(tuple(task for task in row if task not in seen))
        seen |= {*row}
    return [row for row in seen_rows if row]


def _group(
    servers: tuple[int, ...], workers: tuple[int, ...], hosts: Sequence[str]
) -> Group:
    names = list(dict.fromkeys(hosts))
    ordered = by_host(workers, hosts) if hosts else workers
    return Group(servers, ordered, (), tuple(map(names.index, hosts)))


def _on_hosts(
    rows: Iterable[Sequence[int]],
    hosts: Sequence[str],
    idle: frozenset[int],
    tall: float,
) -> SceneLayout:
    """Put hosts beside each other; a row is at the same height on all of them."""
    names = list(dict.fromkeys(hosts))
    columns = 2 if len(names) < 5 else 3
    # A row takes as many lines as the host with most of its tasks needs.
    width = (WIDTH - _HOST_GAP * (columns - 1)) / columns
    on_host = [[[t for t in row if hosts[t] == name] for name in names] for row in rows]
    lines = [-(-max(map(len, item)) // _MOST_BESIDE) for item in on_host]
    height = _HOST_HEAD + sum(lines) * (tall + _HOST_ROW) - _HOST_ROW + _RIM
    at: dict[int, TaskBox] = {}
    panels: list[HostPanel] = []
    for number, name in enumerate(names):
        row, column = divmod(number, columns)
        left, top = column * (width + _HOST_GAP), 8 + row * (height + _HOST_GAP / 2)
        panels.append(HostPanel(name, left, top, width, height))
        y = top + _HOST_HEAD + tall / 2
        for n_lines, group in zip(lines, on_host, strict=True):
            _beside(at, group[number], panels[-1], y, tall)
            y += n_lines * (tall + _HOST_ROW)
    end = panels[-1].top + height + 8
    return SceneLayout(_ordered(at), idle, end, is_ring=True, panels=tuple(panels))


def _beside(
    at: dict[int, TaskBox],
    tasks: Sequence[int],
    panel: HostPanel,
    y: float,
    tall: float,
) -> None:
    """Put tasks into lines of a host's panel, the first one at the height `y`."""
    for first in range(0, len(tasks), _MOST_BESIDE):
        line = tasks[first : first + _MOST_BESIDE]
        pitch = (panel.width - _RIM) / len(line)
        for index, task in enumerate(line):
            x = panel.left + _RIM / 2 + pitch * (index + 0.5)
            at[task] = TaskBox(x, y, min(_BOX_W, pitch - _BETWEEN), tall)
        y += tall + _HOST_ROW


def _ordered(at: dict[int, TaskBox]) -> tuple[TaskBox, ...]:
    return tuple(at[i] for i in range(len(at)))


def _rows(at: dict[int, TaskBox], tasks: Sequence[int], y: float, tall: float) -> float:
    """Put tasks into rows from the height `y` on; returns the last row's height."""
    n_rows = max(1, -(-len(tasks) // _MOST_IN_A_ROW))
    each = -(-len(tasks) // n_rows) or 1
    width = min(_BOX_W, (WIDTH - _GAP * (each + 1)) / each)
    for index, task in enumerate(tasks):
        row, column = divmod(index, each)
        in_row = min(each, len(tasks) - row * each)
        pitch = WIDTH / in_row
        at[task] = TaskBox(pitch * (column + 0.5), y + row * (tall + _GAP), width, tall)
    return y + (n_rows - 1) * (tall + _GAP)


def _circle(
    at: dict[int, TaskBox], tasks: Sequence[int], top: float, tall: float
) -> float:
    """Put tasks on an ellipse below `top`, the first at its top; return its bottom."""
    n = len(tasks)
    if n == 1:
        at[tasks[0]] = TaskBox(WIDTH / 2, top + tall / 2, _BOX_W, tall)
        return top + tall + 8
    high = 62 + 27 * min(n, 12)
    high = high if n > _MANY else min(high, _LOW_RING)
    width = _width_on_circle(n)
    wide = (WIDTH - width) / 2 - _RIM
    centre = top + tall / 2 + high
    for index, task in enumerate(tasks):
        angle = 2 * math.pi * index / n
        x, y = WIDTH / 2 + wide * math.sin(angle), centre - high * math.cos(angle)
        at[task] = TaskBox(x, y, width, tall)
    return max(at[task].y for task in tasks) + tall / 2 + 8


def _width_on_circle(n: int) -> float:
    """Return the width of boxes at which the highest one is clear of the next two."""
    if n < 5:
        return _BOX_W
    # Boxes are a radius times this sine apart, and the radius is what the width leaves
    # of half the picture: solved for the width, with 8 pixels between boxes.
    sine = math.sin(2 * math.pi / n)
    return min(_BOX_W, ((WIDTH / 2 - _RIM) * sine - 8) / (1 + sine / 2))


def short_name(name: str, box: TaskBox) -> str:
    """Return a task's name, short where its box is narrow.

    >>> short_name("worker:3", TaskBox(0, 0, 80)), short_name("ps:0", TaskBox(0, 0, 80))
    ('w:3', 'ps:0')
    """
    job, _, task = name.partition(":")
    is_narrow = len(name) * _LETTER + 4 > box.width
    return f"{job[0]}:{task}" if is_narrow and task else name


class Path(NamedTuple):
    """A bent line from box to box: its ends and the point that bends it."""

    start: tuple[float, float]
    bend: tuple[float, float]
    end: tuple[float, float]

    def at(self, t: float) -> tuple[float, float]:
        """Return the point at a share of the way, from 0 to 1."""
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t * t
        return (
            a * self.start[0] + b * self.bend[0] + c * self.end[0],
            a * self.start[1] + b * self.bend[1] + c * self.end[1],
        )

    def middle(self) -> tuple[float, float]:
        """Return the middle of the straight line between the ends."""
        return (
            (self.start[0] + self.end[0]) / 2,
            (self.start[1] + self.end[1]) / 2,
        )

    def arrow(self, width: float, head: float, wing: float) -> Html:
        """Return the line as SVG, with a head of this length and half this width."""
        tip, before = self.end, self.at(0.9)
        angle = math.atan2(tip[1] - before[1], tip[0] - before[0])
        x, y = tip[0] - head * math.cos(angle), tip[1] - head * math.sin(angle)
        right, down = -math.sin(angle) * wing, math.cos(angle) * wing
        return markup(
            '<path d="M{:.1f},{:.1f} Q{:.1f},'
            '{:.1f} {:.1f},{:.1f}" stroke-width="{:.1f}"/>'
            '<polygon points="{:.1f},{:.1f} {:.1f},{:.1f}'
            ' {:.1f},{:.1f}"/>',
            self.start[0],
            self.start[1],
            self.bend[0],
            self.bend[1],
            x,
            y,
            width,
            tip[0],
            tip[1],
            x + right,
            y + down,
            x - right,
            y - down,
        )


def path(layout: SceneLayout, link: Link) -> Path:
    """Return the line of a link; it keeps right, so that both directions are seen."""
    box, other = layout.boxes[link[0]], layout.boxes[link[1]]
    if not layout.is_ring and box.y != other.y:
        # At a server, lines start apart from each other, in the order of the workers.
        spread = max(-40.0, min(40.0, 0.3 * (other.x - box.x)))
        box, other = (
            (box._replace(x=box.x + spread), other)
            if box.y < other.y
            else (box, other._replace(x=other.x - spread))
        )
    dx, dy = other.x - box.x, other.y - box.y
    length = math.hypot(dx, dy) or 1.0
    side = (-dy / length, dx / length)
    off = 17.0
    start = _rim(box, dx, dy, side, off)
    end = _rim(other, -dx, -dy, side, off)
    bent = min(0.07 * length, _MOST_BENT)
    bend = (
        (start[0] + end[0]) / 2 + side[0] * bent,
        (start[1] + end[1]) / 2 + side[1] * bent,
    )
    return Path(start, bend, end)


def _rim(
    box: TaskBox, dx: float, dy: float, side: tuple[float, float], off: float
) -> tuple[float, float]:
    """Return where a line that passes a box's middle at `off` leaves the box."""
    half = (box.width / 2 + 4, box.height / 2 + 4)
    length = math.hypot(dx, dy) or 1.0
    from_, way = (side[0] * off, side[1] * off), (dx / length, dy / length)
    # It leaves by the side that it reaches first.
    reach = min(
        (math.copysign(h, w) - f) / w if abs(w) > 1e-9 else math.inf
        for h, f, w in zip(half, from_, way, strict=True)
    )
    return box.x + from_[0] + reach * way[0], box.y + from_[1] + reach * way[1]
