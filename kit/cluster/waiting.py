"""Work that is done in looks, with pauses between: driven with or without a loop.

A plan is a generator: it looks, acts, and yields how many seconds it can be left alone.
Both drivers tell it of Ctrl-C (or a notebook's stop button) by raising
`KeyboardInterrupt` where it yields, so it can end what it began.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Plan: TypeAlias = Generator[float, None, T]


def follow(plan: Plan[T]) -> T:
    """Drive the plan to its end and return its value; blocks this thread."""
    try:
        pause_s = next(plan)
        while True:
            try:
                time.sleep(pause_s)
            except KeyboardInterrupt as stop:
                pause_s = plan.throw(stop)
            else:
                pause_s = next(plan)
    except StopIteration as end:
        value: T = end.value
        return value


async def follow_async(plan: Plan[T]) -> T:
    """Drive the plan as `follow` does, without blocking the running loop.

    Being cancelled, which is what a notebook's stop button does to a cell that awaits,
    counts as Ctrl-C.
    """
    try:
        pause_s = next(plan)
        while True:
            try:
                await asyncio.sleep(pause_s)
            except asyncio.CancelledError:
                pause_s = plan.throw(KeyboardInterrupt())
            else:
                pause_s = next(plan)
    except StopIteration as end:
        value: T = end.value
        return value
