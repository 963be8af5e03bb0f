"""One line that is written anew: in a terminal, in a notebook, in a file."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kit.progress import NotebookLine, PlainLines, TerminalLine, output_for


def test_terminal_line_covers_a_longer_one_before_it_and_is_finished_once() -> None:
    written: list[str] = []
    line = TerminalLine(written.append)

    line.show("loss = 0.25")
    line.show("done")
    line.finish()
    line.finish()

    assert written == ["\rloss = 0.25", "\rdone       ", "\n"]


class Display:
    """Stands for IPython's `display`: keeps what is shown where."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        shown = [data["text/plain"]]
        self.outputs.append(shown)
        return SimpleNamespace(
            update=lambda data, raw: shown.append(data["text/plain"])
        )


def test_notebook_line_is_one_output_until_it_is_finished() -> None:
    display = Display()
    line = NotebookLine(display)

    line.show("step 1")
    line.show("step 2")
    line.finish()
    line.show("step 3")

    assert display.outputs == [["step 1", "step 2"], ["step 3"]]


def test_reserved_place_in_a_notebook_is_that_of_the_first_line() -> None:
    display = Display()
    line = NotebookLine(display)

    line.reserve()
    line.show("step 1")

    assert display.outputs == [["\N{HORIZONTAL ELLIPSIS}", "step 1"]]


def test_kernel_is_recognised_by_its_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    display = Display()
    ipython = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=object()),
        display=SimpleNamespace(display=display),
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)

    output_for(io.StringIO()).show("step 1")

    assert display.outputs == [["step 1"]]


def test_shell_without_a_kernel_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = SimpleNamespace(get_ipython=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", ipython)

    assert isinstance(output_for(io.StringIO()), PlainLines)


class Tee:
    """A stream of a user's, which can only write."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def getvalue(self) -> str:
        return self.text


def test_lines_of_what_can_only_be_written_to_stand_one_below_the_other() -> None:
    streams: list[Any] = [io.StringIO(), Tee()]
    for stream in streams:
        line = output_for(stream)
        line.show("step 1")
        line.show("step 2")

        assert isinstance(line, PlainLines)
        assert stream.getvalue() == "step 1\nstep 2\n"


def test_process_without_a_stream_or_with_a_closed_one_shows_nothing() -> None:
    closed = io.StringIO()
    closed.close()

    output_for(None).show("step 1")

    assert isinstance(output_for(closed), PlainLines)
