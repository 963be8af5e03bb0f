"""What the board needs of the notebook around it: a kernel, BokehJS, and the theme.

jupyter_bokeh draws with the BokehJS in the page and does not bring one, so it is put
there once for each page, from this machine: a classroom without a network sees the same
figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_SCRIPT = "application/javascript"

# Runs in the page whenever a view of a figure is ready. The name that it sets is sent
# to the kernel: so the board learns the theme, and of views that begin with old data.
# It is a word, the page, and a random number, as only a new name is sent. A page that
# is loaded again keeps its name: what it was before cannot report that it is gone.
TELL = """
const named = () => {
  const fresh = `${Math.random()}`;
  try {
    const isAgain = performance.getEntriesByType("navigation")[0]?.type === "reload";
    return sessionStorage.psPage = isAgain && sessionStorage.psPage || fresh;
  } catch {
    return fresh;  // a frame without storage
  }
};
const tell = () => {
  const body = document.body, lab = body.dataset.jpThemeLight;
  const dark = lab ? lab === "false"
    : [...body.classList].some((name) => /^vscode-(dark|high-contrast)$/.test(name))
      || (!/vscode-light/.test(body.className)
          && matchMedia("(prefers-color-scheme: dark)").matches);
  window.psPage ||= named();
  figure.name = `${dark ? "dark" : "light"} ${window.psPage} ${Math.random()}`;
};
new MutationObserver(tell).observe(document.body,
  {attributes: true, attributeFilter: ["data-jp-theme-light"]});
tell();
const box = figure.above.find((one) => one.type === "Legend");
const phone = matchMedia("(max-width: 700px)");
let wide = null;  // the looks of a legend that a phone has no room for
const fold = () => {
  if (!box || phone.matches === (wide !== null)) return;
  const {ncols, glyph_width} = box;
  const few = box.items.length > 3 ? 2 : 1;
  box.setv(phone.matches ? {ncols: few, glyph_width: 14} : wide);
  wide = phone.matches ? {ncols, glyph_width} : null;
};
phone.addEventListener("change", fold);
fold();
"""

# Runs in the page once a second, for all boards there: a kernel that is gone cannot
# report that. It counts its turns, not time, so a laptop that wakes up has missed
# nothing. It reports when the page cannot be seen, so that nothing is drawn for it and
# it has nothing to catch up with. Radio buttons of ipywidgets have no name, so each
# would be a stop of the Tab key; sliders and players have none for a screen reader.
WATCH = """
const PATIENCE = 4;
const dress = (live) => {
  for (const group of live.querySelectorAll(".widget-radio")) {
    const box = group.querySelector(".widget-radio-box") || group;
    const label = group.querySelector(".widget-label");
    box.setAttribute("role", "radiogroup");
    if (label) box.setAttribute("aria-label", label.textContent);
    box.psName ||= "ps-" + Math.random().toString(36).slice(2);
    for (const radio of box.querySelectorAll("input")) radio.name ||= box.psName;
  }
  for (const place of live.querySelectorAll(".ps-status .widget-html-content")) {
    place.setAttribute("role", "status");
    place.setAttribute("aria-live", "polite");
  }
  for (const handle of live.querySelectorAll(".noUi-handle")) {
    speak(handle);
    handle.psSpeaks ||= new MutationObserver(() => speak(handle));
    handle.psSpeaks.observe(handle, {attributes: true});
  }
  for (const player of live.querySelectorAll(".widget-play")) {
    const names = ["Play or pause", "Stop, and go to the beginning"];
    for (const [index, name] of names.entries()) {
      player.children[index].title = name;
      player.children[index].setAttribute("aria-label", name);
    }
  }
  for (const figure of live.querySelectorAll("[class*=ps-figure-]")) {
    const name = figure.className.match(/ps-figure-(\\w+)/)[1];
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", `figure of the ${name}, also in the table`);
  }
};
const keys = (live) => {
  if (live.psKeys || !live.querySelector(".ps-stepper")) return;
  live.psKeys = true;  // arrows turn a stepper wherever its focus is
  live.addEventListener("keydown", (event) => {
    if (event.target.matches("input, .noUi-handle, [role=region]")) return;
    const turn = {ArrowLeft: ".ps-back", ArrowRight: ".ps-next"}[event.key];
    if (turn) live.querySelector(turn).click();
  });
};
const speak = (handle) => {
  const slider = handle.closest(".widget-slider");
  const label = slider.querySelector(".widget-label");
  const now = slider.querySelector(".widget-readout").textContent;
  const most = Math.round(handle.getAttribute("aria-valuemax"));
  const said = /^\\d+$/.test(now) ? `${now} of ${most}` : now;
  if (handle.getAttribute("aria-valuetext") === said) return;
  handle.setAttribute("aria-label", label.textContent);
  handle.setAttribute("aria-valuetext", said);
};
const look = () => {
  for (const live of document.querySelectorAll(".ps-live")) {
    dress(live);
    keys(live);
    const sign = live.querySelector(".ps-beat");
    if (!sign || document.hidden) continue;
    const beat = sign.dataset.beat, last = live.psBeat;
    if (beat !== last) live.psHeard = new Date();
    live.psMissed = beat !== last || beat === "over" ? 0 : live.psMissed + 1;
    live.psBeat = beat;
    const isGone = live.psMissed >= PATIENCE;
    if (isGone === live.classList.contains("ps-gone")) continue;
    live.classList.toggle("ps-gone", isGone);
    const since = live.psHeard.toLocaleTimeString();
    live.querySelector(".ps-silence").textContent = !isGone ? "" : "Disconnected: "
      + `no news from the kernel since ${since}. What is shown is from then. If the `
      + "kernel was restarted, run the cells from the top.";
    for (const part of live.querySelectorAll(".ps-controls")) part.inert = isGone;
  }
};
const tellSeen = () => {
  const word = document.hidden ? "hidden" : "seen";
  for (const live of document.querySelectorAll(".ps-live")) {
    const roots = [...(window.Bokeh?.index.roots || [])];
    const view = roots.find((one) => live.contains(one.el));
    if (view) view.model.name = `${word} ${window.psPage} ${Math.random()}`;
    if (!live.classList.contains("ps-gone")) live.psMissed = 0;
  }
};
window.psSeen ||= document.addEventListener("visibilitychange", tellSeen) || true;
// Lab takes arrows for its cells, wherever the focus is; so it must not see these.
window.psKeys ||= window.addEventListener("keydown", (event) => {
  const isNative = event.target.matches?.(".ps-live [type=radio], .ps-live select");
  if (isNative && /^(Arrow|Home|End|Page| )/.test(event.key)) event.stopPropagation();
}, true) || true;
clearInterval(window.psWatch);
window.psWatch = setInterval(look, 1000);
look();
"""


class Stored:
    """Where BokehJS is: the pages that have it, and the output that it is in."""

    def __init__(self) -> None:
        self.forget(None)

    def forget(self, kernel: object) -> None:
        """Begin anew, as in another kernel."""
        self.kernel = kernel
        self.pages: set[str] = set()
        self.cell, self.request = "", ""  # that put it there
        self.output: Any = None


stored = Stored()


def kernel() -> Any:
    """Return the IPython kernel of this process; None in a terminal or a script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None)


