"""The picture of a topology as tests read it back: tasks, arrows, words, boxes."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree as Xml

from widgets.board.geometry import TaskBox
from widgets.board.run_state import Moment
from widgets.board.scene import scene

SVG = "{http://www.w3.org/2000/svg}"


class SeenTask(NamedTuple):
    """The box of a task: its class, its texts, and how far down it begins."""

    kind: str
    words: list[str]
    top: float


class SeenArrow(NamedTuple):
    """The arrow of a link: its class, its width and its rate."""

    kind: str
    width: float
    rate: float


class Seen:
    """What a reader sees of a moment."""

    def __init__(self, moment: Moment) -> None:
        self.svg = scene(moment)
        root = Xml.fromstring(self.svg)
        self.label = root.get("aria-label") or ""
        self.words = " ".join(root.itertext())
        self.tasks: dict[str, SeenTask] = {}
        self.arrows: dict[str, SeenArrow] = {}
        for group in root.iter(f"{SVG}g"):
            kind = group.get("class", "")
            if kind.startswith("ps-task"):
                words = [str(element.text) for element in group.iter(f"{SVG}text")]
                top = _number(group.find(f"{SVG}rect"), "y")
                self.tasks[words[0].split()[0]] = SeenTask(kind, words, top)
            elif link := group.get("data-link"):
                width = _number(group.find(f"{SVG}path"), "stroke-width")
                self.arrows[link] = SeenArrow(kind, width, _number(group, "data-rate"))

    @property
    def kinds(self) -> dict[str, str]:
        """What each arrow shows: its last class."""
        return {link: arrow.kind.split()[-1] for link, arrow in self.arrows.items()}


def _number(element: Xml.Element | None, name: str) -> float:
    assert element is not None
    return float(element.get(name, "nan"))


def overlap(left: TaskBox, right: TaskBox) -> bool:
    """Whether two boxes lie on each other."""
    return (
        abs(left.x - right.x) < (left.width + right.width) / 2
        and abs(left.y - right.y) < (left.height + right.height) / 2
    )
