"""The style sheet of everything on the board but the figures of bokeh.

Pure text. Colours follow the page: the theme of JupyterLab or VS Code if there is one,
else what the reader's system prefers. The rules are for our own classes, `ps-...`, so
nothing else on the page changes.
"""

from __future__ import annotations

from typing import Final

from kit.markup import Html, verbatim
from widgets.drawing.theme import DARK, FONT, LIGHT, TEXT_PX, Theme

_IS_DARK = (
    'body[data-jp-theme-light="false"] .ps-board',
    "body.vscode-dark .ps-board",
    "body.vscode-high-contrast .ps-board",
    ":root[data-theme=dark] .ps-board",  # of our own pages
)
_SAYS_NOTHING = (
    ":root:not([data-theme=light]) "
    "body:not([data-jp-theme-light]):not([class*=vscode]) .ps-board"
)
_STYLE = """
.ps-board { font: 14px/1.45 FONT; color: var(--ps-ink); }
.ps-board p { margin: 2px 0; max-width: 96ch; }
.ps-board .ps-head { font-size: 15px; font-weight: 600; }
.ps-board .ps-alarm { border-left: 4px solid var(--ps-alarm); padding-left: 8px; }
.ps-board .ps-wait { border-left: 4px solid var(--ps-accent); padding-left: 8px; }
.ps-board .ps-note { border-left: 4px solid var(--ps-faint); padding-left: 8px; }
.ps-scene { display: block; width: 100%; height: auto;
  margin: 0 auto; }
.ps-scene text { font: 500 20px FONT; fill: var(--ps-ink); }
.ps-chart text { font: 400 TEXTpx FONT; fill: var(--ps-ink); }
.ps-chart { display: block; width: 100%; max-width: 760px; height: auto; }
.ps-board .ps-scene { min-width: min(406px, 100%); }
.ps-board .ps-chart { min-width: 592px; }
.ps-scene .ps-name { text-anchor: middle; font-weight: 650; }
.ps-scene .ps-way { font-size: 19px; fill: var(--ps-faint); }
.ps-scene .ps-rate { font-size: 19px; text-anchor: middle; paint-order: stroke;
  stroke: var(--ps-background); stroke-width: 5px; stroke-linejoin: round; }
.ps-task rect { fill: var(--ps-panel); stroke: var(--ps-faint); stroke-width: 1.3; }
.ps-task .ps-trough { fill: var(--ps-grid); stroke: none; }
.ps-scene :is(rect, tspan).ps-push { fill: var(--ps-push); stroke: none; }
.ps-scene :is(rect, tspan).ps-pull { fill: var(--ps-pull); stroke: none; }
.ps-host rect { fill: none; stroke: var(--ps-faint); stroke-width: 1.3; }
.ps-host text.ps-name { text-anchor: start; fill: var(--ps-faint); }
.ps-far path { opacity: 1; }
.ps-idle rect { stroke-dasharray: 5 4; }
.ps-idle .ps-name { fill: var(--ps-faint); }
.ps-lost rect { stroke: var(--ps-alarm); stroke-width: 3; stroke-dasharray: 2 4; }
.ps-lost .ps-name { fill: var(--ps-alarm); }
.ps-arrow path { fill: none; stroke: var(--ps-push); opacity: .85; }
.ps-arrow polygon { fill: var(--ps-push); }
.ps-pull path { stroke: var(--ps-pull); }
.ps-pull polygon { fill: var(--ps-pull); }
.ps-still path { stroke: var(--ps-faint); stroke-dasharray: 4 5; }
.ps-still polygon { fill: var(--ps-faint); }
.ps-chart path { fill: none; }
.ps-chart .ps-axis { stroke: var(--ps-faint); }
.ps-chart .ps-grid { stroke: var(--ps-grid); }
.ps-chart .ps-mark { stroke: var(--ps-ink); stroke-dasharray: 5 4; stroke-width: 1.6; }
.ps-chart .ps-pointer { stroke: var(--ps-accent); stroke-width: 2; }
.ps-chart circle.ps-pointer { fill: var(--ps-background); }
.ps-chart .ps-message path { stroke: var(--ps-ink); stroke-width: 1.8; }
.ps-chart .ps-message circle { fill: var(--ps-ink); }
.ps-chart .ps-missing path { stroke: var(--ps-alarm); stroke-width: 2.6; }
.ps-board .ps-scroll { overflow-x: auto; }
.ps-board .ps-calls td:nth-child(2) { overflow-wrap: anywhere; min-width: 11ch; }
.ps-chart .ps-region { opacity: .13; }
.ps-chart .ps-again { fill: var(--ps-faint); opacity: .35; }
.ps-chart .ps-band { opacity: .3; }
.ps-chart .ps-curve { fill: none; stroke-width: 2.2; }
.ps-chart .ps-thin { stroke-width: 1; opacity: .45; }
.ps-chart .ps-strip { fill-opacity: .28; stroke-width: 1.7; }
.ps-chart pattern path { stroke: var(--ps-hatch); stroke-width: 1.2; }
.ps-compute { fill: var(--ps-h0); }
.ps-send { fill: var(--ps-h5); }
.ps-receive { fill: var(--ps-h3); }
.ps-apply { fill: var(--ps-h0); }
.ps-load { fill: var(--ps-h4); }
.ps-queue { fill: var(--ps-h4); }
.ps-flight { fill: var(--ps-ink); }
.ps-wait:not(p) { fill: var(--ps-waiting); }
.ps-board .ps-title { font: 600 15px FONT; fill: var(--ps-ink); }
.ps-board table { border-collapse: collapse; margin: 4px 0 10px; font-size: 14px; }
.ps-board caption { text-align: left; font-weight: 600; padding: 4px 0; }
.ps-board th, .ps-board td { padding: 3px 12px 3px 0; text-align: left;
  border-bottom: 1px solid var(--ps-grid); font-weight: 400; background: none;
  color: var(--ps-ink); }
.ps-board td { font-variant-numeric: tabular-nums; }
.ps-board .ps-bottleneck { max-width: none; height: 2.9em; overflow: hidden;
  display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; }
.ps-board .ps-numbers { display: grid; gap: 8px; margin: 4px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(124px, 45%), 1fr)); }
.ps-board .ps-numbers > div { background: var(--ps-panel); border-radius: 6px;
  padding: 2px 8px; min-height: 58px; overflow: hidden; }
.ps-board .ps-numbers span { display: block; font-size: TEXTpx;
  color: var(--ps-faint); white-space: nowrap; }
.ps-board .ps-numbers b { display: block; font-size: 17px; line-height: 1.3;
  font-weight: 500; white-space: nowrap; font-variant-numeric: tabular-nums; }
@media (max-width: 700px) { .ps-board .ps-numbers span { white-space: normal; }
  .ps-live .ps-mean { display: none; }
  .ps-live code { overflow-wrap: anywhere; }
  .ps-live .jupyter-widget-tab > .lm-TabBar .lm-TabBar-tab { padding: 0 3px; } }
.ps-board details summary { cursor: pointer; }
.ps-board summary:focus-visible { outline: 3px solid var(--ps-accent); }
.ps-pictures { display: flex; flex-wrap: wrap; gap: 12px 24px; }
.ps-board code { color: var(--ps-ink); }
.ps-live .ps-status { overflow: hidden auto; max-height: 110px; }
.ps-board.ps-line { white-space: nowrap; }
.ps-board .ps-silence { border-left: 4px solid var(--ps-alarm); padding-left: 8px; }
.ps-board .ps-silence:empty { display: none; }
.ps-live .jupyter-widgets-disconnected::before { display: none; }
.ps-gone > :not(:has(.ps-silence)) { opacity: .55; }
.ps-live .jupyter-widget-tab > .widget-tab-contents { padding: 2px 4px; }
.ps-live .jupyter-widget-tab > .lm-TabBar .lm-TabBar-tab { flex: 0 1 auto;
  min-width: 0; }
.ps-live .lm-TabBar-tabLabel { overflow: visible; }
.ps-live .widget-radio { display: flex; align-items: center; gap: 8px; }
.ps-live .widget-radio > .widget-label { flex: none; }
.ps-live .widget-checkbox label { display: flex; align-items: center; gap: 6px; }
.ps-live .widget-radio .widget-radio-box { flex-flow: row wrap; gap: 0 12px;
  margin: 0 !important; }
.ps-live *:focus-visible { outline: 3px solid Highlight; outline-offset: 2px; }
.ps-large .ps-board { font-size: 19px; --ps-faint: var(--ps-ink); }
.ps-large .ps-board .ps-head { font-size: 21px; }
.ps-large .ps-board .ps-numbers b { font-size: 23px; }
.ps-large .ps-board .ps-numbers > div { padding: 2px 4px; }
.ps-large .ps-board .ps-numbers span { font-size: 14px; }
.ps-large .widget-button { padding: 0 4px; }
.ps-large .ps-mean { display: none; }
.ps-large .ps-scene .ps-name { font-size: 24px; }
.ps-large .ps-scene .ps-rate { font-size: 21px; font-weight: 650; }
.ps-large .ps-board table { font-size: 18px; }
.ps-large .ps-board code { font-size: 18px; }
.ps-large label { font-size: 16px; }
.ps-large select { font-size: 16px; }
.ps-large button { font-size: 16px; }
.ps-large .lm-TabBar-tabLabel { font-size: 16px; }
.ps-large .ps-scene .ps-way { font-size: 20px; fill: var(--ps-ink); }
.ps-pictures > figure { flex: 1 1 600px; margin: 0; min-width: 0; overflow-x: auto; }
.ps-board .ps-key { display: flex; flex-wrap: wrap; gap: 2px 20px; max-width: none; }
.ps-board .ps-chart.ps-sample { display: inline-block; width: 44px; min-width: 0;
  height: 12px; vertical-align: middle; }
.ps-alone .ps-chart:not(.ps-sample) { max-width: 960px; }
.ps-live .widget-html-content { min-width: 0; }
.ps-wide { overflow-x: auto; }
.ps-wide th, .ps-wide td { white-space: nowrap; }
.ps-board figcaption { font-size: TEXTpx; color: var(--ps-faint); }
"""