def load_bokeh() -> None:
    """Put BokehJS, 1.3 MB of output, into the page, once for a notebook.

    A page that was loaded again may have lost it with an output that was not saved, so
    it gets it again unless it has drawn already (`page_draws`). So does a cell that had
    it in its output and is run again. The older output is emptied if it is still there.
    """
    here = kernel()
    if here is None:
        return
    page, cell, request = _asking()
    if here is not stored.kernel:
        stored.forget(here)
    is_run_again = cell and cell == stored.cell and request != stored.request
    if page in stored.pages and not is_run_again:
        return
    script = bokeh_script()
    if stored.output is not None:
        stored.output.update({"text/plain": ""}, raw=True)
    stored.pages, stored.output = {page}, show_bundle({_SCRIPT: script})
    stored.cell, stored.request = cell, request


def bokeh_script() -> str:
    """Return all of BokehJS."""
    from bokeh.io.notebook import load_notebook
    from bokeh.resources import Resources
    from IPython.utils.capture import capture_output

    with capture_output() as caught:  # it displays two forms, and one is enough
        load_notebook(Resources(mode="inline", components=["bokeh"]), hide_banner=True)
    # The plain script runs while a page is loaded, before it asks the kernel for any
    # figure. Bokeh's own form waits until the page shows the cell.
    forms = [output.data for output in caught.outputs if _SCRIPT in output.data]
    return "\n".join(form[_SCRIPT] for form in forms)


def page_draws() -> None:
    """Note that the page that sent the present message draws figures of bokeh.

    A page that is loaded again has BokehJS from the notebook, if that was saved; then
    it need not be put there a second time.
    """
    here = kernel()
    if here is not None and here is stored.kernel:
        stored.pages.add(_asking()[0])


def _asking() -> tuple[str, str, str]:
    """Return the page that sent the present message, the cell, and the message's id.

    Pages have no names, but each has its own session.
    """
    parent = kernel().get_parent()
    header, about = parent.get("header", {}), parent.get("metadata", {})
    return header.get("session", ""), about.get("cellId", ""), header.get("msg_id", "")


def watch_page() -> None:
    """Have the page run `WATCH` for a live view that has no figure of bokeh."""
    show_bundle({_SCRIPT: f"(() => {{ {WATCH} }})();"})


def display_widget(widget: Any) -> None:
    """Display a widget without its repr, which a saved page would show."""
    view = "application/vnd.jupyter.widget-view+json"
    show_bundle({view: widget._repr_mimebundle_()[view]})


def at_cell_ends(is_over: Callable[[], bool]) -> None:
    """Call at the end of this cell and of all later ones, until it returns True.

    What a thread publishes between two cells belongs to neither of them, and programs
    that execute notebooks drop it.
    """
    events = kernel().shell.events

    def hook(_: Any) -> None:
        if is_over():
            events.unregister("post_run_cell", hook)

    events.register("post_run_cell", hook)


def at_next_cell(call: Callable[[], None]) -> None:
    """Call once, when the next cell begins."""
    events = kernel().shell.events

    def hook(_: Any) -> None:
        events.unregister("pre_run_cell", hook)
        call()

    events.register("pre_run_cell", hook)


def show_bundle(bundle: dict[str, Any]) -> Any:
    """Display a bundle of forms; its `update(bundle, raw=True)` replaces it later."""
    from IPython.display import display

    return display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def button(label: str, icon: str, tooltip: str) -> Any:
    """Return a button; needs ipywidgets."""
    import ipywidgets

    layout = ipywidgets.Layout(width="auto", min_width="92px")
    made = ipywidgets.Button(
        description=label, icon=icon, tooltip=tooltip, layout=layout
    )
    made.add_class("ps-button")
    return made
