"""A player for a page without a kernel: a slider over frames, and a Play button.

Pure text. A frame is HTML for each *place* of the page, an element with the attribute
`PLACE`. All frames are in the page as one compressed text, in which pieces that several
frames share are there once. A page that cannot unpack it, or runs no script, stays as
it was written. If there are several tracks, another slider chooses one.

The slider takes the arrow keys, and so does the page, wherever the focus is, if nothing
else there wants them.
"""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

from kit.markup import Html, markup, verbatim

PLACE = "data-place"
MOST_BYTES = 1_500_000  # of packed frames, so that a page stays below 2 MB
_PIECE = re.compile("<[^<]*|[^<]+")
_SCRIPT = """
(() => {
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream();
    const whole = stream.pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(whole).text());
  };
  const play = (root, {pieces, tracks}) => {
    const places = [...root.querySelectorAll("[data-place]")];
    const [back, next, toggle] = root.querySelectorAll(".ps-buttons button");
    const slider = root.querySelector(".ps-frame");
    const chooser = root.querySelector(".ps-track");
    const status = root.querySelector("[role=status]");
    const shown = places.map(() => null);
    let at = Number(slider.value), timer = 0;
    const frames = () => tracks[chooser ? chooser.value : 0].frames;
    const last = () => frames().length - 1;
    const show = (to) => {
      at = Math.max(0, Math.min(last(), to));
      const [said, ...parts] = frames()[at];
      places.forEach((place, number) => {
        const text = parts[number].map((piece) => pieces[piece]).join("");
        if (shown[number] !== text) place.innerHTML = shown[number] = text;
      });
      slider.max = last();
      slider.value = at;
      slider.setAttribute("aria-valuetext", said);
      back.disabled = at === 0;
      next.disabled = at === last();
      if (next.disabled) stop();
    };
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      toggle.textContent = "Play";
      status.setAttribute("aria-live", "polite");
    };
    const start = () => {
      if (at === last()) show(0);
      status.setAttribute("aria-live", "off");  // else it would never stop talking
      timer = setInterval(() => show(at + 1), Number(root.dataset.interval));
      toggle.textContent = "Pause";
    };
    const turn = (to) => { stop(); show(to); };
    const choose = () => {
      const share = at / Math.max(1, slider.max);
      const {name} = tracks[chooser.value];
      chooser.setAttribute("aria-valuetext", name);
      root.querySelector(".ps-chosen").textContent = name;
      turn(Math.round(share * last()));
    };
    back.addEventListener("click", () => turn(at - 1));
    next.addEventListener("click", () => turn(at + 1));
    toggle.addEventListener("click", () => (timer ? stop() : start()));
    slider.addEventListener("input", () => turn(Number(slider.value)));
    if (chooser) chooser.addEventListener("input", choose);
    const isAlone = document.querySelectorAll(".ps-player").length === 1;
    (isAlone ? document : root).addEventListener("keydown", (event) => {
      const isOther = event.altKey || event.ctrlKey || event.metaKey;
      const wants = event.target.matches?.("input, [tabindex='0']");
      if (wants || isOther) return;
      if (event.key === "ArrowRight") turn(at + 1);
      if (event.key === "ArrowLeft") turn(at - 1);
    });
    root.querySelector(".ps-buttons").hidden = false;
    show(at);
  };
  for (const root of document.querySelectorAll(".ps-player:not([data-plays])")) {
    root.dataset.plays = "";
    if (!window.DecompressionStream) continue;
    unpack(root.querySelector(".ps-packed").textContent)
      .then((frames) => play(root, frames));
  }
})();
"""
STYLE = verbatim("""
.ps-player .ps-buttons { display: flex; flex-wrap: wrap; gap: 8px; margin: 10px 0;
  align-items: center; }
.ps-player .ps-buttons[hidden] { display: none; }
.ps-player .ps-buttons button { min-width: 72px; }
.ps-player .ps-buttons label { display: flex; gap: 8px; align-items: center;
  flex: 0 1 320px; }
.ps-player .ps-chosen { min-width: 76px; }
.ps-player .ps-buttons input { flex: 1 1 200px; min-width: 90px; height: 24px;
  accent-color: var(--ps-accent); }
.ps-player input:focus-visible { outline: 3px solid var(--ps-accent);
  outline-offset: 2px; }
@container (max-width: 860px) { .ps-player .ps-numbers {
  grid-template-columns: repeat(3, minmax(0, 1fr)); } }
.ps-player .ps-pictures { gap: 12px 16px; }
.ps-player .ps-pictures > figure { flex-basis: 592px; }
""")


class Frame(NamedTuple):
    """The slider's text at a frame, and HTML for each place in the page's order."""

    said: str
    places: tuple[Html, ...]


class Track(NamedTuple):
    """A sequence of frames; the slider that chooses it shows its name."""

    name: str
    frames: Sequence[Frame]


def player(
    body: Html,
    packed: str,
    tracks: Sequence[Track],
    *,
    moves: str,
    interval_ms: int,
    at: tuple[int, int] = (0, 0),
    chooses: str = "",
) -> Html:
    """Return HTML that plays frames in the places of `body`, which shows one of them.

    `packed` is what `pack` returned; `moves` is the name of the slider over frames,
    `chooses` that of the one over tracks. `at` is the first track and frame to show.
    The script is part of it; the style sheet is `STYLE`.
    """
    number, frame = at
    chooser = Html()
    if len(tracks) > 1:
        name = tracks[number].name
        chooser = markup(
            '<label><span class="ps-chosen">{}</span><input type="range" '
            'class="ps-track" min="0" max="{}" value="{}" '
            'aria-label="{}" aria-valuetext="{}"></label>',
            name,
            len(tracks) - 1,
            number,
            chooses,
            name,
        )
    return markup(
        '<div class="ps-player" data-interval="{}">'
        '<div class="ps-buttons" hidden>{}<button type="button">Back</button>'
        '<button type="button">Next</button><button type="button">Play</button>'
        '<input type="range" class="ps-frame" min="0" step="1" '
        'max="{}" value="{}" '
        'aria-label="{}"></div>{}'
        '<script type="text/plain" class="ps-packed">{}</script></div>'
        "<script>{}</script>",
        interval_ms,
        chooser,
        len(tracks[number].frames) - 1,
        frame,
        moves,
        body,
        packed,
        verbatim(_SCRIPT),
    )


def pack(tracks: Sequence[Track]) -> str:
    """Return frames in the form that the script reads: JSON, compressed, as text."""
    pieces: dict[str, int] = {}

    def written(text: Html) -> list[int]:
        return [pieces.setdefault(p, len(pieces)) for p in _PIECE.findall(text)]

    tracks_packed = [
        {
            "name": track.name,
            "frames": [
                [frame.said, *map(written, frame.places)] for frame in track.frames
            ],
        }
        for track in tracks
    ]
    whole = {"pieces": list(pieces), "tracks": tracks_packed}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()
