"""Colours, dashes and sizes of the view, for light and for dark.

Pure. The hues are those of Okabe and Ito, which people with any common colour blindness
can distinguish; each is darkened or lightened until it stands out from its background.
Nothing is shown by colour alone: phases have a hatch and a thickness, links a dash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count

from kit.exchange.topologies.topology import registered
from kit.trace.traffic import Phase

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
TEXT_PX = 13  # the smallest text of figures and pages

#: With six hues, 24 links can be distinguished.
DASHES = ("solid", "dashed", "dotdash", "dotted")

#: How thick a phase is drawn in its row: work thick, transfer thinner, waiting thin.
PHASE_HEIGHT = {
    Phase.WAIT: 0.22,
    Phase.COMPUTE: 0.84,
    Phase.APPLY: 0.84,
    Phase.SEND: 0.56,
    Phase.RECEIVE: 0.56,
    Phase.LOAD: 0.7,
    Phase.QUEUE: 0.4,
}
#: Bytes on their way to a task: a thin bar, this far below the middle of its row.
FLIGHT_HEIGHT, FLIGHT_OFF = 0.13, -0.44
FLIGHT = "in flight"
#: What tasks of a group do; what they compute between their calls is not known.
GROUP_PHASES = (Phase.SEND, Phase.RECEIVE, Phase.WAIT, Phase.APPLY)
#: Messages from row to row: what they are called, their dash and the mark at the end.
ARROWS = (
    ("message", "solid", "circle"),
    ("unread", "dashed", "circle_dot"),
    ("missing", "dotted", "x"),
)
PHASE_HATCH = {
    Phase.WAIT: " ",
    Phase.COMPUTE: " ",
    Phase.APPLY: "x",
    Phase.SEND: "/",
    Phase.RECEIVE: "-",
    Phase.LOAD: "|",
    Phase.QUEUE: " ",
}


@dataclass(frozen=True)
class Theme:
    """One set of colours; `hues`: blue, orange, green, purple, red, and one more."""

    name: str
    background: str
    panel: str  # behind tables and figures
    ink: str  # text and formula markers
    faint: str  # secondary text and axis lines
    grid: str
    hues: tuple[str, str, str, str, str, str]
    waiting: str
    hatch: str  # the pattern drawn on a filled bar
    text_px: int = TEXT_PX  # the text of figures

    def hue(self, number: int) -> str:
        """Return the colour number `number`, starting again after the last."""
        return self.hues[number % len(self.hues)]

    def colour(self, name: str) -> str:
        """Return the colour of a name: a field of this class, or `h0` to `h5`.

        >>> LIGHT.colour("ink"), LIGHT.colour("h1")
        ('#1b1f24', '#b35900')
        """
        if name[1:].isdigit():
            return self.hues[int(name[1:])]
        value: str = getattr(self, name)
        return value

    def phase(self, phase: Phase) -> str:
        """Return the colour of what a task is doing.

        Orange and green are what is moved: gradients and parameters.
        """
        blue, _, _, purple, red, violet = self.hues
        return {
            Phase.COMPUTE: blue,
            Phase.SEND: violet,
            Phase.RECEIVE: purple,
            Phase.APPLY: blue,
            Phase.WAIT: self.waiting,
            Phase.LOAD: red,
            Phase.QUEUE: red,
        }[phase]


LIGHT = Theme(
    name="light",
    background="#ffffff",
    panel="#f6f8fa",
    ink="#1b1f24",
    faint="#57606a",
    grid="#d8dee4",
    hues=("#0072b2", "#b35900", "#007f5f", "#a94f85", "#96060c", "#7a1fe0"),
    waiting="#7d8590",
    hatch="#ffffff",
)
DARK = Theme(
    name="dark",
    background="#14181d",
    panel="#1c2229",
    ink="#eef2f6",
    faint="#a9b4c0",
    grid="#36404b",
    hues=("#56b4e9", "#e69f00", "#2fc293", "#d990bd", "#ff7b5c", "#f0e442"),
    waiting="#8b96a3",
    hatch="#14181d",
)
THEMES = (LIGHT, DARK)
_BLACK, _WHITE = "#000000", "#ffffff"
#: For a projector: larger, and as far apart in brightness as can be.
PROJECTED = {
    "light": replace(LIGHT, ink=_BLACK, faint="#24292f", grid="#c4ccd4", text_px=18),
    "dark": replace(DARK, background=_BLACK, ink=_WHITE, faint="#dfe6ee", text_px=18),
}


def topology_hues(shown: Iterable[str]) -> dict[str, int]:
    """Return the number of each topology's colour: of those `shown` and all others.

    It is the one that the topology names, else the next free one. Registered topologies
    choose first, so that a colour does not depend on what else a figure shows.

    >>> hues = topology_hues(["ring", "ring-async"])
    >>> hues["ring"], hues["ring"] == hues["ring-async"]
    (1, False)
    """
    hues = {
        topology.name: topology.hue
        for topology in registered()
        if topology.hue is not None
    }
    for name in (*(topology.name for topology in registered()), *shown):
        if name not in hues:
            hues[name] = next(hue for hue in count() if hue not in hues.values())
    return hues


def link_look(number: int) -> tuple[str, str]:
    """Return the colour's name and the dash of link number `number`.

    >>> link_look(0), link_look(6)
    (('h0', 'solid'), ('h0', 'dotted'))
    """
    n_hues = len(LIGHT.hues)
    # The dash changes with the colour, so that neighbours differ in both.
    return f"h{number % n_hues}", DASHES[(number + number // n_hues) % len(DASHES)]
