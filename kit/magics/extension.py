"""`%load_ext kit`, and `%unload_ext kit`, which removes everything again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Mapping
from importlib.util import find_spec
from typing import Any

from IPython.core.extensions import ExtensionManager
from IPython.core.interactiveshell import InteractiveShell

from kit.magics import short_traceback
from kit.magics.cluster_cell_magic import StartMagics
from kit.magics.cluster_line_magic import ClusterMagics
from kit.magics.completion import Completion
from kit.magics.on_magics import OnMagics
from kit.magics.rewriting import Rewriting
from kit.magics.topology_magics import TopologyMagics

# --------------------------------------------------------------------------------------
# Advice for front ends, in one sentence; most need none.
#
# The magics show text and tables, which every front end can display. Boards and
# controls are widgets, which need the packages and settings that are checked here.


_WIDGETS = ("ipywidgets", "jupyter_bokeh")


def advice(
    environment: Mapping[str, str] = os.environ,
    modules: Container[str] = sys.modules,
    is_installed: Callable[[str], object] = find_spec,
) -> str:
    """Return what to do so that widgets are displayed; empty if nothing is needed.

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


_OURS = (StartMagics, ClusterMagics, OnMagics, TopologyMagics)
_NAMES = {"cell": ("cluster", "on"), "line": ("cluster", "topology")}


def load(shell: InteractiveShell) -> None:
    """Add the magics, their completion, the rewriting of cells, short errors; once."""
    if StartMagics.__name__ in _registry(shell):
        return
    starter = StartMagics(shell)
    others = ClusterMagics(shell, starter), OnMagics(shell), TopologyMagics(shell)
    shell.register_magics(starter, *others)
    shell.input_transformers_cleanup.append(Rewriting(shell))
    short_traceback.install(shell)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(Completion(shell.user_ns).match)
    if said := advice():
        print(said)


def unload(shell: InteractiveShell) -> None:
    """Remove all that again; end the cluster that was started, unless it trains.

    Do nothing in `%reload_ext`, which loads again at once: the cluster goes on.
    """
    if _is_reloading():
        return
    starter = _registry(shell).get(StartMagics.__name__)
    if starter is None:
        return
    _end(starter)
    starter.forget_px()
    for kind, names in _NAMES.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    for ours in _OURS:
        _registry(shell).pop(ours.__name__, None)
    _keep(shell.input_transformers_cleanup, Rewriting)
    short_traceback.remove(shell)
    if shell.Completer is not None:
        _keep(shell.Completer.custom_matchers, Completion)


def _is_reloading() -> bool:
    """Whether `%reload_ext` is at work: it tells an extension nothing of itself."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is ExtensionManager.reload_extension.__code__:
            return True
    return False


def _registry(shell: InteractiveShell) -> dict[str, Any]:
    registry: dict[str, Any] = shell.magics_manager.registry
    return registry


def _keep(callbacks: list[Any], kind: type) -> None:
    """Remove objects of this kind and their methods; keep those of others."""
    callbacks[:] = [
        o for o in callbacks if not isinstance(getattr(o, "__self__", o), kind)
    ]


def _end(starter: StartMagics) -> None:
    cluster = starter.started
    run = cluster.run if cluster is not None else None
    if run is not None and not run.done:
        print(
            f"{cluster!r} goes on, because a training runs on it; end it with "
            f"kit.current_cluster().stop()."
        )
    elif cluster is not None:
        cluster.stop()
