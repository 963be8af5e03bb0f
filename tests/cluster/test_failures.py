"""How failures of several tasks are told."""

from __future__ import annotations

from pathlib import Path

from kit.cluster.cells.failures import TaskFailure, fold, grouped, rendered, summary
from kit.cluster.cells.on import CellFailed
from kit.task import Task


def failure(
    index: int, text: str, traceback: str = "Cell In[1], line 1"
) -> TaskFailure:
    return TaskFailure(Task("worker", index), "ValueError", text, traceback)


def test_failures_that_differ_in_their_text_are_told_apart() -> None:
    result = [failure(0, "a"), failure(1, "b"), failure(2, "a")]

    assert [[output.task.index for output in group] for group in grouped(result)] == [
        [0, 2],
        [1],
    ]
    assert summary(result) == (
        "worker:0 raised ValueError: a (1 more like this: worker:2); "
        "worker:1 raised ValueError: b"
    )


def test_colours_and_execution_counts_make_no_difference() -> None:
    plain, coloured = "Cell In[7], line 2", "\x1b[36mCell\x1b[39m In[9], line 2"

    assert len(grouped([failure(0, "a", plain), failure(1, "a", coloured)])) == 1


def test_of_many_different_failures_three_are_shown_whole() -> None:
    result = [failure(index, f"no {index}", f"trace {index}") for index in range(5)]

    lines = rendered(result)

    assert [line for line in lines if line.startswith("trace")] == [
        "trace 0",
        "trace 1",
        "trace 2",
    ]
    assert lines[-1] == "worker:4 raised ValueError: no 4"


def test_what_happened_elsewhere_is_told_after_what_happened() -> None:
    task, text = Task("worker", 0), "barrier() waits in vain: worker:1 left the cell"
    aborted = TaskFailure(task, "AbortedError", text, "Cell In[1], line 3")

    error = CellFailed([aborted, failure(1, "no")])

    assert error.task == "/job:worker/task:1"
    assert error.lines[1] == "worker:1 raised ValueError: no"
    assert error.lines[-1].startswith("worker:0 raised AbortedError: barrier()")


def test_frames_of_the_package_are_counted_and_not_shown() -> None:
    own = Path("/srv/me/kit")
    trace = (
        "ValueError\nCell In[1], line 1\n\n"
        "\x1b[36mFile \x1b[32m/srv/me/kit/session/x.py:64\x1b[39m, in run()\n"
        "---> 64 y\n\n"
        "File /srv/me/kit.py:3, in other()\n\n"
        "ValueError: no"
    )

    assert fold(trace, own) == (
        "ValueError\nCell In[1], line 1\n\n"
        "(1 frame inside psring is left out)\n\n"
        "File /srv/me/kit.py:3, in other()\n\n"
        "ValueError: no"
    )


def test_a_lost_task_is_told_in_one_line_without_its_name_twice() -> None:
    lost = TaskFailure(Task("ps", 0), "PeerLost", "ps:0 exited with status 1")

    assert rendered([lost]) == ["PeerLost: ps:0 exited with status 1"]
