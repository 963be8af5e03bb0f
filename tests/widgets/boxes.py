"""Boxes of a picture as tests compare them."""

from __future__ import annotations

from widgets.board.geometry import TaskBox


def overlap(left: TaskBox, right: TaskBox) -> bool:
    return (
        abs(left.x - right.x) < (left.width + right.width) / 2
        and abs(left.y - right.y) < (left.height + right.height) / 2
    )
