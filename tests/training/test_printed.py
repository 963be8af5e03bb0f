"""What steps and hooks print: some lines a second, and how many there were besides."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.hooks import LoggingTensorHook, StepCounterHook
from kit.progress import Line, NotebookLine, PlainLines, TerminalLine
from kit.testing.cluster import LocalCluster, local_cluster
from kit.trace.named_rows import Change, EpochRow
from kit.training.client.metrics import Entry
from kit.training.client.report import RunReport, table
from kit.training.client.telling import Teller, task_lines
from kit.training.client.watched import Watched
from kit.training.core import printed as module
from kit.training.core.printed import MOST_A_SECOND, PrintedLines
from tests.training.hook_scene import begin
from tests.training.jobs import made


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_in(entries: list[list[Any]]) -> list[str]:
    return [line for kind, line in entries if kind != "more"]


def n_left_out(entries: list[list[Any]]) -> int:
    return sum(n for kind, n in entries if kind == "more")


def test_lines_are_told_once_when_they_are_complete_and_stderr_apart() -> None:
    printed = PrintedLines(Clock())
    printed.write("one\ntw")
    printed.write("of stderr\n", is_error=True)
    first, cursor = printed.since(0)
    printed.write("o\n")

    assert first == [["out", "one"], ["error", "of stderr"]]
    assert printed.since(cursor) == ([["out", "two"]], 3)
    assert printed.since(3) == ([], 3)


def test_line_that_does_not_end_is_told_after_a_while_and_at_the_end() -> None:
    clock = Clock()
    printed = PrintedLines(clock)
    printed.write("waits ")
    early, _ = printed.since(0)
    clock.now = 2.5
    late, cursor = printed.since(0)
    printed.write("the last")
    printed.close()

    assert early == []
    assert late == [["out", "waits "]]
    assert printed.since(cursor)[0] == [["out", "the last"]]


def test_progress_bar_is_told_in_its_last_state_and_costs_one_line() -> None:
    printed = PrintedLines(Clock())
    for percent in range(100):
        printed.write(f"\r{percent}%")
    for percent in range(100):
        printed.write(f"{percent} of 100\r", is_error=True)
    printed.close()

    assert printed.since(0)[0] == [["out", "99%"], ["error", "99 of 100"]]


def test_text_without_an_end_takes_no_more_memory_than_a_line() -> None:
    printed = PrintedLines(Clock())
    for _ in range(1000):
        printed.write("x" * 1000)
    printed.close()

    ((_, line),) = printed.since(0)[0]
    assert 100 <= len(line) <= 1000


def test_some_lines_a_second_are_told_and_the_others_counted() -> None:
    clock = Clock()
    printed = PrintedLines(clock)
    for n in range(1000):
        printed.write(f"line {n}\n")
    first, cursor = printed.since(0)
    clock.now = 1.0
    later, cursor = printed.since(cursor)
    printed.write("line 1000\n")

    assert lines_in(first) == [f"line {n}" for n in range(MOST_A_SECOND)]
    assert later == [["more", 1000 - MOST_A_SECOND]]
    assert printed.since(cursor)[0] == [["out", "line 1000"]]


def test_warning_is_told_however_much_is_printed_before_it() -> None:
    printed = PrintedLines(Clock())
    for n in range(1000):
        printed.write(f"line {n}\n")
    printed.write("a warning\n", is_error=True)

    assert ["error", "a warning"] in printed.since(0)[0]


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.floats(0, 1.5), st.booleans()), max_size=30
    )
)
def test_lines_told_and_lines_counted_are_all_lines(
    bursts: list[tuple[int, float, bool]],
) -> None:
    clock = Clock()
    printed = PrintedLines(clock)
    lines: list[list[Any]] = []
    cursor, n_lines = 0, 0
    for n, pause_s, asks in bursts:
        for _ in range(n):
            printed.write(f"{n_lines}\n")
            n_lines += 1
        clock.now += pause_s
        if asks:
            new, cursor = printed.since(cursor)
            lines += new
    printed.close()
    lines += printed.since(cursor)[0]

    assert len(lines_in(lines)) + n_left_out(lines) == n_lines
    numbers = [int(line) for line in lines_in(lines)]
    assert numbers == sorted(set(numbers))
    assert len(lines) <= (clock.now + 2) * (MOST_A_SECOND + 2)


def test_each_thread_has_its_own_lines_and_others_have_none() -> None:
    result: dict[str, object] = {}
    mine = PrintedLines()

    def other() -> None:
        result["other"] = module.of_this_thread()

    with mine.of_this_thread():
        result["mine"] = module.of_this_thread()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    result["after"] = module.of_this_thread()

    assert result == {"mine": mine, "other": None, "after": None}


def watched(entries: list[list[Any]]) -> list[Watched]:
    result = [Watched(), Watched(), Watched()]
    result[1].printed += entries
    return result


def test_lines_bear_the_name_of_their_task_and_say_where_the_others_are() -> None:
    members = watched([["out", "a"], ["error", "b"], ["more", 1234]])
    result = list(task_lines(made(), members))

    assert result == [
        Line("worker:0 │ a"),
        Line("worker:0 │ b", is_error=True),
        Line(
            "worker:0 │ … 1,234 more in its log: kit.current_cluster().log('worker:0')"
        ),
    ]
    assert list(task_lines(made(), members)) == []


def shown_by(make: Callable[[Callable[[str], Any]], Any]) -> str:
    written: list[str] = []
    output = make(written.append)
    output.show("step 1")
    output.add([Line("worker:0 │ a")])
    output.show("step 2")
    output.finish()
    return "".join(written)


def test_progress_and_lines_do_not_write_over_each_other() -> None:
    assert shown_by(TerminalLine) == "\rstep 1\nworker:0 │ a\n\rstep 2\n"
    assert shown_by(PlainLines) == "step 1\nworker:0 │ a\nstep 2\n"


class Display:
    """IPython's `display` and its handle: the texts of each output."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []
        self.pages: list[str] = []

    def __call__(self, data: dict[str, str], **_: Any) -> Any:
        texts = [data["text/plain"]]
        self.outputs.append(texts)
        pages = self.pages
        pages.append(data.get("text/html", ""))

        class Handle:
            def update(self, data: dict[str, str], **_: Any) -> None:
                texts.append(data["text/plain"])
                pages.append(data.get("text/html", ""))

        return Handle()


