from __future__ import annotations

import asyncio
from concurrent.futures import Future

import cloudpickle
import pytest
from ipyparallel import RemoteError

from kit.cluster.cells.calls import TaskCalls
from kit.cluster.cells.remote import Perform, pack
from kit.errors import DeadlineExceededError, PeerLost, UnknownError
from kit.task import Task
from kit.training.core.printed import OUT

A, B = Task("worker", 0), Task("worker", 1)


class Engines:
    """Engines that answer when told; each call waits in `futures`."""

    def __init__(self) -> None:
        self.futures: dict[Task, Future[bytes]] = {}

    def submit(self, task: Task, payload: bytes) -> Future[bytes]:
        self.payload = payload
        return self.futures.setdefault(task, Future())

    def answer(self, task: Task) -> None:
        self.submit(task, self.payload).set_result(Perform()(self.payload))


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_results_come_in_the_order_of_the_tasks_not_of_the_answers() -> None:
    async def scene() -> list[Task]:
        engines = Engines()
        calls = TaskCalls([A, B], engines.submit)
        payloads = dict.fromkeys([A, B], pack(int, ["7"], {}))
        work = asyncio.ensure_future(calls.perform(payloads, 5, "answer"))
        await turn()
        engines.answer(B)
        engines.answer(A)
        return list(await work)

    assert asyncio.run(scene()) == [A, B]


def test_a_call_under_way_fails_when_its_task_is_lost() -> None:
    async def scene() -> None:
        calls = TaskCalls([A, B], Engines().submit)
        payloads = dict.fromkeys([A, B], pack(int, [], {}))
        work = asyncio.ensure_future(calls.perform(payloads, 5, "answer"))
        await turn()
        calls.lose(B, PeerLost("worker:1 is gone"))
        await work

    with pytest.raises(PeerLost, match="worker:1 is gone") as caught:
        asyncio.run(scene())
    assert caught.value.task == str(B)


def test_a_call_to_a_lost_task_fails_without_being_sent() -> None:
    engines = Engines()

    async def scene() -> None:
        calls = TaskCalls([A], engines.submit)
        calls.lose(A, PeerLost("gone"))
        await calls.perform({A: b""}, 5, "answer")

    with pytest.raises(PeerLost):
        asyncio.run(scene())
    assert engines.futures == {}


def test_silence_ends_at_the_deadline_and_names_who_was_silent() -> None:
    async def scene() -> None:
        engines = Engines()
        calls = TaskCalls([A, B], engines.submit)
        payloads = dict.fromkeys([A, B], pack(int, [], {}))
        work = asyncio.ensure_future(calls.perform(payloads, 0.5, "add"))
        await turn()
        engines.answer(A)
        await work

    with pytest.raises(DeadlineExceededError, match=r"^worker:1 did not add within"):
        asyncio.run(scene())


def test_an_answer_after_the_deadline_disturbs_nobody() -> None:
    async def scene() -> None:
        engines = Engines()
        calls = TaskCalls([A], engines.submit)
        with pytest.raises(DeadlineExceededError):
            await calls.perform({A: pack(int, [], {})}, 0.001, "add")
        engines.answer(A)
        await turn()

    asyncio.run(scene())


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_error_on_the_way_is_explained_by_a_loss_if_there_is_one(
    is_lost: bool,
) -> None:
    async def scene() -> None:
        engines = Engines()
        calls = TaskCalls([A], engines.submit, news_s=0.02)
        work = asyncio.ensure_future(calls.perform({A: b""}, 5, "answer"))
        await turn()
        engines.futures[A].set_exception(OSError("engine 0 died"))
        if is_lost:
            await turn()
            calls.lose(A, PeerLost("killed by signal 9"))
        await work

    expected, text = (PeerLost, "signal 9") if is_lost else (UnknownError, "died")
    with pytest.raises(expected, match=text):
        asyncio.run(scene())


def test_an_engine_whose_end_only_ipyparallel_tells_is_lost() -> None:
    async def scene() -> None:
        engines = Engines()
        calls = TaskCalls([A], engines.submit, news_s=0.001)
        work = asyncio.ensure_future(calls.perform({A: b""}, 5, "answer"))
        await turn()
        engines.futures[A].set_exception(
            RemoteError("EngineError", "Engine 0 died while running task", "")
        )
        await work

    with pytest.raises(
        PeerLost, match=r"worker:0 has ended.*cluster\.restart"
    ) as result:
        asyncio.run(scene())
    assert result.value.task == str(A)


def test_the_first_failure_does_not_wait_for_the_others() -> None:
    async def scene() -> None:
        engines = Engines()
        calls = TaskCalls([A, B], engines.submit)
        payloads = dict.fromkeys([A, B], pack(int, ["x"], {}))
        work = asyncio.ensure_future(calls.perform(payloads, 60, "answer"))
        await turn()
        engines.answer(B)
        await asyncio.wait_for(work, 5)

    with pytest.raises(UnknownError, match="invalid literal"):
        asyncio.run(scene())


def test_no_calls_have_no_results() -> None:
    calls = TaskCalls([A, B], Engines().submit)

    assert asyncio.run(calls.perform({}, 5, "answer")) == {}


def test_what_a_stopped_call_has_printed_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def scene() -> None:
        engines = Engines()
        calls = TaskCalls([A], engines.submit)
        answer = cloudpickle.dumps({"value": 1, "printed": [[OUT, "half of it"]]})

        def interrupt(tasks: list[Task]) -> None:
            engines.futures[A].set_result(answer)

        work = asyncio.ensure_future(calls.perform({A: b""}, 60, "answer", interrupt))
        await turn()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(scene())

    assert "worker:0 │ half of it" in capsys.readouterr().out
