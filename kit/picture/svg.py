"""The drawing: a layout as SVG, which a notebook and a browser show as it is.

Pure. One file with its own style sheet for light and for dark; nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

from kit.markup import NO_HTML, Html, element, joined, verbatim
from kit.picture.grid import NOT_PLACED, lane_order
from kit.picture.layout import HEAD, LineSegment, PictureLayout, Spot
from kit.picture.scene import BoxKind, GraphBox, Scene

# --------------------------------------------------------------------------------------
# Colours of the pictures, for light and for dark, as style sheets.


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
TEXT_PX, DETAIL_PX = 13, 12
N_HUES = 6


@dataclass(frozen=True)
class Colours:
    """One theme; the last of `hues` is for what has no task."""

    ground: str
    ink: str
    faint: str
    hues: tuple[str, ...]


LIGHT = Colours(
    ground="#ffffff",
    ink="#1b1f24",
    faint="#57606a",
    hues=(
        *("#0072b2", "#b35900", "#007f5f", "#a94f85", "#c2321f", "#7a6a00"),
        "#6b7280",
    ),
)
DARK = Colours(
    ground="#14181d",
    ink="#eef2f6",
    faint="#a9b4c0",
    hues=(
        *("#56b4e9", "#e69f00", "#2fc293", "#d990bd", "#ff7b5c", "#f0e442"),
        "#9aa5b1",
    ),
)

# The page's own theme counts more than that of the system around it.
_THEMES = (
    ("", LIGHT, ""),
    ("", DARK, "@media (prefers-color-scheme: dark)"),
    ('[data-jp-theme-light="true"] ', LIGHT, ""),
    ('[data-jp-theme-light="false"] ', DARK, ""),
    (".vscode-light ", LIGHT, ""),
    (".vscode-dark ", DARK, ""),
)


def style_sheet() -> Html:
    """Return the rules for all themes; they reach `.kit-graph` only."""
    plain = (
        f".kit-graph text{{font:{TEXT_PX}px {FONT}}}"
        f".kit-graph .title{{font-weight:600}}"
        f".kit-graph .detail{{font-size:{DETAIL_PX}px}}"
        ".kit-graph path{fill:none}"
    )
    return verbatim(plain + in_all_themes(".kit-graph", _rules))


def in_all_themes(scope: str, rules: Callable[[str, Colours], str]) -> str:
    """Return the rules for each theme; `rules` makes them of a selector and colours."""
    parts = []
    for prefix, colours, condition in _THEMES:
        made = rules(f"{prefix}{scope}", colours)
        parts.append(f"{condition}{{{made}}}" if condition else made)
    return "".join(parts)


def _rules(scope: str, colours: Colours) -> str:
    rules = [
        f"{scope} .ground{{fill:{colours.ground}}}",
        f"{scope} text{{fill:{colours.ink}}}",
        f"{scope} .detail{{fill:{colours.faint}}}",
        f"{scope} .line{{stroke:{colours.faint}}}",
        f"{scope} .head{{fill:{colours.faint}}}",
    ]
    for i, hue in enumerate(colours.hues):
        rules.append(f"{scope} .s{i}{{stroke:{hue}}}{scope} .f{i}{{fill:{hue}}}")
    return "".join(rules)


_LEGEND_HEIGHT, _RADIUS = 34.0, 6.0
_ARROW = 7.0
_MEANING = {
    BoxKind.VARIABLE: "variable",
    BoxKind.PLACEHOLDER: "placeholder, fed",
    BoxKind.FOLDED: "folded",
    BoxKind.ARRIVAL: "arrives from another task",
}


def draw(scene: Scene, layout: PictureLayout) -> Html:
    """Return the picture as the text of an SVG element."""
    hue = hues(scene)
    legend = joined(_legend(scene, hue, layout.height))
    entries = (_entry_width(text) for _, text in _meanings(scene))
    width = max(layout.width, 12.0 + sum(entries), 120.0)
    height = layout.height + _LEGEND_HEIGHT
    boxes, on_top = {box.key: box for box in scene.boxes}, attrgetter("is_bold")
    parts = [
        element("style", style_sheet()),
        element("rect", class_="ground", width=width, height=height),
        *_strips(layout, hue),
        *(_line(stretch, hue) for stretch in sorted(layout.stretches, key=on_top)),
        *(_box(boxes[key], spot, hue) for key, spot in layout.spots.items()),
        legend,
    ]
    return whole("kit-graph", width, height, description(scene), parts)


def whole(
    kind: str, width: float, height: float, label: str, parts: Iterable[Html]
) -> Html:
    """Return a picture of its parts; `label` says it to those who cannot see it."""
    return element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_=kind,
        role="img",
        width=round(width),
        height=round(height),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        aria_label=label,
    )


def description(scene: Scene) -> str:
    """Return the picture in a sentence, for those who cannot see it."""
    moved = sum(box.kind is BoxKind.ARRIVAL for box in scene.boxes)
    lanes = ", ".join(scene.lanes) or "nothing"
    return f"graph of {scene.n_ops} ops on {lanes}; {moved} transfers between tasks"


def hues(scene: Scene) -> dict[str, int]:
    """Return the number of each lane's hue; it does not depend on their order."""
    tasks = lane_order([lane for lane in scene.lanes if lane != NOT_PLACED], {})
    hue_of = {lane: i % N_HUES for i, lane in enumerate(tasks)}
    return hue_of | {NOT_PLACED: N_HUES}