@pytest.mark.slow
def test_notebook_shows_the_newest_lines_in_one_output_beside_the_progress() -> None:
    display = Display()
    output = NotebookLine(display)
    output.show("step 1")
    for n in range(1, 1001):
        output.add([Line(f"line {n}")])
    output.show("step 2")

    progress, lines = display.outputs
    assert progress == ["step 1", "step 2"]
    assert lines[1] == "line 1\nline 2"
    before, *newest = lines[-1].splitlines()
    assert newest == [f"line {n}" for n in range(801, 1001)]
    assert before == "(lines before these: 800)"


def test_page_shows_what_was_printed_letter_for_letter() -> None:
    display = Display()
    NotebookLine(display).add([Line("worker:0 │ <b>&"), Line("worker:1 │ 2")])

    (page,) = display.pages
    assert "worker:0 │ &lt;b&gt;&amp;\nworker:1 │ 2" in page


def test_page_shows_a_line_of_stderr_as_the_notebook_shows_stderr() -> None:
    display = Display()
    warning = Line("worker:0 │ <i>", is_error=True)
    NotebookLine(display).add([Line("worker:0 │ 1"), warning, Line("worker:0 │ 2")])

    (page,) = display.pages
    coloured = re.findall(r"<span [^>]*error-background[^>]*>(.*?)</span>", page)
    assert coloured == ["worker:0 │ &lt;i&gt;"]


# -- what hooks tell -------------------------------------------------------------------


