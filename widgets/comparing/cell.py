"""A comparison in a cell: live where there is ipywidgets, and what a notebook keeps."""

from __future__ import annotations

from typing import Any

from kit.experiments.comparison import Comparison
from widgets.comparing.still import still
from widgets.drawing import front_end


def show(comparison: Comparison) -> None:
    """Display a comparison in a notebook; this is the view called `comparison`.

    Raises `NotImplementedError` elsewhere: the caller has another way to show it.
    """
    if front_end.kernel() is None:
        raise NotImplementedError
    live = _live(comparison)
    if live is not None:
        front_end.display_widget(live.root)
    front_end.place({"text/plain": repr(comparison), "text/html": still(comparison)})


def _live(comparison: Comparison) -> Any:
    try:
        from widgets.comparing.live import LiveComparison
    except ImportError:
        return None  # without ipywidgets: the still picture
    return LiveComparison(comparison)
