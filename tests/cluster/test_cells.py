"""A cell on tasks, with engines that do only what the test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from kit.cluster.cells.cell_output import CellOutput, OnMessage, OutputKind, read
from kit.cluster.cells.cells import MOST_SHOWN, CellRun
from kit.cluster.cells.on import CellFailed, CellInterrupted, collected, on_tasks
from kit.cluster.polling import Polling
from kit.errors import DeadlineExceededError, InvalidArgumentError, PeerLost
from kit.task import Task
from tests.cases import for_each

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


class Scene:
    """A cell on two tasks, and what was shown of it."""

    def __init__(self, *, deaf: Sequence[Task] = ()) -> None:
        self.engines, self.clock = Engines(deaf=deaf), Clock()
        self.shown: list[CellOutput] = []

    def begin(self) -> CellRun:
        return CellRun([ONE, TWO], "code", self.engines, clock=self.clock)

    def wait(self, timeout_s: float | None = None) -> Polling[None]:
        """Begin it and wait as a notebook does, until nothing more is there to read."""
        show, clock = self.shown.extend, self.clock
        polling = on_tasks(self.begin(), show, timeout_s, clock=clock)
        next(polling)
        return polling

    # -- what may happen to the second task --

    def lose(self) -> None:
        self.engines.lost[TWO] = "killed by signal 9"

    def restart(self) -> None:
        self.engines.lost.clear()

    def end_engine(self) -> None:
        text = "Engine 2 died while running task"
        self.engines.answer(TWO, RemoteError("EngineError", text))

    def fail(self) -> None:
        self.engines.answer(TWO, RemoteError("ValueError", "no", "Cell In[1]"))

    def pass_time(self) -> None:
        self.clock.now += 1.1


def test_output_comes_in_the_order_in_which_it_arrived() -> None:
    scene = Scene()
    polling = scene.wait()

    order = [(ONE, "a"), (TWO, "b"), (ONE, "c")]
    for task, text in order:
        scene.engines.write(task, text)
    scene.engines.answer(ONE)
    scene.engines.answer(TWO)
    with pytest.raises(StopIteration):
        next(polling)

    assert [(element.task, element.text) for element in scene.shown] == order


def test_a_cell_is_over_when_its_last_output_has_come_or_is_late() -> None:
    scene = Scene()
    run = scene.begin()
    scene.engines.answer(ONE)
    scene.engines.replies[TWO].set_result(None)  # its output is still on its way
    assert run.waiting == [TWO]
    scene.engines.replies[TWO].output.set_result(None)
    assert run.waiting == []

    silent = scene.begin()
    for reply in scene.engines.replies.values():
        reply.set_result(None)
    assert silent.waiting == [ONE, TWO]
    scene.pass_time()
    assert silent.waiting == []


Act = Callable[[Scene], None]
KILLED = "PeerLost: worker:1 killed by signal 9"
ENDED = "PeerLost: worker:1 has ended or has not answered its controller for long"


@for_each(
    ("acts", "later", "line"),
    [
        ((Scene.lose,), Scene.restart, KILLED),
        ((Scene.end_engine, Scene.lose), Scene.pass_time, KILLED),
        ((Scene.end_engine, Scene.pass_time), Scene.pass_time, ENDED),
        ((Scene.fail,), Scene.lose, "worker:1 raised ValueError: no"),
    ],
    ids=lambda value: value,
)
def test_a_cell_has_failed_for_good_as_soon_as_it_is_known_why(
    acts: Sequence[Act], later: Act, line: str
) -> None:
    scene = Scene()
    run = scene.begin()
    scene.engines.answer(ONE)
    for act in acts:
        assert run.waiting == [TWO]
        act(scene)

    def end() -> tuple[list[Task], list[str]]:
        return run.waiting, [failure.line for failure in run.failures]

    assert end() == ([], [line])
    later(scene)
    assert end() == ([], [line])


def test_nothing_is_sent_to_a_task_that_is_lost() -> None:
    scene = Scene()
    scene.lose()

    polling = scene.wait()
    assert list(scene.engines.replies) == [ONE]
    scene.engines.answer(ONE)

    with pytest.raises(CellFailed, match=f"^{KILLED}$") as caught:
        next(polling)
    assert isinstance(caught.value, PeerLost)


def test_equal_failures_are_told_once() -> None:
    scene = Scene()
    polling = scene.wait()
    for number, task in enumerate((ONE, TWO)):
        text = f"Cell In[{number}], line 1 at 0x{number}f"
        scene.engines.answer(task, RemoteError("ValueError", "no", text))

    with pytest.raises(CellFailed) as caught:
        next(polling)

    expected = "worker:0 raised ValueError: no (1 more like this: worker:1)"
    assert caught.value.message == expected
    assert caught.value.lines == ["Cell In[0], line 1 at 0x0f", expected]
    assert [failure.task for failure in caught.value.failures] == [ONE, TWO]


def test_a_deadline_and_the_stop_button_interrupt_only_who_has_not_answered() -> None:
    late, stopped = Scene(), Scene()
    waits = [late.wait(5.0), stopped.wait()]
    for scene in late, stopped:
        scene.engines.answer(ONE)
    late.clock.now = 5.0

    with pytest.raises(DeadlineExceededError) as caught:
        next(waits[0])
    with pytest.raises(CellInterrupted, match=r"^interrupted on worker:1; the cluster"):
        waits[1].throw(KeyboardInterrupt())

    assert late.engines.interrupted == stopped.engines.interrupted == [TWO]
    words = "worker:1 has not answered within 5 s and got"
    assert caught.value.message.startswith(words)
    assert caught.value.task == "/job:worker/task:1"


def test_a_task_that_does_not_react_to_the_stop_button_is_named() -> None:
    scene = Scene(deaf=[TWO])
    polling = scene.wait()

    polling.throw(KeyboardInterrupt())  # it waits for the deaf one
    scene.clock.now = 3.0
    with pytest.raises(CellInterrupted) as caught:
        next(polling)

    text = str(caught.value)
    assert text.startswith("interrupted on worker:0, worker:1; worker:1 does not react")
    assert "cluster.restart('worker:1')" in text


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
    engines, function = Engines(), cast("Any", print)

    with pytest.raises(InvalidArgumentError, match=r"is for cluster\.call\("):
        CellRun([ONE, TWO], function, engines)

    assert not engines.listeners
