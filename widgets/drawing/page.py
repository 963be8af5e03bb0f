"""The HTML around the figures: style, table, head and foot of a report.

Pure text. Everything that comes from outside is escaped. The page asks no other host
for anything, and its content security policy forbids it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real

from kit.markup import NO_HTML, Html, joined, markup, verbatim
from widgets.drawing.theme import DARK, FONT, LIGHT, TEXT_PX, Theme

Row = Mapping[str, object]
_POLICY = Html(
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
_STYLE = """
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 FONT; color: var(--ink);
  background: var(--background); }
main, header, footer { max-width: 1360px; margin: 0 auto; padding: 0 32px; }
header { padding-top: 28px; display: flex; gap: 24px; align-items: flex-start;
  justify-content: space-between; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px; }
h2 { font-size: 23px; line-height: 1.25; margin: 44px 0 4px; padding-top: 22px;
  border-top: 1px solid var(--grid); }
h3 { font-size: 17px; margin: 0 0 6px; }
p { max-width: 86ch; margin: 6px 0 14px; }
.made, figcaption { color: var(--faint); font-size: 14px; }
.figures { display: grid; grid-template-columns: minmax(0, 1fr); gap: 26px 32px;
  margin-top: 20px; }
figure { margin: 0; min-width: 0; }
figcaption { margin-top: 4px; max-width: 110ch; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 14px 0 6px; font-size: 15px; }
caption { text-align: left; font-weight: 600; font-size: 17px; padding-bottom: 6px; }
th, td { padding: 6px 14px; text-align: left; vertical-align: bottom;
  border-bottom: 1px solid var(--grid); }
thead th { border-bottom: 2px solid var(--faint); }
th small { display: block; font-weight: 400; color: var(--faint); font-size: TEXTpx; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
tbody tr:nth-child(even) { background: var(--panel); }
button { font: inherit; font-size: 14px; white-space: nowrap; padding: 6px 14px;
  color: var(--ink); background: var(--panel); border: 1px solid var(--faint);
  border-radius: 6px; cursor: pointer; }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
footer { padding-top: 28px; padding-bottom: 40px; }
@media (min-width: 1280px) {
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .wide { grid-column: 1 / -1; }
}
@media (max-width: 700px) {
  main, header, footer { padding-left: 12px; padding-right: 12px; }
  header { flex-wrap: wrap; gap: 8px; }
  h1 { font-size: 24px; }
}
@media print { button { display: none; } figure, tr { break-inside: avoid; } }
"""
_SCRIPT = """
(function () {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const media = matchMedia("(prefers-color-scheme: dark)");
  const wanted = location.hash.slice(1);
  if (wanted === "dark" || wanted === "light") root.dataset.theme = wanted;
  const shown = () => root.dataset.theme || (media.matches ? "dark" : "light");
  const other = () => (shown() === "dark" ? "light" : "dark");
  const label = () => { button.textContent = "Switch to " + other() + " colours"; };
  button.addEventListener("click", () => { root.dataset.theme = other(); label(); });
  media.addEventListener("change", label);
  label();
})();
"""


def page(
    title: str,
    made: str,
    body: Html,
    notes: Sequence[str],
    scripts: Html,
    *,
    connects: Html = NO_HTML,
) -> Html:
    """Return the whole document; `body` and `scripts` are HTML, the rest is text.

    `connects` are the hosts that the page may ask, as in a content security policy.
    """
    more = markup("; connect-src {}", connects) if connects else NO_HTML
    items = joined(markup("<li>{}</li>", note) for note in notes)
    foot = markup("<footer><h2>Notes</h2><ul>{}</ul></footer>", items) if notes else ""
    return markup(
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="{}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n"
        '<header><div><h1>{}</h1><p class="made">{}</p>'
        '</div><button id="theme" type="button">Switch colours</button></header>\n'
        "<main>\n{}\n</main>\n{}\n"
        "<script>{}</script>\n{}\n</body>\n</html>\n",
        _POLICY + more,
        title,
        style(),
        title,
        made,
        body,
        foot or Html("<footer></footer>"),
        verbatim(_SCRIPT),
        scripts,
    )


def style() -> Html:
    """Return the style sheet: light or dark as the system or the button says."""
    sheet = _STYLE.replace("FONT", FONT).replace("TEXT", str(TEXT_PX))
    dark = _colours(DARK, ":root:not([data-theme=light])")
    return verbatim(
        _colours(LIGHT, ":root")
        + f"@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"
        + f"@media screen {{ {_colours(DARK, ':root[data-theme=dark]')} }}\n"
        + sheet
    )


def _colours(theme: Theme, where: str) -> str:
    """Return the rule that sets one theme's colours and shows its figures."""
    names = ("background", "panel", "ink", "faint", "grid")
    colours = " ".join(f"--{name}: {getattr(theme, name)};" for name in names)
    hidden = LIGHT if theme is DARK else DARK
    return (
        f"{where} {{ color-scheme: {theme.name}; {colours} "
        f"--accent: {theme.hue(0)}; }} "
        f"{where} .{theme.name} {{ display: block; }} "
        f"{where} .{hidden.name} {{ display: none; }}\n"
    )


def table(rows: Sequence[Row], caption: str) -> Html:
    """Return rows as an HTML table; "" without rows.

    The headings are the keys, in the order in which they first appear; a unit in square
    brackets goes on a separate line. Columns of numbers are aligned to the right, each
    with as many decimals as its smallest number needs for three digits.
    """
    if not rows:
        return Html()
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_column([row.get(name) for row in rows]) for name in names]
    heads = joined(
        markup('<th scope="col"{}>{}</th>', mark, _head(name))
        for name, (mark, _) in zip(names, columns, strict=True)
    )
    lines = joined(
        markup(
            "<tr>{}</tr>\n",
            joined(markup("<td{}>{}</td>", mark, cells[i]) for mark, cells in columns),
        )
        for i in range(len(rows))
    )
    return markup(
        '<div class="scroll"><table><caption>{}</caption>\n'
        "<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        caption,
        heads,
        lines,
    )


def _head(name: str) -> Html:
    """Return a heading with its unit apart.

    >>> _head("rate [steps/s]")
    Markup('rate <small>steps/s</small>')
    """
    text, _, unit = name.partition(" [")
    small = markup(" <small>{}</small>", unit.removesuffix("]")) if unit else ""
    return markup("{}{}", text, small)


def _column(values: Sequence[object]) -> tuple[Html, list[str]]:
    """Return the class attribute of a column and its cells."""
    numbers = [v for v in values if isinstance(v, Real) and not isinstance(v, bool)]
    if len(numbers) + sum(v is None for v in values) < len(values) or not numbers:
        return Html(), ["" if v is None else str(v) for v in values]
    floats = [float(v) for v in numbers]
    decimals = 0 if all(f.is_integer() for f in floats) else _decimals(floats)
    cells = [
        Html("&ndash;")
        if not isinstance(v, Real) or math.isnan(v)
        else f"{v:,.{decimals}f}"
        for v in values
    ]
    return Html(' class="number"'), cells


def _decimals(values: Sequence[float]) -> int:
    """Return the decimals that show three digits of the smallest number, at most 6.

    >>> _decimals([123.4, 5.0]), _decimals([0.0123])
    (2, 4)
    """
    sizes = [abs(v) for v in values if v and math.isfinite(v)]
    if not sizes:
        return 0
    return min(6, max(0, 2 - math.floor(math.log10(min(sizes)))))
