"""What boards, steppers and shares hold, and show in a cell."""

from __future__ import annotations

from typing import Any

from widgets import TrafficBoard
from widgets.board.follower import Beat
from widgets.sharing.share import Share


def beat_of(board: TrafficBoard) -> Beat:
    """Return what a board shows now."""
    return board._beat


def bundle_of(item: Any) -> dict[str, str]:
    """Return what a cell keeps of a board or a stepper, by media type."""
    bundle: dict[str, str] = item._bundle()
    return bundle


def view_of(item: Any) -> Any:
    """Return the widgets of a board or a stepper."""
    return item._view


def server_of(share: Share) -> Any:
    """Return what serves the pages of a share."""
    server = share._server
    assert server is not None
    return server
