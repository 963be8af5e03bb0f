"""Where everything is: boxes in rows and lanes, and the way of each line.

Pure arithmetic, in pixels. A line that passes rows gets a narrow place in each of them,
so it never runs behind a box; lines from one box to several others share these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.picture.grid import Row, ordered, rows, spaced
from kit.picture.scene import BoxKind, Edge, GraphBox, Scene

GAP, PADDING = 14.0, 14.0  # between boxes, and at the rim of a lane
BOX_HEIGHT, ARRIVAL_HEIGHT = 40.0, 24.0
ROW_GAP, MOST_ROW_GAP = 26.0, 60.0
HEAD = 34.0  # the lane's name
BEND = 8.0  # the width of a passing line
_LETTER, _SMALL_LETTER = 8.1, 6.9  # how wide one is on average
_STRAIGHTENING = 12  # sweeps


@dataclass(frozen=True)
class Spot:
    """Where a box is: its centre and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class LineSegment:
    """A line's way from one row to the next: from below one spot to above another."""

    start: tuple[float, float]
    end: tuple[float, float]
    is_control: bool
    is_bold: bool
    is_faint: bool
    has_head: bool  # it ends at a box, with an arrow head
    is_upward: bool = False  # the arrow head is at its start
    lane: str = ""  # of the box it comes from


@dataclass(frozen=True)
class PictureLayout:
    """The whole picture."""

    spots: Mapping[str, Spot]
    stretches: Sequence[LineSegment]
    lanes: Sequence[tuple[str, float, float]]  # name, left, right
    width: float
    height: float


def box_width(box: GraphBox) -> float:
    """Return how wide a box is drawn."""
    text = max(len(box.title) * _LETTER, len(box.detail) * _SMALL_LETTER)
    return max(56.0, text + 18.0)


def lay_out(scene: Scene) -> PictureLayout:
    """Return the places of everything."""
    return _Layer(scene).layout()


