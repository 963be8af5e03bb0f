"""The pages of a shared board: one for the class, and one for the teacher.

Pure text. A page gets HTML for its places over a socket and shows it. It can be read
and answered, and nothing else. It asks no other host for anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kit.markup import Html, joined, markup, verbatim
from widgets.board.choices import SPEEDS, speed_name
from widgets.board.run_state import Moment
from widgets.drawing import page
from widgets.drawing.looks import style
from widgets.prediction import Prediction

_STYLE = """
.ps-shared form { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center;
  margin: 10px 0; }
.ps-shared input[type=text] { font: inherit; padding: 5px 8px; min-width: 240px;
  color: inherit; background: var(--ps-background); border: 1px solid var(--ps-faint);
  border-radius: 6px; }
.ps-shared input:focus-visible { outline: 3px solid var(--ps-accent); }
.ps-shared .ps-teach { display: flex; gap: 8px; flex-wrap: wrap; margin: 10px 0; }
.ps-shared .ps-answers { max-width: 700px; overflow-x: auto; }
.ps-shared :disabled { opacity: .6; }
.ps-shared:has(.ps-asks) .ps-behind { display: none; }
.ps-shared .ps-pictures > figure { flex-basis: min(592px, 100%); }
.ps-shared .ps-chart { min-width: 0; }
.ps-shared [aria-pressed=true] { border: 2px solid var(--ps-accent); font-weight: 650; }
.ps-shared select { font: inherit; font-size: 14px; }
.ps-shared .ps-class { display: flex; flex-wrap: wrap; gap: 4px 16px;
  align-items: center; overflow-wrap: anywhere; }
