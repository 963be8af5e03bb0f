"""Rewrite a cell with our magics so that it awaits: the notebook stays alive meanwhile.

    %%cluster --ps 1          await get_ipython()....begin('--ps 1')
    run = kit.train(...)  ->  run = kit.train(...)

The body of `%%cluster` thus is an ordinary cell: it may `await`, its last line is
shown, and its tracebacks have their right line numbers. Where nothing can be awaited
the cell is left alone, and the magic, which blocks, does the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence

from IPython.core.inputtransformer2 import cell_magic
from IPython.core.interactiveshell import InteractiveShell

_FIRST = re.compile(r"%%(?P<name>cluster|on)(?:[ \t]+(?P<line>.*))?$")
_BEGIN = "await get_ipython().magics_manager.registry[{owner!r}].begin({arguments})\n"
_OWNERS = {"cluster": "StartMagics", "on": "OnMagics"}


class Rewriting:
    """A cleanup transform for cells of one shell; see IPython's input transforms."""

    def __init__(
        self, shell: InteractiveShell, is_nested: Callable[[], bool] | None = None
    ) -> None:
        self._shell = shell
        self._is_nested = is_nested or _runs_code

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines of a cell, rewritten if they begin with one of ours."""
        # `%autopx` puts its own there, which loses cells that are awaited.
        owner = getattr(self._shell.run_ast_nodes, "__self__", None)
        is_replaced = owner is not self._shell
        if not self._shell.autoawait or is_replaced or self._is_nested():
            return lines
        return rewritten(lines)


def rewritten(lines: Sequence[str]) -> list[str]:
    r"""Return the lines of a cell with `%%cluster` and `%%on` awaited.

    >>> rewritten(["%%cluster --ps 1\n", "x = 1\n"])[1]
    'x = 1\n'
    >>> rewritten(["%%cluster?\n"])
    ['%%cluster?\n']
    """
    match = _FIRST.match(lines[0].rstrip()) if lines else None
    if match is None or match[0].endswith("?"):
        return list(lines)
    line, rest = (match["line"] or "").strip(), list(lines[1:])
    owner = _OWNERS[match["name"]]
    if match["name"] == "on":
        arguments = f"{line!r}, {''.join(rest)!r}"
        return [_BEGIN.format(owner=owner, arguments=arguments)]
    return [
        _BEGIN.format(owner=owner, arguments=repr(line)),
        *_body(rest),
    ]


def _body(lines: list[str]) -> list[str]:
    """Return the body of `%%cluster`, which may begin with a cell magic itself."""
    n_blank = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    blank, rest = lines[:n_blank], lines[n_blank:]
    if rest and rest[0].startswith("%%"):
        rest = cell_magic(rewritten(rest))  # type: ignore[no-untyped-call]
    return blank + rest


def _runs_code() -> bool:
    """Whether a cell runs now, further up in this very stack.

    What is run inside of it (by `%%capture`, for example) must not await: its caller
    holds the event loop.
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is InteractiveShell.run_code.__code__:
            return True
    return False
