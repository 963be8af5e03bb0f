"""What the board needs of the notebook around it: a kernel, BokehJS, and the theme.

jupyter_bokeh draws with the BokehJS that is in the page and brings none of its own, so
it is put there once for each kernel, from this machine: a class room without a network
sees the same figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_SCRIPT = "application/javascript"

# Runs in the page whenever a view of a figure is ready. What it sets comes to the
# kernel: so the board learns the theme, and of views that begin with old data.
TELL = """
const tell = () => {
  const body = document.body, lab = body.dataset.jpThemeLight;
  const dark = lab ? lab === "false"
    : [...body.classList].some((name) => /^vscode-(dark|high-contrast)$/.test(name))
      || (!/vscode-light/.test(body.className)
          && matchMedia("(prefers-color-scheme: dark)").matches);
  figure.name = (dark ? "dark " : "light ") + Math.random();
};
for (const place of document.querySelectorAll(".ps-status .widget-html-content")) {
  place.setAttribute("role", "status");
  place.setAttribute("aria-live", "polite");
}
new MutationObserver(tell).observe(document.body,
  {attributes: true, attributeFilter: ["data-jp-theme-light"]});
tell();
"""

_loaded_in: list[object] = []  # the kernel whose page has BokehJS


def kernel() -> Any:
    """Return the IPython kernel that this process is; None in a terminal or script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None)


def load_bokeh() -> None:
    """Put BokehJS into the page, once for each kernel: 1.3 MB of output."""
    here = kernel()
    if here is None or here in _loaded_in:
        return
    from bokeh.io.notebook import load_notebook
    from bokeh.resources import Resources
    from IPython.utils.capture import capture_output

    with capture_output() as caught:  # it displays two forms, of which one is enough
        load_notebook(Resources(mode="inline", components=["bokeh"]), hide_banner=True)
    # The plain script: it runs when a loaded page is put together, before the kernel
    # tells of any figure. Bokeh's own form waits until the page shows its cell.
    for output in caught.outputs:
        place({kind: text for kind, text in output.data.items() if kind == _SCRIPT})
    _loaded_in[:] = [here]


def display_widget(widget: Any) -> None:
    """Display a widget as nothing but that, so that no saved page shows its repr."""
    view = "application/vnd.jupyter.widget-view+json"
    place({view: widget._repr_mimebundle_()[view]})


def at_cell_ends(is_over: Callable[[], bool]) -> None:
    """Call at the end of each cell, from this one on, until it is over.

    What a thread publishes between two cells belongs to none of them, and programs
    that execute notebooks throw it away.
    """
    events = kernel().shell.events

    def hook(_: Any) -> None:
        if is_over():
            events.unregister("post_run_cell", hook)

    events.register("post_run_cell", hook)


def place(bundle: dict[str, Any]) -> Any:
    """Display a bundle of forms; its `update(bundle, raw=True)` replaces it later."""
    from IPython.display import display

    return display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def button(label: str, icon: str, tooltip: str) -> Any:
    """Return a button; needs ipywidgets."""
    import ipywidgets

    layout = ipywidgets.Layout(width="96px")
    return ipywidgets.Button(
        description=label, icon=icon, tooltip=tooltip, layout=layout
    )
