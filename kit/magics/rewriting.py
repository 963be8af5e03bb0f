"""Rewrite a cell with our magics so that it awaits, and the notebook stays responsive.

    %%cluster --ps 1          await get_ipython()....begin('--ps 1')
    run = kit.train(...)  ->  run = kit.train(...)

So the body of `%%cluster` is an ordinary cell: it may `await`, its last value is shown,
and its tracebacks have the right line numbers. Where a cell cannot await, it is left
alone, and the magic does the same but blocks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from IPython.core.inputtransformer2 import cell_magic
from IPython.core.interactiveshell import InteractiveShell

_FIRST = re.compile(r"%%(?P<name>cluster|on)(?:[ \t]+(?P<line>.*))?$")
_BEGIN = "await get_ipython().magics_manager.registry[{owner!r}].begin({arguments})\n"
_OWNERS = {"cluster": "StartMagics", "on": "OnMagics"}


class Rewriting:
    """A cleanup transform for cells of one shell; see IPython's input transforms."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines of a cell, rewritten if they begin with one of ours."""
        # `%autopx` replaces this method by one that loses cells that await.
        owner = getattr(self._shell.run_ast_nodes, "__self__", None)
        is_replaced = owner is not self._shell
        if not self._shell.autoawait or is_replaced or _runs_code():
            return lines
        return rewritten(lines)


def rewritten(lines: Sequence[str]) -> list[str]:
    r"""Return the lines of a cell with `%%cluster` and `%%on` awaited.

    >>> rewritten(["%%cluster --ps 1\n", "x = 1\n"])[1]
    'x = 1\n'
    >>> rewritten(["%%cluster?\n"])
    ['%%cluster?\n']
    """
    # IPython would not know a magic below a comment.
    n_above = next((i for i, line in enumerate(lines) if line[:1] != "#"), 0)
    above, lines = list(lines[:n_above]), lines[n_above:]
    match = _FIRST.match(lines[0].rstrip()) if lines else None
    if match is None or match[0].endswith("?"):
        return [*above, *lines]
    line, rest = (match["line"] or "").strip(), list(lines[1:])
    owner = _OWNERS[match["name"]]
    if match["name"] == "on":
        arguments = f"{line!r}, {''.join(rest)!r}"
        return [*above, _BEGIN.format(owner=owner, arguments=arguments)]
    # A cell magic counts only on the first line that is not blank.
    n_blank = next((i for i, line in enumerate(rest) if line.strip()), len(rest))
    blank, body = rest[:n_blank], rest[n_blank:]
    if body and body[0].startswith("%%"):  # the body may begin with a cell magic itself
        body = cell_magic(rewritten(body))  # type: ignore[no-untyped-call]
    begin = _BEGIN.format(owner=owner, arguments=repr(line))
    return [*above, begin, *blank, *body]


def _runs_code() -> bool:
    """Whether a cell is running now, further up in this stack.

    Code run by it (with `%%capture`, for example) must not await: its caller holds the
    event loop.
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is InteractiveShell.run_code.__code__:
            return True
    return False