# The icons of buttons in the font that notebooks have, by their names there.
_ICONS: Final = {
    "pause": "f04c",
    "step-forward": "f051",
    "step-backward": "f048",
    "play": "f04b",
    "stop": "f04d",
    "refresh": "f021",
    "lock": "f023",
}


def icons() -> Html:
    """Return a style sheet by which icons are not part of a button's name."""
    return verbatim(
        "".join(
            f'.ps-button .fa-{name}::before {{ content: "\\{code}" / ""; }}\n'
            for name, code in _ICONS.items()
        )
    )


def style() -> Html:
    """Return the style sheet, light and dark."""
    ours = _STYLE.replace("FONT", FONT).replace("TEXT", str(TEXT_PX))
    sheet = icons() + verbatim(ours)
    return verbatim(
        f".ps-board {{ {colours(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ {_SAYS_NOTHING} "
        f"{{ {colours(DARK)} }} }}\n"
        f"{', '.join(_IS_DARK)} {{ {colours(DARK)} }}\n{sheet}"
    )


def colours(theme: Theme) -> str:
    """Return the variables of a theme."""
    blue, orange, green, _, red, _ = theme.hues
    pairs = {
        "background": theme.background,
        "panel": theme.panel,
        "ink": theme.ink,
        "faint": theme.faint,
        "grid": theme.grid,
        "push": orange,
        "pull": green,
        "accent": blue,
        "alarm": red,
    }
    pairs |= {f"h{number}": hue for number, hue in enumerate(theme.hues)}
    pairs |= {"waiting": theme.waiting, "hatch": theme.hatch}
    return " ".join(f"--ps-{name}: {value};" for name, value in pairs.items())
