"""Explain the words of the glossary where a page uses them first.

The word becomes a link to the glossary, which shows as a tooltip what is said there, on
pages that one reads from the top: lessons, how-tos, the first steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests have no Sphinx
    from docutils import nodes
    from sphinx.application import Sphinx

_PAGES = re.compile(r"(lessons|howto)/|(start|faq|instructors)$")


def meanings(page: str) -> dict[str, tuple[str, str]]:
    r"""Return for each word of the glossary its entry and what is said there.

    >>> meanings("```{glossary}\nhop\n  One\n  of *some*.\n\na, b\n  Two.\n```")
    {'hop': ('hop', 'One of some.'), 'a': ('a, b', 'Two.'), 'b': ('a, b', 'Two.')}
    """
    said = dict[str, tuple[str, str]]()
    listed = page.partition("```{glossary}\n")[2].partition("\n```")[0]
    for entry in listed.split("\n\n"):
        words, _, text = entry.partition("\n")
        meaning = re.sub("[`*]", "", " ".join(text.split()))
        said |= dict.fromkeys(words.split(", "), (words, meaning))
    return said


def parts(text: str, words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text, each with the word that it is; "" for all between.

    Of each word only the first counts, in the plural too.

    >>> [*parts("A hop, two hops.", ["hop"])]
    [('A ', ''), ('hop', 'hop'), (', two hops.', '')]
    """
    left, end = {*words}, 0
    longest = "|".join(map(re.escape, sorted(left, key=len, reverse=True)))
    for match in re.finditer(rf"\b({longest})(?:s|es)?\b", text):
        if match[1] in left:
            left.remove(match[1])
            yield text[end : match.start()], ""
            yield match[0], match[1]
            end = match.end()
    yield text[end:], ""


def _explain(app: Sphinx, doctree: nodes.document, page: str) -> None:
    from docutils import nodes

    if not _PAGES.match(page):
        return
    left = meanings((Path(app.srcdir) / "glossary.md").read_text("utf-8"))
    domain: Any = app.env.get_domain("std")
    glossary = app.builder.get_relative_uri(page, "glossary")
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.paragraph):  # a title, a link, code
            continue
        new: list[nodes.Node] = []
        for part, word in [*parts(text.astext(), left)]:
            if not word:
                new.append(nodes.Text(part))
                continue
            entry, meaning = left.pop(word)
            anchor = domain.objects["term", entry][1]
            link = nodes.reference(
                "", part, internal=True, refuri=f"{glossary}#{anchor}", reftitle=meaning
            )
            new.append(link)
            link["classes"].append("word")
        text.parent.replace(text, new)


def setup(app: Sphinx) -> dict[str, Any]:
    """Take part when the links of a page are known."""
    app.connect("doctree-resolved", _explain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
