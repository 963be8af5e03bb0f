"""Text as HTML: the one function that fills values into it, and the type of the result.

Pure. A value that is not `Html` itself is text, and is escaped: the name of a task, a
measure, a folder or a parameter, an exception, what a program has printed. So a page
shows it letter for letter, no matter who wrote it. A law sees to it that no other file
builds HTML.

    markup("<td>{}</td>", name)     a piece of HTML
    element("rect", x=x, y=y)       an element of a drawing
    rows_table(title, heads, rows)  a table
    joined(rows)                    pieces one after the other
    verbatim(style_sheet)           what stands in <style> or <script>
    in_cell(html)                   the output of a cell of a notebook
    Html("<hr>")                    HTML that stands in our own source
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real

from markupsafe import Markup as Html
from markupsafe import escape

__all__ = [
    "NO_HTML",
    "Html",
    "element",
    "in_cell",
    "joined",
    "markup",
    "rows_table",
    "verbatim",
]

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


def element(name: str, /, *content: object, **attributes: object) -> Html:
    """Return an element; a float among its attributes is written with one decimal.

    `class_` is the attribute class, `rx` is rx, `text_anchor` is text-anchor. None is
    left out.

    >>> element("text", "<b>", class_="title", x=0.25, text_anchor="middle", fill=None)
    Markup('<text class="title" x="0.2" text-anchor="middle">&lt;b&gt;</text>')
    >>> element("rect", width=10)
    Markup('<rect width="10"/>')
    """
    pairs = joined(
        markup(' {}="{}"', key.rstrip("_").replace("_", "-"), _short(value))
        for key, value in attributes.items()
        if value is not None
    )
    if not content:
        return markup("<{}{}/>", name, pairs)
    return markup("<{0}{1}>{2}</{0}>", name, pairs, joined(content))


def _short(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value


def rows_table(
    caption: object,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    foot: str = "",
    **attributes: object,
) -> Html:
    """Return rows as a table; the first cell of each is its head, `foot` a sentence.

    >>> rows_table("Tasks", ["task", "pid"], [["ps:0", 17]])[:40]
    Markup('<table><caption>Tasks</caption><thead><t')
    """
    head = joined(element("th", name, scope="col") for name in heads)
    body = joined(
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", text) for text in rest),
        )
        for first, *rest in rows
    )
    parts = [element("caption", caption)]
    if heads:
        parts.append(element("thead", element("tr", head)))
    parts.append(element("tbody", body))
    if foot:
        cell = element("td", foot, colspan=len(heads))
        parts.append(element("tfoot", element("tr", cell)))
    return element("table", *parts, **attributes)


def in_cell(html: object) -> Html:
    """Return HTML as the output of a cell, none of whose text is read as a formula.

    Front ends of notebooks read text between dollar signs so, with links in it.

    >>> in_cell(element("p", "$5 or $6"))
    Markup('<div class="tex2jax_ignore mathjax_ignore"><p>$5 or $6</p></div>')
    """
    return element("div", html, class_="tex2jax_ignore mathjax_ignore")


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
