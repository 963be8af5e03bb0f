"""Read docstrings as they are written: as plain text with `code` and indented examples.

Sphinx takes docstrings as reStructuredText, in which a star begins emphasis and an
indented block is a quotation. Sections of numpydoc keep their form: napoleon, which
comes after this in `conf.py`, makes fields of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the tests have no Sphinx
    from sphinx.application import Sphinx

_CODE = re.compile(r"(`+)(.+?)\1")
_MARKED = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")
_BULLET = re.compile(r" *[*-] ")
_RULE = re.compile("-{3,}")
_ATTRIBUTE = re.compile(r"    (\w[\w, ]*): (.*)")


def marked_up(lines: list[str]) -> list[str]:
    r"""Return the lines of a docstring as reStructuredText.

    >>> marked_up(["Return a * `b`:", "", "    c = a * b"])
    ['Return a \\* ``b``:', '', '::', '', '    c = a * b', '']
    >>> marked_up(["Attributes:", "    n: how many `b`,", "        at least 1."])
    ['', '``n``', '    how many ``b``,', '    at least 1.', '']
    >>> marked_up(["Do it.", "", "Parameters", "----------", "n : int", "    Of `b`."])
    ['Do it.', '', 'Parameters', '----------', 'n : int', '    Of ``b``.']
    """
    at = next((n for n, line in enumerate(lines[1:]) if _RULE.fullmatch(line)), None)
    if at is not None:
        return [*marked_up(lines[:at]), *_sections(lines[at:])]
    found: list[str] = []
    is_example = False
    for has_text, block in groupby(lines, key=bool):
        if has_text:
            first, *rest = block
            was_example, is_example = is_example, first.startswith("    ")
            if is_example and not was_example:
                found += ["::", ""]
            found += [*_block(first, rest, is_example), ""]
    return found


def _sections(lines: list[str]) -> Iterator[str]:
    """Mark up sections of numpydoc, but no code in them.

    >>> list(_sections(["See `a`::", "", "    a * b", "", ">>> 2 * 3", "6"]))
    ['See ``a``::', '', '    a * b', '', '>>> 2 * 3', '6']
    """
    is_tried, above = False, None  # above: how far the line before code is indented
    for line in lines:
        indent = len(line) - len(line.lstrip())
        is_tried = bool(line) and (is_tried or line.lstrip().startswith(">>>"))
        if above is not None and line and indent <= above:
            above = None
        if not line or is_tried or above is not None:
            yield line
        elif line.endswith("::"):
            above = indent
            yield f"{_escaped(line)}:"
        else:
            yield _escaped(line)


def _block(first: str, rest: list[str], is_example: bool) -> Iterator[str]:
    """Yield one paragraph, example or list of attributes, marked up."""
    if is_example or first.startswith(">>>"):
        yield from [first, *rest]
    elif first == "Attributes:":
        yield from _attributes(rest)
    else:
        yield from (_escaped(line) for line in [first, *rest])


def _attributes(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if match := _ATTRIBUTE.fullmatch(line):
            yield from ["", f"``{match[1]}``", f"    {_escaped(match[2])}"]
        else:
            yield f"    {_escaped(line.strip())}"


def _escaped(line: str) -> str:
    bullet = _BULLET.match(line)
    end = bullet.end() if bullet else 0
    parts = [line[:end]]
    for match in _CODE.finditer(line, end):
        parts += [_MARKED.sub(r"\\\1", line[end : match.start()]), f"``{match[2]}``"]
        end = match.end()
    whole = "".join([*parts, _MARKED.sub(r"\\\1", line[end:])])
    return whole.removesuffix(":") if whole.endswith("::") else whole


def _process(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    lines[:] = marked_up(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Take part in autodoc."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