def _strips(layout: PictureLayout, hue: Mapping[str, int]) -> Iterator[Html]:
    for name, left, right in layout.lanes:
        width, i = right - left, hue[name]
        area = {"y": 2, "rx": 4, "width": width - 4, "height": layout.height - 2}
        yield element("rect", class_=f"f{i}", fill_opacity=".07", x=left + 2, **area)
        yield element("rect", class_=f"f{i}", x=left + 10, y=13, width=10, height=10)
        yield element("text", name, class_="title", x=left + 26, y=HEAD - 11)


def _line(stretch: LineSegment, hue: Mapping[str, int]) -> Html:
    (x1, y1), (x2, y2) = stretch.start, stretch.end
    if stretch.has_head:
        y1, y2 = (y1 + _ARROW, y2) if stretch.is_upward else (y1, y2 - _ARROW)
    middle = (y1 + y2) / 2
    way = (
        f"M{x1:.1f} {y1:.1f}V{y2:.1f}"
        if abs(x1 - x2) < 0.5
        else f"M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} "
        f"{x2:.1f} {y2:.1f}"
    )
    i = hue[stretch.lane]
    path = element(
        "path",
        class_=f"s{i}" if stretch.is_bold else "line",
        stroke_width=3.2 if stretch.is_bold else 1.2,
        stroke_dasharray="4 3" if stretch.is_control else None,
        opacity=_faint(stretch),
        d=way,
    )
    return path + (_head(stretch, i) if stretch.has_head else "")


def _faint(stretch: LineSegment) -> str | None:
    return ".35" if stretch.is_faint else None


def _head(stretch: LineSegment, hue: int) -> Html:
    x, y = stretch.start if stretch.is_upward else stretch.end
    back = y + _ARROW if stretch.is_upward else y - _ARROW
    half = 4.5 if stretch.is_bold else 3.2
    colour = f"f{hue}" if stretch.is_bold else "head"
    points = f"{x:.1f},{y:.1f} {x - half:.1f},{back:.1f} {x + half:.1f},{back:.1f}"
    return element("polygon", class_=colour, opacity=_faint(stretch), points=points)


def _box(box: GraphBox, spot: Spot, hue: Mapping[str, int]) -> Html:
    i = hue[box.origin or box.lane]
    shapes = _shape(box.kind, spot, i)
    if box.detail:
        texts = _text(box.title, spot.x, spot.y - 3, "title")
        texts += _text(box.detail, spot.x, spot.y + 13, "detail")
    else:
        texts = _text(box.title, spot.x, spot.y + 4.5, "title")
    tip = element("title", box.tip) if box.tip else NO_HTML
    return element("g", tip, shapes, texts, opacity=".4" if box.is_faint else None)


def _text(text: str, x: float, y: float, kind: str) -> Html:
    return element("text", text, class_=kind, text_anchor="middle", x=x, y=y)


def _shape(kind: BoxKind, spot: Spot, hue: int) -> Html:
    round_ends = spot.height / 2
    match kind:
        case BoxKind.VARIABLE:
            inner = Spot(spot.x, spot.y, spot.width - 7, spot.height - 7)
            return _rect(spot, hue, 2, 2.0, 0.16) + _rect(inner, hue, 1, 1.0, 0.0)
        case BoxKind.PLACEHOLDER:
            return _rect(spot, hue, round_ends, 1.2, 0.16)
        case BoxKind.CONSTANT:
            return _rect(spot, hue, 2, 0.0, 0.2)
        case BoxKind.FOLDED:
            behind = Spot(spot.x + 4, spot.y + 4, spot.width, spot.height)
            front = _rect(spot, hue, _RADIUS, 1.2, 0.22)
            return _rect(behind, hue, _RADIUS, 1.2, 0.1) + front
        case BoxKind.ARRIVAL:
            return _rect(spot, hue, round_ends, 2.0, 0.0)
    return _rect(spot, hue, _RADIUS, 1.2, 0.12)


def _rect(spot: Spot, hue: int, radius: float, stroke: float, opacity: float) -> Html:
    area = {
        "x": spot.x - spot.width / 2,
        "y": spot.y - spot.height / 2,
        "width": spot.width,
        "height": spot.height,
        "rx": round(radius),
    }
    edge = {"stroke_width": stroke} if stroke else {"stroke": "none"}
    kind = f"f{hue} s{hue}" if stroke else f"f{hue}"
    ground = element("rect", class_="ground", **area)
    return ground + element(
        "rect", class_=kind, fill_opacity=str(opacity), **edge, **area
    )


def _meanings(scene: Scene) -> list[tuple[BoxKind | None, str]]:
    kinds = {box.kind for box in scene.boxes}
    meanings: list[tuple[BoxKind | None, str]] = [
        (kind, text) for kind, text in _MEANING.items() if kind in kinds
    ]
    if any(line.is_control for line in scene.lines):
        meanings.append((None, "runs after"))
    return meanings


def _entry_width(text: str) -> float:
    return 52.0 + 6.8 * len(text)


def _legend(scene: Scene, hue: Mapping[str, int], top: float) -> Iterator[Html]:
    x, y = 12.0, top + _LEGEND_HEIGHT / 2
    for kind, text in _meanings(scene):
        if kind is None:
            dashes = {"stroke_width": 1.2, "stroke_dasharray": "4 3"}
            yield element("path", class_="line", d=f"M{x:.0f} {y:.0f}h22", **dashes)
        else:
            yield _shape(kind, Spot(x + 11, y, 22, 13), N_HUES)
        yield element("text", text, class_="detail", x=x + 32, y=y + 4)
        x += _entry_width(text)