class _Layer:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.boxes = {box.key: box for box in scene.boxes}
        self.row = rows(
            list(self.boxes),
            [(line.source, line.target) for line in scene.lines],
            {box.key for box in scene.boxes if box.kind is BoxKind.ARRIVAL},
        )
        self.lane = {key: box.lane for key, box in self.boxes.items()}
        self.width = {key: box_width(box) for key, box in self.boxes.items()}
        self.above: dict[str, list[str]] = {}
        self.below: dict[str, list[str]] = {}
        self.style: dict[tuple[str, str], tuple[Edge, bool]] = {}
        for line in scene.lines:
            self._join(line)

    def _join(self, line: Edge) -> None:
        """Lead a line through all rows on its way."""
        source, target = line.source, line.target
        is_upward = self.row[source] > self.row[target]
        if is_upward:
            source, target = target, source
        # Lines of one box share their bends, but only those that are drawn alike.
        kind = "~" if line.is_control else "=" if line.is_bold else "-"
        before = source
        for row in range(self.row[source] + 1, self.row[target]):
            bend = f"{source} {kind} {row}"
            if bend not in self.row:
                self.row[bend], self.width[bend] = row, BEND
                self.lane[bend] = self.lane[source]
            self._link(before, bend, line, is_upward)
            before = bend
        self._link(before, target, line, is_upward)

    def _link(self, a: str, b: str, line: Edge, is_upward: bool) -> None:
        # Where lines share a stretch, it is drawn as data unless all only order ops.
        style = self.style.get((a, b))
        if style is None:
            self.below.setdefault(a, []).append(b)
            self.above.setdefault(b, []).append(a)
        if style is None or style[0].is_control:
            self.style[a, b] = (line, is_upward)

    def layout(self) -> PictureLayout:
        arranged = ordered(self._rows(), self.above, self.below)
        lanes = self._lanes(arranged)
        x = self._straightened(arranged, lanes)
        tops = self._tops(arranged)
        spots = {
            key: Spot(x[key], tops[self.row[key]], self.width[key], _height(box))
            for key, box in self.boxes.items()
        }
        stretches = [
            self._stretch(a, b, line, is_upward, x, tops)
            for (a, b), (line, is_upward) in self.style.items()
        ]
        stretches += self._passes(x, tops)
        width = lanes[-1][2] if lanes else 0.0
        height = tops[-1] + BOX_HEIGHT / 2 + PADDING if tops else HEAD
        return PictureLayout(spots, stretches, lanes, width, height)

    def _rows(self) -> list[Row]:
        at = {lane: i for i, lane in enumerate(self.scene.lanes)}
        n = max(self.row.values(), default=-1) + 1
        result: list[Row] = [[[] for _ in at] for _ in range(n)]
        for key, row in self.row.items():
            result[row][at[self.lane[key]]].append(key)
        return result

    def _lanes(self, arranged: Sequence[Row]) -> list[tuple[str, float, float]]:
        lanes, left = [], 0.0
        for i, lane in enumerate(self.scene.lanes):
            needed = [
                sum(self.width[key] for key in row[i]) + GAP * max(0, len(row[i]) - 1)
                for row in arranged
            ]
            width = max([*needed, len(lane) * _LETTER + 20.0]) + 2 * PADDING
            lanes.append((lane, left, left + width))
            left += width
        return lanes

    def _straightened(
        self, arranged: Sequence[Row], lanes: Sequence[tuple[str, float, float]]
    ) -> dict[str, float]:
        # First near the middle of the lane: the means below need a place for every box.
        x: dict[str, float] = {}
        for row in arranged:
            for keys, (_, left, right) in zip(row, lanes, strict=True):
                middle = (left + right) / 2
                self._space(keys, dict.fromkeys(keys, middle), left, right, x)
        # Then towards the mean of the boxes above, and below, in turn.
        for sweep in range(_STRAIGHTENING):
            is_down = sweep % 2 == 0
            near = self.above if is_down else self.below
            for row in arranged if is_down else reversed(arranged):
                for keys, (_, left, right) in zip(row, lanes, strict=True):
                    wanted = {key: _mean(near.get(key, ()), key, x) for key in keys}
                    self._space(keys, wanted, left, right, x)
        return x

    def _space(
        self,
        keys: Sequence[str],
        wanted: Mapping[str, float],
        left: float,
        right: float,
        x: dict[str, float],
    ) -> None:
        if not keys:
            return
        widths = [self.width[key] for key in keys]
        # Passing lines weigh more: a kink in the middle of a long line is the ugliest.
        weights = [1.0 if key in self.boxes else 8.0 for key in keys]
        centres = [wanted[key] for key in keys]
        sides = left + PADDING, right - PADDING
        x.update(zip(keys, spaced(centres, widths, weights, GAP, *sides), strict=True))

    def _tops(self, arranged: Sequence[Row]) -> list[float]:
        """Return the middle of each row; many lines across lanes need more room."""
        tops: list[float] = []
        y = HEAD + PADDING + BOX_HEIGHT / 2
        for row in arranged:
            tops.append(y)
            across = sum(
                self.lane[key] != self.lane[other]
                for lane in row
                for key in lane
                for other in self.below.get(key, ())
            )
            y += BOX_HEIGHT + min(MOST_ROW_GAP, ROW_GAP + 4.0 * across)
        return tops

    def _stretch(
        self,
        a: str,
        b: str,
        line: Edge,
        is_upward: bool,
        x: Mapping[str, float],
        tops: Sequence[float],
    ) -> LineSegment:
        bottom = tops[self.row[a]] + self._half(a)
        top = tops[self.row[b]] - self._half(b)
        faint = self.boxes[line.source].is_faint or self.boxes[line.target].is_faint
        end = a if is_upward else b
        return LineSegment(
            (x[a], bottom),
            (x[b], top),
            line.is_control,
            line.is_bold,
            faint,
            end in self.boxes,
            is_upward,
            self.boxes[line.source].lane,
        )

    def _half(self, key: str) -> float:
        box = self.boxes.get(key)
        return BOX_HEIGHT / 2 if box is None else _height(box) / 2

    def _passes(
        self, x: Mapping[str, float], tops: Sequence[float]
    ) -> list[LineSegment]:
        """Return the pieces of long lines beside the boxes of the rows they pass."""
        passing = {a: line for (a, _), (line, _) in self.style.items()}
        half = BOX_HEIGHT / 2
        return [
            LineSegment(
                (x[key], tops[self.row[key]] - half),
                (x[key], tops[self.row[key]] + half),
                line.is_control,
                line.is_bold,
                self.boxes[line.source].is_faint,
                has_head=False,
                lane=self.lane[key],
            )
            for key, line in passing.items()
            if key not in self.boxes
        ]


def _height(box: GraphBox) -> float:
    return ARRIVAL_HEIGHT if box.kind is BoxKind.ARRIVAL else BOX_HEIGHT


def _mean(near: Sequence[str], key: str, x: Mapping[str, float]) -> float:
    return sum(x[item] for item in near) / len(near) if near else x[key]
