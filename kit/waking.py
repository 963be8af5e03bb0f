"""Await another thread's result so that a notebook's stop button works meanwhile."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

T = TypeVar("T")

_WAKE_S: Final = 0.25


async def waking(future: asyncio.Future[T]) -> T:
    """Await a future while the loop wakes up a few times a second; return its result.

    A kernel handles its stop button when its loop wakes up, but does not wake it
    (ipykernel 7.4 calls tornado's `add_callback` in a signal handler). Cancelling the
    wait cancels the future.
    """
    try:
        while not future.done():
            await asyncio.wait([future], timeout=_WAKE_S)
        return future.result()
    finally:
        future.cancel()
