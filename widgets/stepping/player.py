"""A recording as a page of its own: all states, and buttons that turn them over.

Pure text. Without scripts the page shows all states below each other. The slider takes
the arrow keys; so does the page, wherever the focus is.
"""

from __future__ import annotations

from kit.exchange.stepping.stepped_exchange import SteppedExchange
from widgets.stepping import drawing
from widgets.stepping.drawing import style
from widgets.stepping.participants import Formula

SCRIPT = """<script>
(function () {
  const root = document.querySelector(".ps-player");
  const states = [...root.querySelectorAll(".ps-state")];
  const said = states.map((state) => state.querySelector(".ps-said"));
  const [back, next, play] = root.querySelectorAll("button");
  const slider = root.querySelector("input");
  const status = root.querySelector("[role=status]");
  let at = 0, timer = 0;
  const show = (to) => {
    at = Math.max(0, Math.min(states.length - 1, to));
    states.forEach((state, number) => { state.hidden = number !== at; });
    status.innerHTML = said[at].innerHTML;
    slider.value = at;
    const where = said[at].querySelector(".ps-where").textContent;
    slider.setAttribute("aria-valuetext", where);
    back.disabled = at === 0;
    next.disabled = at === states.length - 1;
    if (next.disabled) stop();
  };
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
  const start = () => {
    if (at === states.length - 1) show(0);
    timer = setInterval(() => show(at + 1), 1500);
    play.textContent = "Pause";
  };
  const turn = (to) => { stop(); show(to); };
  back.addEventListener("click", () => turn(at - 1));
  next.addEventListener("click", () => turn(at + 1));
  play.addEventListener("click", () => (timer ? stop() : start()));
  slider.addEventListener("input", () => turn(Number(slider.value)));
  document.addEventListener("keydown", (event) => {
    const isOther = event.altKey || event.ctrlKey || event.metaKey;
    if (event.target === slider || isOther) return;
    if (event.key === "ArrowRight") turn(at + 1);
    if (event.key === "ArrowLeft") turn(at - 1);
  });
  said.forEach((text) => { text.hidden = true; });
  root.querySelector(".ps-buttons").hidden = status.hidden = false;
  show(0);
})();
</script>"""


def body(recording: SteppedExchange, formula: Formula) -> str:
    """Return the page's content; `SCRIPT` belongs behind it."""
    last = len(recording.states) - 1
    states = "".join(
        f'<section class="ps-state">{drawing.sentence(recording, position)}'
        f"{drawing.state(recording, formula, position)}</section>"
        for position in range(last + 1)
    )
    return (
        f'<style>{style()}</style><div class="ps-board ps-stepper ps-player">'
        f'<div class="ps-buttons" hidden><button type="button">Back</button>'
        f'<button type="button">Next</button><button type="button">Play</button>'
        f'<input type="range" min="0" max="{last}" value="0" step="1" '
        f'aria-label="Messages that have arrived"></div>'
        f'<p class="ps-said" role="status" aria-live="polite" hidden></p>'
        f"{states}{drawing.foot(formula)}</div>"
    )
