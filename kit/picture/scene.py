"""What a picture shows: boxes by task, and lines between them.

Pure, plain data. A box is an op, or several: a variable stands for all that belongs to
it, a folded name scope for what is in it. A tensor that another task needs *arrives*
there once, however many use it: a box of its own, as in a run.

    worker:0          │ ps:0
      MatMul ◄── ← w  │═══ w
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BoxKind(StrEnum):
    """What a box stands for."""

    OP = "op"
    VARIABLE = "variable"
    PLACEHOLDER = "placeholder"
    CONSTANT = "constant"
    FOLDED = "folded"
    ARRIVAL = "arrival"


@dataclass(frozen=True)
class GraphBox:
    """One box. `lane` is its task, `tip` the text that a mouse over it brings up."""

    key: str
    kind: BoxKind
    lane: str
    title: str
    detail: str = ""
    tip: str = ""
    is_faint: bool = False  # it did not run
    origin: str = ""  # the lane that an arrival comes from


@dataclass(frozen=True)
class Edge:
    """A line from a box to one that needs it; `is_control` if it only orders them."""

    source: str
    target: str
    is_control: bool = False
    is_bold: bool = False  # it leads to another task


@dataclass(frozen=True)
class Scene:
    """All of a picture; `lanes` from left to right."""

    boxes: tuple[GraphBox, ...]
    lines: tuple[Edge, ...]
    lanes: tuple[str, ...]
    n_ops: int


def bytes_text(n: int) -> str:
    """Return a number of bytes for reading.

    >>> bytes_text(8), bytes_text(401_408), bytes_text(67_108_864)
    ('8 B', '401 kB', '67.1 MB')
    """
    size, unit = float(n), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if size >= 100 or unit == "B" else f"{size:.1f} {unit}"


def shortened(text: str, most: int) -> str:
    """Return a text with its middle left out if it is longer than `most` letters.

    >>> shortened("gradients/tower_0/MatMul_1", 13)
    'gradie…tMul_1'
    """
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"
