"""Who draws a training in a notebook: whatever registered itself as its view.

A view is an entry point of the group `kit.views`; this package imports none itself. The
view called `run` is given each `Run` that a cell ends with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

GROUP = "kit.views"


@cache
def view(name: str) -> Callable[..., Any] | None:
    """Return the view of that name, None if there is none that can be imported.

    Costs a search through the installed packages, once.
    """
    for found in entry_points(group=GROUP, name=name):
        try:
            return cast("Callable[..., Any]", found.load())
        except ImportError:  # what it draws with is not installed
            continue
    return None
