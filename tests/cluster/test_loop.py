from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kit.cluster.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("kit-test-loop")
    yield thread
    thread.close()


async def name() -> str:
    return threading.current_thread().name


class Cleaner:
    """Waits until it is cancelled, and then needs two more turns of the loop."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_clean = False

    async def work(self) -> None:
        try:
            self.has_begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.is_clean = True


def test_work_runs_in_the_thread_of_the_loop(loop: LoopThread) -> None:
    assert loop.submit(name()).result() == "kit-test-loop"


def test_blocking_works_inside_a_running_loop(loop: LoopThread) -> None:
    async def cell() -> str:
        return loop.submit(name()).result()

    assert asyncio.run(cell()) == "kit-test-loop"


def test_awaiting_does_not_block_the_callers_loop(loop: LoopThread) -> None:
    async def both() -> str:
        gate = asyncio.Event()
        here = asyncio.get_running_loop()

        async def over_there() -> str:
            here.call_soon_threadsafe(gate.set)
            return "done"

        work = asyncio.ensure_future(loop.submit(over_there()).awaited())
        await asyncio.wait_for(gate.wait(), 5)
        return await work

    assert asyncio.run(both()) == "done"


def test_given_up_work_is_done_only_after_its_clean_up(loop: LoopThread) -> None:
    cleaner = Cleaner()
    work = loop.submit(cleaner.work())
    assert cleaner.has_begun.wait(5)

    work.give_up()

    assert isinstance(work.exception(5), asyncio.CancelledError)
    assert cleaner.is_clean


def test_a_cancelled_await_waits_for_the_clean_up(loop: LoopThread) -> None:
    cleaner = Cleaner()

    async def cell() -> None:
        waiting = asyncio.ensure_future(loop.submit(cleaner.work()).awaited())
        await asyncio.to_thread(cleaner.has_begun.wait, 5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cell())

    assert cleaner.is_clean


def test_work_that_must_finish_goes_on_when_it_is_given_up(loop: LoopThread) -> None:
    gate = threading.Event()

    async def stop() -> str:
        while not gate.is_set():
            await asyncio.sleep(0.001)
        return "stopped"

    work = loop.submit(stop(), must_finish=True)
    work.give_up()
    gate.set()

    assert work.result(5) == "stopped"


def test_closing_twice_is_fine_and_ends_the_thread(loop: LoopThread) -> None:
    loop.close()
    loop.close()

    assert "kit-test-loop" not in {t.name for t in threading.enumerate()}
