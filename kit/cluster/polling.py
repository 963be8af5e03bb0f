"""Work that polls: it checks, acts, and pauses; driven with or without an event loop.

A polling is a generator. It checks what it waits for, acts, and yields the seconds
until its next check. The driver sleeps in between, so one piece of code serves scripts,
which block, and notebooks, which await. Both drivers report Ctrl-C (or a notebook's
stop button) by raising `KeyboardInterrupt` where the polling yields, so that it can end
what it began.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Polling: TypeAlias = Generator[float, None, T]


def drive(polling: Polling[T]) -> T:
    """Drive a polling to its end and return its value; blocks this thread."""
    try:
        pause_s = next(polling)
        while True:
            try:
                time.sleep(pause_s)
            except KeyboardInterrupt as stop:
                # Not raised from here: the polling may go on, to clean up.
                pause_s = polling.throw(stop)
            else:
                pause_s = next(polling)
    except StopIteration as end:
        value: T = end.value
        return value


async def drive_async(polling: Polling[T]) -> T:
    """Drive a polling as `drive` does, without blocking the running loop.

    Being cancelled counts as Ctrl-C: a notebook's stop button cancels a cell that
    awaits.
    """
    try:
        pause_s = next(polling)
        while True:
            try:
                await asyncio.sleep(pause_s)
            except asyncio.CancelledError:
                pause_s = polling.throw(KeyboardInterrupt())
            else:
                pause_s = next(polling)
    except StopIteration as end:
        value: T = end.value
        return value


async def awaited(polling: Polling[T]) -> T:
    """Drive a polling for a task that may be cancelled, which it then is."""
    try:
        return await drive_async(polling)
    except KeyboardInterrupt as stop:
        # Who cancelled the task expects this error from it.
        raise asyncio.CancelledError(str(stop)) from stop
