"""Boxes of a picture as tests compare them."""

from __future__ import annotations

from widgets.board.geometry import TaskBox


def overlap(one: TaskBox, other: TaskBox) -> bool:
    return (
        abs(one.x - other.x) < (one.width + other.width) / 2
        and abs(one.y - other.y) < (one.height + other.height) / 2
    )
