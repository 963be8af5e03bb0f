"""What the board needs of the notebook around it: a kernel, BokehJS, and the theme.

jupyter_bokeh draws with the BokehJS that is in the page and brings none of its own, so
it is put there once for each kernel, from this machine: a class room without a network
sees the same figures.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_LOAD = "application/vnd.bokehjs_load.v0+json"
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
    from bokeh.embed.bundle import bundle_for_objs_and_resources
    from bokeh.io.notebook import _loading_js
    from bokeh.resources import Resources

    bundle = bundle_for_objs_and_resources(
        None, Resources(mode="inline", components=["bokeh"])
    )
    data = {_LOAD: _loading_js(bundle, None, register_mime=False)}
    if "JPY_SESSION_NAME" not in os.environ:  # a front end that runs plain scripts
        data[_SCRIPT] = _loading_js(bundle, None, register_mime=True)
    place(data)
    _loaded_in[:] = [here]


def display_widget(widget: Any) -> None:
    """Display a widget as nothing but that, so that no saved page shows its repr."""
    view = "application/vnd.jupyter.widget-view+json"
    place({view: widget._repr_mimebundle_()[view]})


def place(bundle: dict[str, Any]) -> Any:
    """Display a bundle of forms; its `update(bundle, raw=True)` replaces it later."""
    from IPython.display import display

    return display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
