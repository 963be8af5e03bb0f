"""What a front end needs to be told, in one sentence; most need nothing.

The magics show text and tables, which every front end can do. Boards and controls are
widgets, and these need what is looked for here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Mapping
from importlib.util import find_spec

_WIDGETS = ("ipywidgets", "jupyter_bokeh")


def advice(
    environment: Mapping[str, str] = os.environ,
    modules: Container[str] = sys.modules,
    is_installed: Callable[[str], object] = find_spec,
) -> str:
    """Return what to do so that widgets are shown here; empty if that is nothing.

    >>> advice({}, set(), lambda name: True)
    ''
    """
    missing = [name for name in _WIDGETS if not is_installed(name)]
    if missing:
        return (
            f"{' and '.join(missing)} cannot be found, so boards are shown as text; "
            f"run: pip install {' '.join(missing)}"
        )
    if "google.colab" in modules:
        return (
            "On Colab, boards need its custom widgets; run: from google.colab import "
            "output; output.enable_custom_widget_manager()"
        )
    if "VSCODE_PID" in environment or "VSCODE_CWD" in environment:
        return (
            "In VS Code, should a board stay empty, let its setting "
            "jupyter.widgetScriptSources name jsdelivr.com and unpkg.com."
        )
    return ""
