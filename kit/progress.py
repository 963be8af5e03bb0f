"""One line of progress, which is overwritten in place, and lines that stay.

In a notebook the line is one output of the cell, in a terminal it is written over; to a
file every line is written, one below the other. Lines that stay are another output in a
notebook, of the newest ones, which scrolls.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TextIO

from kit.markup import NO_HTML, Html, in_cell, markup

_MOST_LINES = 200  # that stay in a notebook


class Line(NamedTuple):
    """A line that stays, of a task's stdout or stderr."""

    text: str
    is_error: bool = False


class Output(Protocol):
    """Where a line is shown."""

    def reserve(self) -> None:
        """Take a place here for lines that come later, if that is needed."""

    def show(self, text: str, html: Html = NO_HTML) -> None:
        """Show a line in place of the one before; `html` where a page shows it."""

    def finish(self) -> None:
        """Leave the line as it is; the next one is shown below."""

    def add(self, lines: Sequence[Line]) -> None:
        """Show lines that stay."""


class TerminalLine:
    """A line of a terminal: a carriage return goes back to its start."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self._write, self._width = write, 0

    def reserve(self) -> None:
        """See `Output`."""

    def show(self, text: str, html: Html = NO_HTML) -> None:
        """See `Output`."""
        self._write(f"\r{text:<{self._width}}")
        self._width = len(text)

    def finish(self) -> None:
        """See `Output`."""
        if self._width:
            self._write("\n")
        self._width = 0

    def add(self, lines: Sequence[Line]) -> None:
        """See `Output`."""
        self.finish()
        _write_each(lines, self._write)


class PlainLines:
    """Lines of a file, one below the other."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self._write = write

    def reserve(self) -> None:
        """See `Output`."""

    def show(self, text: str, html: Html = NO_HTML) -> None:
        """See `Output`."""
        self._write(f"{text}\n")

    def finish(self) -> None:
        """See `Output`."""

    def add(self, lines: Sequence[Line]) -> None:
        """See `Output`."""
        _write_each(lines, self._write)


def _write_each(lines: Sequence[Line], write: Callable[[str], Any]) -> None:
    for line in lines:
        if line.is_error and sys.stderr is not None:
            sys.stderr.write(f"{line.text}\n")
        else:
            write(f"{line.text}\n")


class NotebookLine:
    """One output of a cell, which is updated.

    `display` is that of IPython: it returns a handle if it is asked for one.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._lines: deque[Line] = deque(maxlen=_MOST_LINES)
        self._n_lines = 0
        self._of_lines: Any = None

    def reserve(self) -> None:
        """See `Output`: front ends may drop what comes to a cell that is done."""
        self.show("\N{HORIZONTAL ELLIPSIS}")

    def show(self, text: str, html: Html = NO_HTML) -> None:
        """See `Output`."""
        shown = {"text/plain": text} | ({"text/html": in_cell(html)} if html else {})
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def finish(self) -> None:
        """See `Output`."""
        self._handle = None

    def add(self, lines: Sequence[Line]) -> None:
        """See `Output`: an output of its own, below that of the progress."""
        self._lines += lines
        self._n_lines += len(lines)
        n_before = self._n_lines - len(self._lines)
        before = [Line(f"(lines before these: {n_before:,})")] if n_before else []
        shown = _shown([*before, *self._lines])
        if self._of_lines is None:
            self._of_lines = self._display(shown, raw=True, display_id=True)
        else:
            self._of_lines.update(shown, raw=True)


def _shown(lines: Sequence[Line]) -> dict[str, str]:
    html = Html("\n").join(map(_html_of, lines))
    # As high as a few lines, so that the board beside them stays in sight; the browser
    # shows the newest ones, since the content of a reversed column begins at its end.
    page = markup(
        '<div style="display: flex; flex-direction: column-reverse; max-height: 20em;'
        ' overflow-y: auto"><pre style="flex: none">{}</pre></div>',
        html,
    )
    return {
        "text/plain": "\n".join(line.text for line in lines),
        "text/html": in_cell(page),
    }


def _html_of(line: Line) -> Html:
    if not line.is_error:
        return markup("{}", line.text)
    return markup(
        '<span style="background: var(--jp-rendermime-error-background)">{}</span>',
        line.text,
    )


def output_for(stream: TextIO | None) -> Output:
    """Return where lines are shown: in the notebook's cell, if this is its kernel.

    `stream` may be an object of the user's that can do no more than write; None, as in
    a process without a terminal, shows nothing.
    """
    display = _display_of_the_kernel()
    if display is not None:
        return NotebookLine(display)

    def write(text: str) -> None:
        if stream is not None:
            stream.write(text)
            getattr(stream, "flush", int)()

    try:
        is_terminal = stream is not None and stream.isatty()
    except (AttributeError, ValueError):  # it has none, or is closed
        is_terminal = False
    return TerminalLine(write) if is_terminal else PlainLines(write)


def _display_of_the_kernel() -> Callable[..., Any] | None:
    """Return IPython's `display` if this process is a kernel, None if it is not."""
    # A process that is not a kernel must not pay for importing IPython.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is None or not hasattr(shell, "kernel"):
        return None
    show: Callable[..., Any] = ipython.display.display
    return show
