"""Output of several tasks as labelled lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.cluster.cells.cell_output import CellOutput, OutputKind
from kit.magics.on_magics import LAST_LINES, MOST_LINES, Labelled, MimeBundle, Text
from kit.task import Task

PS, WORKER = Task("ps", 0), Task("worker", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def page(clock: Clock | None = None) -> Labelled:
    return Labelled([PS, WORKER], clock or Clock())


def out(task: Task, text: str, kind: OutputKind = OutputKind.STDOUT) -> CellOutput:
    return CellOutput(task, kind, text=text)


def lines(labelled: Labelled, *outputs: CellOutput) -> list[str]:
    shown = [*labelled.take(outputs), *labelled.close()]
    return "".join(
        element.text for element in shown if isinstance(element, Text)
    ).splitlines()


def test_each_line_is_labelled_and_the_labels_are_aligned() -> None:
    assert lines(page(), out(PS, "a\nb\n"), out(WORKER, "c\n")) == [
        "ps:0     │ a",
        "ps:0     │ b",
        "worker:1 │ c",
    ]


def test_a_line_that_comes_in_pieces_is_one_line() -> None:
    result = lines(page(), out(PS, "he"), out(WORKER, "x\n"), out(PS, "llo\n"))

    assert result == ["worker:1 │ x", "ps:0     │ hello"]


def test_the_two_streams_of_a_task_do_not_mix() -> None:
    shown = page().take(
        [out(PS, "a\n"), out(PS, "b\n", OutputKind.STDERR), out(PS, "c\n")]
    )

    assert [item.is_error for item in shown if isinstance(item, Text)] == [
        False,
        True,
        False,
    ]


def test_a_line_without_an_end_is_shown_when_the_rest_does_not_come() -> None:
    clock = Clock()
    labelled = page(clock)

    assert labelled.take([out(PS, "password? ")]) == []
    clock.now = 2.5
    assert labelled.take([]) == [Text("ps:0     │ password? \n")]
    assert labelled.take([]) == []


def test_a_progress_bar_is_shown_as_it_stood_last() -> None:
    bar = [out(PS, f"\r{percent}%") for percent in range(0, 101, 10)]

    assert lines(page(), *bar, out(PS, "\n")) == ["ps:0     │ 100%"]


def test_windows_line_ends_are_line_ends() -> None:
    assert lines(page(), out(PS, "a\r\nb\r\n")) == ["ps:0     │ a", "ps:0     │ b"]


def test_a_flood_is_cut_and_its_end_is_shown() -> None:
    flood = "".join(f"{number}\n" for number in range(MOST_LINES + 500))

    result = lines(page(), out(PS, flood), out(WORKER, "small\n"))

    assert len(result) == MOST_LINES + 1 + 1 + LAST_LINES
    assert "ps:0     │ ... 480 lines are left out; the last 20:" in result
    assert result[-1] == f"ps:0     │ {MOST_LINES + 499}"
    assert "worker:1 │ small" in result


def test_a_long_line_is_cut() -> None:
    (result,) = lines(page(), out(PS, "x" * 5000 + "\n"))

    assert result.endswith("x... (1,000 more characters)")


def test_a_plain_result_is_marked_and_a_rich_one_is_kept() -> None:
    plain = CellOutput(PS, OutputKind.RESULT, text="42", data={"text/plain": "42"})
    rich = CellOutput(
        PS, OutputKind.DISPLAY, data={"text/html": "<b>"}, metadata={"m": 1}
    )

    shown = page().take([plain, rich])

    assert shown == [
        Text("ps:0     │ Out: 42\nps:0     │ shows:\n"),
        MimeBundle({"text/html": "<b>"}, {"m": 1}),
    ]


def test_equal_ids_of_two_tasks_stay_two_places() -> None:
    data = {"text/html": "1"}
    first = [
        CellOutput(t, OutputKind.DISPLAY, data=data, display_id="x")
        for t in (PS, WORKER)
    ]
    later = CellOutput(WORKER, OutputKind.UPDATE, data=data, display_id="x")

    shown = [
        item for item in page().take([*first, later]) if isinstance(item, MimeBundle)
    ]

    assert [(item.display_id, item.updates) for item in shown] == [
        ("ps:0/x", False),
        ("worker:1/x", False),
        ("worker:1/x", True),
    ]


def test_text_that_was_begun_comes_before_what_is_shown_after_it() -> None:
    shown = page().take(
        [out(PS, "before"), CellOutput(PS, OutputKind.DISPLAY, data={"a/b": 1})]
    )

    assert shown[0] == Text("ps:0     │ before\nps:0     │ shows:\n")


@given(
    st.lists(
        st.tuples(st.sampled_from([PS, WORKER]), st.text("ab\n", max_size=6)),
        max_size=9,
    )
)
def test_however_text_is_cut_its_lines_stay_whole_and_in_order(
    pieces: list[tuple[Task, str]],
) -> None:
    result = lines(page(), *(out(task, text) for task, text in pieces))

    for task in (PS, WORKER):
        whole = "".join(text for of, text in pieces if of == task)
        expected = whole.split("\n")
        if not expected[-1]:
            expected.pop()
        label = f"{task.short:<8} │ "
        assert [
            text.removeprefix(label) for text in result if text.startswith(label)
        ] == (expected)
