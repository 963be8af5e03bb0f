"""What the judge measures and says, on real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from kit import puzzles
from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PeerLost,
    UnknownError,
)
from kit.puzzles import Figures, Puzzle, PuzzleProcesses, Result
from kit.testing.task_process import until
from tests.cases import for_each
from tests.faults.scene import is_running
from tests.notebooks.kernel import ROOT
from widgets import Prediction

Program = Callable[[Any], object]
pytestmark = pytest.mark.slow  # as long as it takes to start the processes

LONG_S = 60.0  # nobody waits for it: who never ends is found out before

SWAP = Puzzle(
    name="swap <&>",
    goal="Two workers exchange their arrays.",
    tasks=("worker:0", "worker:1"),
    inputs=lambda dice: [{"x": dice.normal(size=1000)} for _ in range(2)],
    wanted=lambda value: [{"x": value[1]["x"]}, {"x": value[0]["x"]}],
    target=Figures(n_bytes=8000),
    best_known={"swap": Figures(n_bytes=8000, n_in_a_row=1, memory=16_000, idle=0.0)},
)
SUM = Puzzle(
    name="sum",
    goal="Two workers want the sum.",
    tasks=("worker:0", "worker:1"),
    inputs=SWAP.inputs,
    wanted=lambda value: [{"sum": value[0]["x"] + value[1]["x"]}, {}],
    target=Figures(),
    best_known={"nothing": Figures()},
    addends=lambda value, rank, name: {"a": value[0]["x"], "b": value[1]["x"]},
)


def swap(task: Any) -> None:
    task.send(task["x"], to=1 - task.rank, name="x")
    task["x"] = task.recv(1 - task.rank, name="x")


@pytest.fixture(scope="module")
def mortal() -> Iterator[PuzzleProcesses]:
    """Processes that tests may make end."""
    result = PuzzleProcesses()
    yield result
    result.close()


def judged(
    processes: PuzzleProcesses, program: Program, puzzle: Puzzle = SWAP
) -> Result:
    return puzzles.judge(puzzle, program, processes=processes, deadline_s=LONG_S)


def test_what_is_measured_is_what_has_moved(processes: PuzzleProcesses) -> None:
    result = judged(processes, swap)

    assert result.ok
    assert result.figures == Figures(8000, 1, 16_000, 0.0)
    assert result.words == "Right. No known program does better."
    result.required()


def test_a_guess_is_compared_with_the_best_of_several_programs_and_the_own_one(
    processes: PuzzleProcesses,
) -> None:
    listed = {
        "few bytes": Figures(n_bytes=4000, n_in_a_row=3),
        "few messages": Figures(n_bytes=9000, n_in_a_row=2),
    }

    result = judged(processes, swap, replace(SWAP, best_known=listed))

    assert result.words == (
        "Right. This beats every known program in messages in a row."
    )
    guess = Prediction("How many?", "messages").lock(4)
    assert repr(result.reveal(guess, "n_in_a_row")).splitlines() == [
        "The best known: 2 messages; you guessed 4. That is too high by a factor of 2. "
        "Your program: 1 messages, better than every known program.",
        "  bytes through the busiest task: yours 8,000, few bytes 4,000, "
        "few messages 9,000",
        "  messages in a row: yours 1, few bytes 3, few messages 2",
        "  bytes held at once: yours 16,000, few bytes \u2013, few messages \u2013",
        "  idle time: yours 0 %, few bytes \u2013, few messages \u2013",
    ]


def test_a_program_that_is_right_is_not_told_what_others_cost_before_the_reveal(
    processes: PuzzleProcesses,
) -> None:
    listed = {"few bytes": Figures(n_bytes=4000), "one message": Figures(n_in_a_row=1)}
    result = judged(processes, swap, replace(SWAP, best_known=listed))

    assert result.words == (
        "Right. Known programs do better: few bytes (bytes through the busiest task)."
    )
    assert "4,000" not in repr(result) + result._repr_html_()


class Weightless(np.ndarray[Any, Any]):
    """An array that says it has no bytes."""

    nbytes = 0


def test_bytes_are_those_of_the_memory_whatever_an_array_says_of_itself(
    processes: PuzzleProcesses,
) -> None:
    def understate(task: Any) -> None:
        mine = task["x"].view(Weightless).copy()
        task.keep("mine", mine)
        task.send(mine, to=1 - task.rank, name="x")
        task["x"] = task.recv(1 - task.rank, name="x")

    result = judged(processes, understate)

    assert (result.figures.n_bytes, result.figures.memory) == (8_000, 24_000)


def test_a_circle_of_waits_is_told_and_drawn_without_waiting_for_a_deadline(
    processes: PuzzleProcesses,
) -> None:
    def waits_first(task: Any) -> None:
        got = task.recv(1 - task.rank, name="x")
        task.send(task["x"], to=1 - task.rank, name="x")
        task["x"] = got

    result = judged(processes, waits_first)

    assert isinstance(result.error, AbortedError)
    assert result.words == (
        "Not yet: a deadlock: worker:0 waits for message 'x' from worker:1, and "
        "worker:1 waits for message 'x' from worker:0. Somebody must send before it "
        "waits."
    )
    assert result.svg.count('class="stuck"') == 2
    assert "  idle time: \u2013 (target " in repr(result)
    assert "waits for x from worker:1" in result.svg
    assert "worker:1 waits for ever for x from worker:0" in result.text
    assert result.attempt.seconds < LONG_S
    with pytest.raises(FailedPreconditionError, match="deadlock"):
        result.required()


def test_a_wait_for_one_who_has_ended_is_told_with_what_lies_there(
    processes: PuzzleProcesses,
) -> None:
    def one_sends_another_name(task: Any) -> None:
        if task.rank == 0:
            task.send(task["x"], to=1, name="part 2")
        else:
            task.recv(0, name="part 3")

    result = judged(processes, one_sends_another_name)

    assert isinstance(result.error, AbortedError)
    assert result.words == (
        "Not yet: worker:1 waits for message 'part 3' from worker:0, which has ended "
        "and never sent it. worker:1 has not received message 'part 2' from worker:0."
    )
    assert "never received" in result.svg


@pytest.mark.lasting("process", "descriptor")
def test_others_who_work_on_do_not_hide_a_deadlock(mortal: PuzzleProcesses) -> None:
    three = replace(
        SWAP,
        tasks=("worker:0", "worker:1", "worker:2"),
        inputs=lambda dice: [{}, {}, {}],
        wanted=lambda value: [{}, {}, {}],
    )

    def program(task: Any) -> None:
        if task.rank < 2:
            task.recv(1 - task.rank)
        while True:
            pass

    result = judged(mortal, program, three)

    assert "a deadlock: worker:0 waits for a message from worker:1" in result.words
    assert result.attempt.busy == (2,)


@pytest.mark.lasting("process", "descriptor")
def test_a_program_that_never_ends_is_ended_when_the_time_is_up(
    mortal: PuzzleProcesses,
) -> None:
    def program(task: Any) -> None:
        task.send(task["x"], to=1 - task.rank, name="x")
        while True:
            task.recv(1 - task.rank)
            task.send(task["x"], to=1 - task.rank, name="again")

    result = puzzles.judge(SWAP, program, processes=mortal, deadline_s=0.2)

    assert isinstance(result.error, DeadlineExceededError)
    assert "worker:0 was still running when the time was up" in result.words


@pytest.mark.lasting("process", "descriptor")
def test_a_process_that_dies_is_an_error_and_the_next_try_has_another(
    mortal: PuzzleProcesses,
) -> None:
    with pytest.raises(PeerLost, match=r"task \d has died"):
        judged(mortal, lambda task: os._exit(3))

    assert judged(mortal, swap).ok


def test_no_process_outlives_the_one_that_judges(tmp_path: Path) -> None:
    code = (
        "import psutil, sys\n"
        "from kit import puzzles\n"
        "puzzles.judge('first message', lambda task: None)\n"
        "ours = psutil.Process().children(recursive=True)\n"
        "print(*(one.pid for one in ours), flush=True)\n"
        "def endless(task):\n"
        "    while True: pass\n"
        "puzzles.judge('first message', endless, deadline_s=60)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, cwd=tmp_path
    ) as judging:
        assert judging.stdout is not None
        pids = [int(word) for word in judging.stdout.readline().split()]
        assert all(psutil.pid_exists(pid) for pid in pids)

        judging.kill()

        until(lambda: not any(is_running(pid) for pid in pids), 10)
    assert len(pids) == 3


def test_an_exception_is_told_with_task_line_and_last_message(
    processes: PuzzleProcesses,
) -> None:
    def divides(task: Any) -> None:
        swap(task)
        if task.rank == 1:
            print(1 // (task.rank - 1))

    result = judged(processes, divides)

    assert isinstance(result.error, UnknownError)
    assert result.words == (
        "Not yet: worker:1 stopped with ZeroDivisionError: integer division or modulo "
        "by zero (line 4 of divides); it last received message 'x' from worker:0."
    )


@for_each(
    ("program", "error", "says"),
    [
        (lambda t: t.send(t["x"], to=2), InvalidArgumentError, "ranks are 0 to 1"),
        (lambda t: t.send(t["x"], to=t.rank), InvalidArgumentError, "to itself"),
        (lambda t: t.send(t["x"], to="1"), InvalidArgumentError, "the str 1; give"),
        (lambda t: t.send([1], to=1 - t.rank), InvalidArgumentError, "the list [1]"),
        (lambda t: t.recv(None), InvalidArgumentError, "from None; give a rank"),
        (lambda t: t.keep("y", None), InvalidArgumentError, "keeps 'y', which is None"),
        (lambda t: t["y"], NotFoundError, "holds no 'y'; it holds 'x'"),
        (lambda t: t.free("y"), NotFoundError, "holds no 'y'"),
        (lambda t: t.forward(1), UnknownError, "a task has no 'forward'; it has send"),
        (lambda t: t.keep("y", np.ones(2**28)), UnknownError, "MemoryError"),
    ],
)
def test_what_a_task_is_asked_for_in_vain_is_told(
    program: Program, error: type[Exception], says: str, processes: PuzzleProcesses
) -> None:
    result = judged(processes, program)

    assert type(result.error) is error
    assert says in result.words
    assert "worker:0" in result.words


def still_refers(task: Any) -> None:
    x = task["x"]
    task.free("x")
    task.keep("y", np.zeros(1000))
    del x
    task.keep("z", np.zeros(10))


@for_each(
    ("hold", "most"),
    [
        (lambda t: t.keep("half", t["x"][:500]), 8000),  # a view
        (lambda t: t.keep("half", t["x"][:500].copy()), 12_000),
        (lambda t: t.keep("y", t["x"]), 8000),  # two names of one array
        (lambda t: (t.free("x"), t.keep("y", np.zeros(10))), 8000),
        (lambda t: [t.keep("y", np.zeros(k)) for k in (10, 20, 30)], 8400),
        (still_refers, 16_000),  # a variable holds what was freed
    ],
)
def test_memory_is_what_python_holds(
    hold: Program, most: int, processes: PuzzleProcesses
) -> None:
    assert judged(processes, hold).figures.memory == most


@for_each(
    ("program", "says"),
    [
        (lambda t: t.keep("sum", t["x"] * 0), "it is 0 times what it should be"),
        (lambda t: t.keep("sum", t["x"]), "that of b is missing"),
        (lambda t: t.keep("sum", t["x"][:3]), "it should be (1000,)"),
        (lambda t: t.keep("x", t["x"]), "worker:0 holds no 'sum' at the end"),
    ],
)
def test_a_wrong_sum_is_taken_apart(
    program: Program, says: str, processes: PuzzleProcesses
) -> None:
    def sends_once(task: Any) -> None:
        if task.rank == 1:
            task.send(task["x"], to=0, name="x")
        else:
            task.recv(1)
        program(task)

    result = judged(processes, sends_once, SUM)

    assert says in result.words
    assert "message 'x' from worker:1" in result.words


@for_each(
    ("array", "says"),
    [
        (np.full(1000, np.nan), "the first is nan and should be"),
        (np.full(1000, "x"), "of dtype <U1, and real numbers are wanted"),
        (np.full(1000, 1j), "of dtype complex128, and real numbers are wanted"),
        (np.array(2.0), "of shape (), and it should be (1000,)"),
    ],
)
def test_what_is_no_number_is_told(
    array: Any, says: str, processes: PuzzleProcesses
) -> None:
    def program(task: Any) -> None:
        swap(task)
        task["x"] = array

    assert says in judged(processes, program).words


def test_an_array_that_should_have_stayed_as_it_was_is_told(
    processes: PuzzleProcesses,
) -> None:
    def program(task: Any) -> None:
        for other in range(1, task.n):
            if task.rank == 0:
                task.send(task["x"], to=other)
        if task.rank > 0:
            task["x"] = task.recv(0)
        task["x"][:] = 1

    result = puzzles.judge("broadcast", program, processes=processes)

    assert "it should be as it was at the beginning" in result.words


def test_what_nobody_receives_is_told(processes: PuzzleProcesses) -> None:
    def twice(task: Any) -> None:
        swap(task)
        task.send(task["x"], to=1 - task.rank, name="again")

    assert (
        "worker:0 never received message 'again' from worker:1"
        in judged(processes, twice).words
    )


def test_arrays_arrive_as_they_were_sent_whatever_their_kind(
    processes: PuzzleProcesses,
) -> None:
    def program(task: Any) -> None:
        kinds = [
            np.arange(6).reshape(2, 3).T,
            np.array(2.5),
            np.zeros((0, 4)),
            np.array([True, False]),
            np.array([1 + 2j]),
            np.array(["2026-01-01"], "datetime64[D]").view("i8"),
        ]
        for number, array in enumerate(kinds):
            if task.rank == 0:
                task.send(array, to=1, name=str(number))
            else:
                got = task.recv(0, name=str(number))
                assert got.dtype == array.dtype
                assert got.shape == array.shape
                assert (got == array).all()
        swap(task)

    assert judged(processes, program).error is None


def test_names_choose_among_messages_and_without_one_the_oldest_comes(
    processes: PuzzleProcesses,
) -> None:
    def program(task: Any) -> None:
        if task.rank == 0:
            for k in range(3):
                task.send(np.array([k]), to=1, name=f"m{k}")
        else:
            got = [task.recv(0, name="m1"), task.recv(0), task.recv(0)]
            print(*(int(row[0]) for row in got))
        swap(task)

    result = judged(processes, program)

    assert result.printed == "worker:1: 1 0 2"


def test_two_who_send_each_other_more_than_a_link_holds_do_not_block(
    processes: PuzzleProcesses,
) -> None:
    def program(task: Any) -> None:
        for _ in range(4):
            task.send(np.zeros(500_000), to=1 - task.rank)
        for _ in range(4):
            task.recv(1 - task.rank)
        swap(task)

    assert judged(processes, program).figures.n_bytes == 4 * 4_000_000 + 8000


def test_the_picture_is_whole_and_says_in_words_what_it_shows(
    processes: PuzzleProcesses,
) -> None:
    result = judged(processes, swap)

    picture = ET.fromstring(result.svg)
    assert picture.get("role") == "img"
    assert picture.get("aria-label") == (
        "swap <&>: 2 messages between 2 tasks in 0.08 ms"
    )
    assert "prefers-color-scheme: dark" in result.svg
    assert "0 to 0.08 ms: worker:0 sends x to worker:1, 8,000 bytes" in result.text
    assert result.text in result._repr_html_().replace("</li><li>", "\n")
    assert "bytes held at once: 16,000" in repr(result)


def test_a_puzzle_says_its_goal_and_its_limits() -> None:
    exchange = replace(SWAP, target=Figures(n_bytes=80, idle=0.5))

    assert repr(exchange).splitlines() == [
        f"{SWAP.name}: {SWAP.goal}",
        "  bytes through the busiest task: at most 80",
        "  idle time: at most 50 %",
    ]


def test_a_stub_is_told_what_to_do(processes: PuzzleProcesses) -> None:
    result = judged(processes, lambda task: ...)

    assert not result.ok
    assert "where the three dots are" in result.words


def test_what_is_no_program_or_no_puzzle_is_refused(processes: PuzzleProcesses) -> None:
    lock = threading.Lock()
    with pytest.raises(NotFoundError, match="there are first message, broadcast"):
        puzzles.judge("brodcast", swap)
    with pytest.raises(InvalidArgumentError, match="not a function"):
        puzzles.judge(SWAP, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="cannot go to another process"):
        judged(processes, lambda task: lock.acquire() and None)
