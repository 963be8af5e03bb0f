from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kit.cluster.loop import LoopThread, to_the_end
from kit.errors import CancelledError, FailedPreconditionError


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


class Gated:
    """A clean-up that lasts until it is let through."""

    def __init__(self) -> None:
        self.has_begun, self.gate = threading.Event(), threading.Event()
        self.is_over = False

    async def clean_up(self) -> None:
        self.has_begun.set()
        while not self.gate.is_set():
            await asyncio.sleep(0.001)
        self.is_over = True


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


@pytest.mark.parametrize("is_begun_before", [True, False])
def test_a_clean_up_is_awaited_to_its_end_however_often_it_is_given_up(
    loop: LoopThread, is_begun_before: bool
) -> None:
    gated = Gated()

    async def begin() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await gated.clean_up()

    work = loop.submit(to_the_end(gated.clean_up()) if is_begun_before else begin())
    if not is_begun_before:
        work.give_up()
    assert gated.has_begun.wait(5)
    work.give_up()
    gated.gate.set()

    assert isinstance(work.exception(5), asyncio.CancelledError)
    assert gated.is_over


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


@pytest.mark.parametrize("must_finish", [True, False])
def test_work_under_way_ends_with_its_loop_and_says_so(
    loop: LoopThread, must_finish: bool
) -> None:
    cleaner = Cleaner()
    work = loop.submit(cleaner.work(), must_finish=must_finish)
    assert cleaner.has_begun.wait(5)

    loop.close()

    with pytest.raises(CancelledError, match="the cluster was stopped before"):
        work.result(5)
    assert cleaner.is_clean


def test_work_may_close_its_loop_as_its_last_act(loop: LoopThread) -> None:
    async def close() -> str:
        loop.close()
        return "closed"

    assert loop.submit(close()).result(5) == "closed"


def test_a_closed_loop_refuses_work(loop: LoopThread) -> None:
    loop.close()

    with pytest.raises(FailedPreconditionError, match="start a new one"):
        loop.submit(name())


def test_work_can_be_given_up_after_its_loop_has_ended(loop: LoopThread) -> None:
    work = loop.submit(name())
    loop.close()

    work.give_up()

    assert work.result(5) == "kit-test-loop"
