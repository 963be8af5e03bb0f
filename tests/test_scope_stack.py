"""The stack of device scopes: in order, after errors, in threads and in tasks."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.scope import ScopeStack, resolve


class Op:
    device = ""


def names(stack: ScopeStack) -> list[object]:
    return [entry.scope for entry in stack.entries()]


SCOPES = st.lists(st.sampled_from(["/job:ps", "/task:1", "/device:GPU:0"]), max_size=6)


class Broken(Exception):
    pass


@given(SCOPES, st.data())
def test_scopes_are_restored_after_an_exception_at_any_depth(
    scopes: list[str], data: st.DataObject
) -> None:
    stack = ScopeStack()
    caught_at = data.draw(st.integers(0, len(scopes)))

    def nest(depth: int) -> None:
        expected = scopes[:depth]
        if depth == len(scopes):
            raise Broken
        try:
            with stack.push(scopes[depth]):
                nest(depth + 1)
        except Broken:
            assert names(stack) == expected
            if depth != caught_at:
                raise
        assert names(stack) == expected

    try:
        nest(0)
    except Broken:
        assert caught_at == len(scopes)

    assert stack.entries() == ()


def test_replaced_scopes_hold_instead_of_the_open_ones_of_this_stack_alone() -> None:
    stack, other = ScopeStack(), ScopeStack()

    with stack.push("/job:ps"), other.push("/job:worker"):
        with stack.replaced(()), stack.push("/cpu:0"):
            inside = names(stack)
        after = names(stack)
        assert names(other) == ["/job:worker"]

    assert (inside, after, names(stack)) == (["/device:CPU:0"], ["/job:ps"], [])


def test_scopes_left_out_of_order_are_a_runtime_error_and_end_both() -> None:
    stack = ScopeStack()
    outer, inner = stack.push("/job:a"), stack.push("/job:a")
    with stack.push("/job:kept"):
        outer.__enter__()
        inner.__enter__()

        with pytest.raises(RuntimeError, match="reverse order"):
            outer.__exit__(None, None, None)
        between = names(stack)
        with pytest.raises(RuntimeError, match="reverse order"):
            inner.__exit__(None, None, None)

        assert between == names(stack) == ["/job:kept"]


def test_many_threads_at_once_begin_without_scopes_and_see_their_own() -> None:
    stack = ScopeStack()
    n = 4
    barrier = threading.Barrier(n, timeout=10)

    def work(task: int) -> list[str]:
        assert names(stack) == []
        devices = []
        for step in range(20):
            with stack.push(f"/job:worker/task:{task}"), stack.push(f"/gpu:{step}"):
                barrier.wait()
                devices.append(resolve(Op(), stack.entries()))
        return devices

    with ThreadPoolExecutor(n) as pool, stack.push("/job:here"):
        results = list(pool.map(work, range(n)))
        assert names(stack) == ["/job:here"]

    assert results == [
        [f"/job:worker/task:{task}/device:GPU:{step}" for step in range(20)]
        for task in range(n)
    ]


def test_interleaved_tasks_inherit_scopes_and_do_not_disturb_each_other() -> None:
    asyncio.run(interleave(ScopeStack()))


async def interleave(stack: ScopeStack) -> None:
    barrier = asyncio.Barrier(3)

    async def work(task: int) -> list[str]:
        devices = []
        for step in range(5):
            with stack.push(f"/task:{task}"), stack.push(f"/gpu:{step}"):
                await barrier.wait()
                devices.append(resolve(Op(), stack.entries()))
            await barrier.wait()
        assert names(stack) == ["/job:ps"]  # its maker has left this scope
        return devices

    with stack.push("/job:ps"):
        tasks = [asyncio.create_task(work(task)) for task in range(3)]
        await asyncio.sleep(0)
    with stack.push("/job:elsewhere"):
        results = await asyncio.gather(*tasks)

        assert names(stack) == ["/job:elsewhere"]
    assert results == [
        [f"/job:ps/task:{task}/device:GPU:{step}" for step in range(5)]
        for task in range(3)
    ]


def test_an_inherited_scope_cannot_be_left_elsewhere() -> None:
    stack = ScopeStack()
    scope = stack.push("/job:ps")
    scope.__enter__()
    child = contextvars.copy_context()

    with pytest.raises(RuntimeError, match="thread or task"):
        child.run(scope.__exit__, None, None, None)

    assert names(stack) == child.run(names, stack) == ["/job:ps"]


def test_a_stack_is_forgotten_with_the_graph_that_held_it() -> None:
    before = {*contextvars.copy_context()}
    stack = ScopeStack()
    with stack.push("/job:ps"), stack.push("/cpu:0"):
        pass
    gone = weakref.ref(stack)

    del stack
    gc.collect()

    assert {*contextvars.copy_context()} == before
    assert gone() is None


def test_a_scope_that_is_thrown_away_while_open_complains_to_nobody() -> None:
    stack = ScopeStack()
    outer, inner = stack.push("/job:a"), stack.push("/job:b")
    outer.__enter__()
    inner.__enter__()

    with pytest.raises(RuntimeError, match="reverse order"):
        outer.__exit__(None, None, None)
    del inner  # a complaint here would be an unraisable error, which fails the test

    assert stack.entries() == ()
