"""A cell on tasks, with engines that do only what the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from kit.cluster.cells.cell_output import CellOutput, OnMessage, OutputKind, read
from kit.cluster.cells.cells import MOST_SHOWN, CellRun
from kit.cluster.cells.on import CellFailed, CellInterrupted, collected, on_tasks
from kit.errors import DeadlineExceededError, InvalidArgumentError
from kit.task import Task

ONE, TWO = Task("worker", 0), Task("worker", 1)


class Reply(Future[Any]):
    def __init__(self) -> None:
        super().__init__()
        self.output: Future[None] = Future()


class RemoteError(Exception):
    def __init__(self, name: str, text: str, traceback: str = "") -> None:
        super().__init__(name, text)
        self.ename, self.evalue, self.traceback = name, text, traceback


class Engines:
    """Engines that answer when they are told to, and end at an interrupt."""

    def __init__(self, *, deaf: Sequence[Task] = ()) -> None:
        self.replies: dict[Task, Reply] = {}
        self.listeners: dict[Task, OnMessage] = {}
        self.interrupted: list[Task] = []
        self.lost: dict[Task, str] = {}
        self._deaf = deaf

    def execute(
        self, task: Task, code: str, on_message: OnMessage, about: Mapping[str, Any]
    ) -> Any:
        self.listeners[task] = on_message
        self.replies[task] = Reply()
        return self.replies[task]

    def interrupt(self, tasks: Sequence[Task]) -> None:
        self.interrupted += tasks
        for task in tasks:
            if task not in self._deaf:
                self.answer(task, RemoteError("KeyboardInterrupt", ""))

    def reason_of_loss(self, task: Task) -> str:
        return self.lost.get(task, "")

    def answer(self, task: Task, value: object = None) -> None:
        self.replies[task].set_result(value)
        self.replies[task].output.set_result(None)

    def write(self, task: Task, text: str) -> None:
        self.listeners[task](message("stream", name="stdout", text=text))


def message(kind: str, **content: Any) -> Mapping[str, Any]:
    return {"header": {"msg_type": kind}, "content": content}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def begun(engines: Engines, clock: Clock) -> CellRun:
    return CellRun([ONE, TWO], "code", engines, clock=clock)


def test_output_comes_in_the_order_in_which_it_arrived() -> None:
    engines, clock = Engines(), Clock()
    seen: list[CellOutput] = []
    polling = on_tasks(begun(engines, clock), seen.extend, clock=clock)
    next(polling)

    for task, text in ((ONE, "a"), (TWO, "b"), (ONE, "c")):
        engines.write(task, text)
    engines.answer(ONE)
    engines.answer(TWO)
    with pytest.raises(StopIteration):
        next(polling)

    assert [(element.task, element.text) for element in seen] == [
        (ONE, "a"),
        (TWO, "b"),
        (ONE, "c"),
    ]


def test_a_cell_on_a_task_that_was_restarted_meanwhile_has_failed() -> None:
    engines, clock = Engines(), Clock()
    run = begun(engines, clock)
    engines.answer(ONE)
    engines.lost[TWO] = "is being restarted"
    assert run.waiting == []

    engines.lost.clear()

    assert run.waiting == []
    assert [failure.line for failure in run.failures] == [
        "PeerLost: worker:1 is being restarted"
    ]


def test_a_cell_is_over_only_when_its_last_output_has_come() -> None:
    engines, clock = Engines(), Clock()
    run = begun(engines, clock)
    engines.answer(ONE)
    engines.replies[TWO].set_result(None)  # its output is still on its way

    assert run.waiting == [TWO]
    engines.replies[TWO].output.set_result(None)
    assert run.waiting == []


def test_output_that_never_ends_is_not_waited_for() -> None:
    engines, clock = Engines(), Clock()
    run = begun(engines, clock)
    for reply in engines.replies.values():
        reply.set_result(None)
    assert run.waiting == [ONE, TWO]

    clock.now = 1.1

    assert run.waiting == []


def test_equal_failures_are_told_once() -> None:
    engines, clock = Engines(), Clock()
    polling = on_tasks(begun(engines, clock), lambda outputs: None, clock=clock)
    next(polling)
    for number, task in enumerate((ONE, TWO)):
        text = f"Cell In[{number}], line 1 at 0x{number}f"
        engines.answer(task, RemoteError("ValueError", "no", text))

    with pytest.raises(CellFailed) as caught:
        next(polling)

    expected = "worker:0 raised ValueError: no (1 more like this: worker:1)"
    assert caught.value.message == expected
    assert caught.value.lines == ["Cell In[0], line 1 at 0x0f", expected]
    assert [failure.task for failure in caught.value.failures] == [ONE, TWO]


def test_a_deadline_names_who_has_not_answered_and_interrupts_only_these() -> None:
    engines, clock = Engines(), Clock()
    polling = on_tasks(begun(engines, clock), lambda outputs: None, 5.0, clock=clock)
    next(polling)
    engines.answer(ONE)
    clock.now = 5.0

    with pytest.raises(DeadlineExceededError) as caught:
        next(polling)

    assert engines.interrupted == [TWO]
    assert caught.value.message.startswith(
        "worker:1 has not answered within 5 s and got"
    )
    assert caught.value.task == "/job:worker/task:1"


def test_the_stop_button_interrupts_the_tasks_and_says_so() -> None:
    engines, clock = Engines(), Clock()
    polling = on_tasks(begun(engines, clock), lambda outputs: None, clock=clock)
    next(polling)
    engines.answer(ONE)

    with pytest.raises(CellInterrupted, match=r"^interrupted on worker:1; the cluster"):
        polling.throw(KeyboardInterrupt())

    assert engines.interrupted == [TWO]


def test_a_task_that_does_not_react_to_the_stop_button_is_named() -> None:
    engines, clock = Engines(deaf=[TWO]), Clock()
    polling = on_tasks(begun(engines, clock), lambda outputs: None, clock=clock)
    next(polling)

    polling.throw(KeyboardInterrupt())  # it waits for the deaf one
    clock.now = 3.0
    with pytest.raises(CellInterrupted) as caught:
        next(polling)

    text = str(caught.value)
    assert text.startswith("interrupted on worker:0, worker:1; worker:1 does not react")
    assert "cluster.restart('worker:1')" in text


def test_a_task_that_is_lost_meanwhile_ends_the_wait_and_is_told() -> None:
    engines, clock = Engines(), Clock()
    polling = on_tasks(begun(engines, clock), lambda outputs: None, clock=clock)
    next(polling)
    engines.answer(ONE)
    engines.lost[TWO] = "killed by signal 9"

    with pytest.raises(CellFailed, match=r"^PeerLost: worker:1 killed by signal 9$"):
        next(polling)


def test_why_an_engine_ended_is_waited_for_when_its_end_is_told_first() -> None:
    engines, clock = Engines(), Clock()
    polling = on_tasks(begun(engines, clock), lambda outputs: None, clock=clock)
    next(polling)
    engines.answer(ONE)
    engines.answer(TWO, RemoteError("EngineError", "Engine 2 died while running task"))

    next(polling)  # it goes on waiting
    engines.lost[TWO] = "killed by signal 9"

    with pytest.raises(CellFailed, match=r"^PeerLost: worker:1 killed by signal 9$"):
        next(polling)


def test_an_end_whose_reason_never_comes_is_told_after_a_second() -> None:
    engines, clock = Engines(), Clock()
    run = begun(engines, clock)
    engines.answer(ONE)
    engines.answer(TWO, RemoteError("EngineError", "Engine 2 died"))
    assert run.waiting == [TWO]

    clock.now = 1.1

    assert run.waiting == []
    assert [failure.line for failure in run.failures] == [
        "PeerLost: worker:1 has ended or has not answered its controller for long"
    ]


def test_what_a_cell_raised_is_told_also_if_its_task_was_lost_later() -> None:
    engines, clock = Engines(), Clock()
    run = begun(engines, clock)
    engines.answer(TWO, RemoteError("ValueError", "no", "Cell In[1]"))

    engines.lost[TWO] = "killed by signal 9"

    assert [failure.line for failure in run.failures] == [
        "worker:1 raised ValueError: no"
    ]


def test_nothing_is_sent_to_a_task_that_is_lost() -> None:
    engines, clock = Engines(), Clock()
    engines.lost[TWO] = "exited with status 3"

    run = begun(engines, clock)

    assert list(engines.replies) == [ONE]
    assert [failure.line for failure in run.failures] == [
        "PeerLost: worker:1 exited with status 3"
    ]


def test_what_each_task_put_out_is_collected_by_kind() -> None:
    bundle = {"text/plain": "<b>", "text/html": "<b/>"}
    messages = [
        message("stream", name="stdout", text="out"),
        message("stream", name="stderr", text="err"),
        message("display_data", data=bundle, metadata={}, transient={}),
        message("status", execution_state="busy"),
        message("execute_result", data={"text/plain": "42"}, metadata={}),
    ]
    outputs = [output for item in messages if (output := read(ONE, item)) is not None]

    result, empty = collected([ONE, TWO], outputs)

    assert (result.stdout, result.stderr, result.result) == ("out", "err", "42")
    assert result.shown == (bundle, {"text/plain": "42"})
    assert (empty.stdout, empty.result, empty.shown) == ("", "", ())


def test_an_update_keeps_the_id_of_what_it_updates() -> None:
    transient = {"display_id": "bar"}
    update = message(
        "update_display_data", data={"text/html": "2"}, metadata={}, transient=transient
    )

    result = read(ONE, update)

    assert result is not None
    assert (result.kind, result.display_id) == (OutputKind.UPDATE, "bar")


def test_a_cell_that_shows_things_without_end_is_cut_once_and_says_so() -> None:
    engines = Engines()
    run = CellRun([ONE, TWO], "...", engines)
    for _ in range(10):
        engines.write(ONE, "x" * (MOST_SHOWN // 4))
    engines.write(TWO, "fine")

    outputs = run.outputs()

    assert sum(len(output.text) for output in outputs) < MOST_SHOWN + 1_000
    (text,) = [output.text for output in outputs if output.kind is OutputKind.STDERR]
    assert "worker:0 has shown more than 33,554,432 characters" in text
    assert outputs[-1].text == "fine"


def test_what_is_not_the_text_of_a_cell_is_refused_before_it_is_sent() -> None:
    engines = Engines()
    function: Any = print

    with pytest.raises(InvalidArgumentError, match=r"is for cluster\.call\("):
        CellRun([ONE, TWO], function, engines)

    assert not engines.listeners