.ps-shared .ps-class svg { width: 148px; height: 148px; background: #fff; }
@media (max-width: 700px) { .ps-shared .ps-chart text { font-size: 17px; } }
@media (min-width: 1900px) { header, main { zoom: 1.35; } }
"""
_SCRIPT = """
(() => {
  const place = (name) => document.querySelector(`[data-place=${name}]`);
  const silence = document.querySelector(".ps-silence");
  const reply = document.querySelector(".ps-reply");
  const here = location.href.replace(/[#?].*/, "");
  const random = () => [...crypto.getRandomValues(new Uint8Array(12))]
    .map((byte) => byte.toString(36)).join("");
  let who = random();
  try { who = (localStorage.psWho ||= who); } catch { /* a page without storage */ }
  const listen = () => {
    const socket = new WebSocket(here.replace(/^http/, "ws") + "news");
    socket.onmessage = ({data}) => {
      silence.textContent = "";
      for (const [name, html] of Object.entries(JSON.parse(data))) {
        if (place(name)) place(name).innerHTML = html;
        if (name === "form" && place("form")) recall();
      }
      socket.send("");
    };
    socket.onclose = () => {
      silence.textContent = "Disconnected; what is shown is from before. It connects "
        + "again by itself if the board is still shared.";
      setTimeout(listen, 2000 + 2000 * Math.random());
    };
  };
  const close = () => {
    for (const part of place("form").querySelectorAll("input, button"))
      part.disabled = true;
  };
  const recall = async () => {  // also what a page has said before it was loaded again
    if (await say({mine: ""}) && reply.textContent) close();
  };
  const say = async (said) => {
    const body = JSON.stringify({who, ...said});
    for (let tries = 1; tries <= 3; tries++) {
      try {
        const answer = await fetch(here + "say", {method: "POST", body});
        reply.textContent = await answer.text();
        return answer.ok;
      } catch { reply.textContent = "Not sent: there is no connection."; }
      await new Promise((done) => setTimeout(done, 500 * tries));
    }
  };
  document.addEventListener("submit", async (event) => {
    event.preventDefault();
    const value = new FormData(event.target).get("answer");
    if (value && await say({answer: value})) close();
  });
  document.addEventListener("click", ({target}) => {
    const button = target.closest("button[data-do]");
    if (button) say({do: button.dataset.do, value: button.value});
  });
  document.addEventListener("change", ({target}) => {
    if (target.matches("select[data-do]"))
      say({do: target.dataset.do, value: target.value});
  });
  listen();
})();
"""
_BUTTONS = {
    "start": ("Start", "Take answers"),
    "reveal": ("Reveal", "Take no more answers, and show what was measured"),
    "reset": ("Reset", "Forget the answers"),
}


def shared(host: str, *, is_teacher: bool) -> Html:
    """Return a page; `host` is the name of the server in its address."""
    teach = joined(
        markup(
            '<button type="button" data-do="{}" title="{}">{}</button>',
            what,
            item,
            name,
        )
        for what, (name, item) in _BUTTONS.items()
    )
    body = markup(
        '<style>{}{}</style><div class="ps-board ps-shared">'
        '<p class="ps-silence" role="alert"></p>'
        '<div data-place="status" role="status" aria-live="polite"></div>'
        "{}"
        '<div data-place="question" aria-live="polite"></div>'
        "{}"
        '<p class="ps-reply" role="status"></p>'
        '<div class="ps-behind">'
        '<div data-place="numbers"></div><div class="ps-pictures">'
        '<figure data-place="scene"></figure><figure data-place="loss"></figure></div>'
        "<details><summary>The links, as a table</summary>"
        '<div data-place="table"></div></details></div></div>',
        style(),
        verbatim(_STYLE),
        markup(
            "<div class=ps-teach>{}</div><div data-place=steer></div>"
            "<div data-place=address></div>",
            teach,
        )
        * is_teacher,
        Html("<div data-place=form></div>") * (not is_teacher),
    )
    title = "Shared board: teacher" if is_teacher else "Shared board"
    made = "Watch the training, and answer when you are asked."
    if is_teacher:
        made = "The class sees this page without its buttons."
    script = markup("<script>{}</script>", verbatim(_SCRIPT))
    connects = markup("'self' ws://{} wss://{}", host, host)
    return page.page(title, made, body, (), script, connects=connects)


def steering(moment: Moment, topologies: Sequence[str]) -> Html:
    """Return buttons and a menu for what a teacher may ask of the training."""
    if moment.is_over:
        return Html()
    halted = moment.state == "paused"
    halt = ("resume", "Resume") if halted else ("pause", "Pause")
    speeds = dict.fromkeys([*SPEEDS, moment.link])
    return markup(
        '<div class="ps-teach">{}{}<label>Link speed '
        '<select data-do="link">{}</select></label></div>',
        joined(
            markup(
                '<button type="button" data-do="topology" value="{}" '
                'aria-pressed="{}">{}</button>',
                name,
                str(name == moment.plain_topology).lower(),
                name,
            )
            for name in topologies
        ),
        markup('<button type="button" data-do="{}">{}</button>', *halt),
        joined(
            markup(
                '<option value="{}"{}>{}</option>',
                speed,
                Html(" selected") * (speed == moment.link),
                speed_name(speed) if speed in SPEEDS else speed,
            )
            for speed in speeds
        ),
    )


def address(url: str) -> Html:
    """Return the address for the class, with a QR code if segno is installed."""
    code = Html()
    with suppress(ImportError):
        import segno

        rows = segno.make(url, micro=False).matrix
        dark = [
            (x, y) for y, row in enumerate(rows) for x, is_on in enumerate(row) if is_on
        ]
        code = markup(
            '<svg viewBox="-3 -3 {0} {0}" role="img" aria-label="QR code">'
            '<path d="{1}"/></svg>',
            len(rows) + 6,
            "".join(f"M{x},{y}h1v1h-1z" for x, y in dark),
        )
    link = markup('<a href="{}">{}</a>', url, url)
    return markup('<div class="ps-class">{}<p>For the class: {}</p></div>', code, link)


def form(prediction: Prediction) -> Html:
    """Return the form of a question; while it is there, the board is hidden."""
    if prediction.choices:
        fields = joined(
            markup(
                '<label><input type="radio" name="answer" value="{}"> {}</label>',
                choice,
                choice,
            )
            for choice in prediction.choices
        )
    else:
        fields = markup(
            '<input type="text" name="answer" maxlength="60" autocomplete="off" '
            'placeholder="{}" '
            'aria-label="{}">',
            prediction.expected,
            prediction.question,
        )
    return markup(
        '<form class="ps-asks">{}<button type="submit">Lock in</button></form>', fields
    )
