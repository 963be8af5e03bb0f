from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import cloudpickle
import pytest
from ipyparallel import RemoteError

from kit.cluster.cells.calls import TaskCalls
from kit.cluster.cells.remote import Perform, pack
from kit.errors import DeadlineExceededError, PeerLost, UnknownError
from kit.task import Task
from kit.training.core.printed import OUT
from tests.cluster.insides import in_a_loop

A, B = Task("worker", 0), Task("worker", 1)


class Engines:
    """Engines that answer when told; each call waits in `futures`."""

    def __init__(self, *tasks: Task, **options: float) -> None:
        self.tasks, self.futures = tasks, dict[Task, Future[bytes]]()
        self.calls = TaskCalls(tasks, self.submit, **options)

    def submit(self, task: Task, payload: bytes) -> Future[bytes]:
        self.payload = payload
        return self.futures.setdefault(task, Future())

    def answer(self, task: Task) -> None:
        self.submit(task, self.payload).set_result(Perform()(self.payload))

    async def begin(
        self, *args: str, deadline_s: float = 60.0, **more: Any
    ) -> asyncio.Task[dict[Task, Any]]:
        """Call `int` on all tasks; return when that is on its way."""
        payloads = dict.fromkeys(self.tasks, pack(int, args, {}))
        work = self.calls.perform(payloads, deadline_s, "add", **more)
        result = asyncio.ensure_future(work)
        await turn()
        return result


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@in_a_loop
async def test_results_come_in_the_order_of_the_tasks_not_of_the_answers() -> None:
    engines = Engines(A, B)
    work = await engines.begin("7")
    engines.answer(B)
    engines.answer(A)

    assert [*(await work).items()] == [(A, 7), (B, 7)]


@in_a_loop
async def test_a_call_fails_when_its_task_is_lost_and_none_is_sent_to_a_lost_task() -> (
    None
):
    engines = Engines(A, B)
    work = await engines.begin()
    engines.calls.lose(B, PeerLost("worker:1 is gone"))

    with pytest.raises(PeerLost, match="worker:1 is gone") as caught:
        await work
    assert caught.value.task == str(B)
    engines.futures.clear()
    with pytest.raises(PeerLost):
        await engines.calls.perform({B: b""}, 5, "answer")
    assert engines.futures == {}


@in_a_loop
async def test_silence_ends_at_the_deadline_and_names_who_was_silent() -> None:
    engines = Engines(A, B)
    work = await engines.begin(deadline_s=0.2)
    engines.answer(A)

    with pytest.raises(DeadlineExceededError, match=r"^worker:1 did not add within"):
        await work
    engines.answer(B)  # it disturbs nobody
    await turn()


@in_a_loop
async def test_an_error_on_the_way_is_explained_by_a_loss_if_there_is_one() -> None:
    ended = RemoteError("EngineError", "Engine 0 died while running task", "")
    for error, reason, expected, words in [
        (OSError("engine 0 died"), "killed by signal 9", PeerLost, "signal 9"),
        (OSError("engine 0 died"), "", UnknownError, "died"),
        (ended, "", PeerLost, r"worker:0 has ended.*cluster\.restart"),
    ]:
        engines = Engines(A, news_s=0.02)
        work = await engines.begin()
        engines.futures[A].set_exception(error)
        if reason:
            await turn()
            engines.calls.lose(A, PeerLost(reason))

        with pytest.raises(expected, match=words) as caught:
            await work
        assert caught.value.task == str(A)


@in_a_loop
async def test_the_first_failure_does_not_wait_for_the_others() -> None:
    engines = Engines(A, B)
    work = await engines.begin("x")
    engines.answer(B)

    with pytest.raises(UnknownError, match="invalid literal"):
        await asyncio.wait_for(work, 5)


@in_a_loop
async def test_no_calls_have_no_results() -> None:
    assert await Engines(A, B).calls.perform({}, 5, "answer") == {}


@in_a_loop
async def test_what_a_stopped_call_has_printed_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engines = Engines(A)
    answer = cloudpickle.dumps({"value": 1, "printed": [[OUT, "half of it"]]})
    work = await engines.begin(give_up=lambda _: engines.futures[A].set_result(answer))

    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    assert "worker:0 │ half of it" in capsys.readouterr().out
