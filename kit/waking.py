"""Await what another thread brings, in a notebook that can be stopped meanwhile."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

T = TypeVar("T")

_WAKE_S: Final = 0.25


async def waking(future: asyncio.Future[T]) -> T:
    """Return the result of a future, in a loop that wakes up a few times a second.

    A kernel takes its stop button up when its loop wakes, and does not wake it
    (ipykernel 7.4 calls tornado's `add_callback` in a signal handler). The future is
    cancelled with the wait.
    """
    try:
        while not future.done():
            await asyncio.wait([future], timeout=_WAKE_S)
        return future.result()
    finally:
        future.cancel()