class ShownLine:
    """A place where each line covers the one before."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def reserve(self) -> None:
        self.shown.append("...")

    def show(self, text: str, html: str = "") -> None:
        self.shown.append(text)

    def finish(self) -> None:
        self.shown.append("(end)")

    def add(self, lines: Sequence[Line]) -> None:
        self.shown += [line.text for line in lines]


def progress(first: int, last: int) -> list[list[Any]]:
    return [[number, "progress", f"line {number}"] for number in range(first, last + 1)]


def test_only_the_newest_line_is_shown_of_those_that_came_together() -> None:
    line = ShownLine()
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
    line = ShownLine()

    Teller(line).take([[1, "info", "a"], [2, "warning", "b"]], is_over=True)

    assert line.shown == ["(end)"]


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed file")])
def test_window_that_was_closed_ends_nothing(error: Exception) -> None:
    class Closed(ShownLine):
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


# -- a run as the last expression of a cell --------------------------------------------

PICTURE = RunReport("0123456789", "running", 1200, 6000, 0.25)
ENTRY = Entry(0, "ring", "worker:0", 9, 1_000, 2_000, 1_000, 2_000)


class Balanced(HTMLParser):
    """Complains of an element that is not closed, and collects the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert not {"style", "color", "bgcolor"} & {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words(picture: RunReport) -> list[str]:
    return Balanced(table(picture)).words


def test_report_tells_step_loss_and_every_topology_with_its_first_step() -> None:
    rows = [EpochRow(0, "ps", 0, 0, ""), EpochRow(1, "ring", 1100, 9, "1gbit")]
    result = words(replace(PICTURE, epochs=rows, switching="ps"))

    assert result[0] == "Training 01234567: running"
    assert "1,200 of 6,000" in result
    assert "0.25" in result
    assert "ps from step 0, ring at 1gbit from step 1,100, switching to ps" in result


def test_report_says_since_when_the_workers_differ() -> None:
    names = ["ring", "gossip", "gossip", "mesh"]
    rows = [EpochRow(n, name, 100 * n, 0, "") for n, name in enumerate(names)]

    is_apart, agreed = (words(replace(PICTURE, epochs=rows[:n])) for n in (3, 4))

    assert any(
        "have differed since step 100; run.params are older" in s for s in is_apart
    )
    assert not any("differed" in text for text in agreed)


def test_report_lists_what_an_elastic_training_lost_and_took_in() -> None:
    changes = (
        Change(("worker:2",), (), (), 1120, 14, 0.21, "<its links are closed>"),
        Change((), ("worker:2",), (), 1300, 0, 0.04, "it is back"),
    )
    result = words(replace(PICTURE, changes=changes))

    at = result.index("worker:2 lost")
    assert result[at : at + 5] == [
        "worker:2 lost", "1,120", "14", "0.21", "<its links are closed>"
    ]  # fmt: skip
    assert "worker:2 joined" in result
    assert "Tasks lost, joined and left" not in words(PICTURE)


def test_report_names_a_topology_once_for_all_generations_that_have_it() -> None:
    rows = [EpochRow(1, "ring", 0, 0, ""), EpochRow(2, "ring", 106, 9, "", "", 1)]

    assert "ring from step 0" in words(replace(PICTURE, epochs=rows))


def test_report_has_no_loss_before_the_first_step() -> None:
    assert "loss" in words(PICTURE)
    assert "loss" not in words(replace(PICTURE, loss=float("nan")))


def test_report_of_the_traffic_shows_the_formula_where_it_differs() -> None:
    same = words(replace(PICTURE, traffic=[ENTRY]))
    other = words(replace(PICTURE, traffic=[replace(ENTRY, formula_sent=999)]))

    assert {"1,000", "2,000", "the same"} <= set(same)
    assert "999 and 2,000" in other
    assert "the same" not in other


def test_report_escapes_what_came_from_elsewhere() -> None:
    result = Balanced(table(replace(PICTURE, state="failed", error="<script>x & y")))

    assert "script" not in result.tags
    assert "<script>x & y" in result.words


def test_run_shows_its_traffic_when_it_is_over() -> None:
    with local_cluster(ps=1, worker=2) as cluster:
        run = kit.train(
            lambda params, batch: (0.5, {"w": params["w"]}),
            {"w": np.ones(4, np.float32)},
            np.zeros((4, 1), np.float32),
            steps=2,
            batch=4,
            cluster=cluster,
        ).wait(20)

        result = Balanced(run._repr_html_()).words

    assert result[0].endswith("done")
    assert "2 of 2" in result
    assert result.count("the same") == 3
