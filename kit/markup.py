"""Text as HTML: the one function that fills values into it, and the type of the result.

Pure. A value that is not `Html` itself is text, and is escaped: the name of a task, a
measure, a folder or a parameter, an exception, what a program has printed. So a page
shows it letter for letter, no matter who wrote it. A law sees to it that no other file
builds HTML.

    markup("<td>{}</td>", name)     a piece of HTML
    joined(rows)                    pieces one after the other
    verbatim(style_sheet)           what stands in <style> or <script>
    Html("<hr>")                    HTML that stands in our own source
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real

from markupsafe import Markup as Html
from markupsafe import escape

__all__ = ["NO_HTML", "Html", "joined", "markup", "verbatim"]

NO_HTML = Html()


def markup(template: str, /, *values: object) -> Html:
    """Return the template, HTML of ours, with the values in its fields.

    The fields are those of `str.format`. Only numbers and `Html` go in as they are.

    >>> markup('<td title="{}">{:.1f} {}</td>', '"<b>', 0.25, Html("<br>"))
    Markup('<td title="&#34;&lt;b&gt;">0.2 <br></td>')
    """
    return Html(template.format(*map(_safe, values)))


def joined(parts: Iterable[object]) -> Html:
    """Return pieces of HTML one after the other; what is not `Html` is escaped.

    >>> joined([Html("<br>"), "<br>"])
    Markup('<br>&lt;br&gt;')
    """
    return Html().join(parts)  # type: ignore[arg-type]  # it takes any


def verbatim(text: str) -> Html:
    """Return a style sheet or a script of ours, which a browser reads as it stands.

    Values do not belong into it: what could end its element raises `ValueError`.
    """
    if "</" in text or "<!" in text:
        raise ValueError(f"it would end its element early: {text!r}")
    return Html(text)


def _safe(value: object) -> object:
    """Return what can be put into HTML: numbers stay, for the format of their field."""
    return value if isinstance(value, Real) else str(escape(value))
