"""The pages of a shared board: one for the class, and one for the teacher.

Pure text. A page gets HTML for its places over a socket and shows it. It can be read
and answered, and nothing else. It asks no other host for anything.
"""

from __future__ import annotations

from kit.markup import Html, joined, markup, verbatim
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
.ps-shared .ps-pictures > figure { flex-basis: 592px; }
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
        if (name === "form") reply.textContent = "";
      }
      socket.send("");
    };
    socket.onclose = () => {
      silence.textContent = "Disconnected; what is shown is from before. It connects "
        + "again by itself if the board is still shared.";
      setTimeout(listen, 2000 + 2000 * Math.random());
    };
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
    const form = event.target, value = new FormData(form).get("answer");
    if (value && await say({answer: value})) {
      for (const part of form.elements) part.disabled = true;
    }
  });
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => say({do: button.dataset.do}));
  }
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
            told,
            name,
        )
        for what, (name, told) in _BUTTONS.items()
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
        markup("<div class=ps-teach>{}</div>", teach) * is_teacher,
        Html("<div data-place=form></div>") * (not is_teacher),
    )
    title = "Shared board: teacher" if is_teacher else "Shared board"
    made = "This page shows a training as it goes on; it can only look, and answer."
    if is_teacher:
        made = "The buttons begin and end the question; the class has none of them."
    script = markup("<script>{}</script>", verbatim(_SCRIPT))
    connects = markup("'self' ws://{} wss://{}", host, host)
    return page.page(title, made, body, (), script, connects=connects)


def form(prediction: Prediction) -> Html:
    """Return the form of a question; while it is there, the board is hidden."""
    if prediction.choices:
        fields = joined(
            markup(
                '<label><input type="radio" name="answer" value="{}"> {}</label>',
                one,
                one,
            )
            for one in prediction.choices
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
