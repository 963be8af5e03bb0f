"""What hooks tell is shown where the training was begun: the newest line of many."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest

from kit.hooks import LoggingTensorHook, StepCounterHook
from kit.progress import Line as Lasting
from kit.progress import PlainLines
from kit.testing.cluster import LocalCluster
from kit.training.client.telling import Teller
from tests.training.hook_scene import begin


class Line:
    """A place where each line covers the one before."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def reserve(self) -> None:
        self.shown.append("...")

    def show(self, text: str, html: str = "") -> None:
        self.shown.append(text)

    def finish(self) -> None:
        self.shown.append("(end)")

    def add(self, lines: Sequence[Lasting]) -> None:
        self.shown += [line.text for line in lines]


def progress(first: int, last: int) -> list[list[Any]]:
    return [[number, "progress", f"line {number}"] for number in range(first, last + 1)]


def test_only_the_newest_line_is_shown_of_those_that_came_together() -> None:
    line = Line()
    teller = Teller(line)

    teller.take(progress(1, 50), is_over=False)
    teller.take(progress(30, 80), is_over=False)
    teller.take(progress(31, 80), is_over=False)

    assert line.shown == ["line 50", "line 80"]


def test_a_file_gets_every_line_once() -> None:
    written: list[str] = []
    teller = Teller(PlainLines(written.append))

    teller.take(progress(1, 2), is_over=False)
    teller.take(progress(1, 3), is_over=True)

    assert written == ["line 1\n", "line 2\n", "line 3\n"]


def test_other_lines_are_not_shown_and_the_end_leaves_the_line_as_it_is() -> None:
    line = Line()

    Teller(line).take([[1, "info", "a"], [2, "warning", "b"]], is_over=True)

    assert line.shown == ["(end)"]


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed file")])
def test_window_that_was_closed_ends_nothing(error: Exception) -> None:
    class Closed(Line):
        def show(self, text: str, html: str = "") -> None:
            raise error

    Teller(Closed()).take(progress(1, 1), is_over=True)


def test_lines_of_a_training_come_to_where_it_was_begun(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    hooks = [LoggingTensorHook(["global_step"], every_n_iter=2), StepCounterHook(100)]

    run = begin(cluster, *hooks, steps=5).wait(30)

    assert stream.getvalue().splitlines() == run.messages
    assert [message.split(" (")[0] for message in run.messages] == [
        f"global_step = {step}" for step in (0, 2, 4)
    ]


def test_training_without_hooks_writes_nothing(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(cluster).wait(30)

    assert capsys.readouterr() == ("", "")
