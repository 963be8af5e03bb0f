"""Feeds each run with what a function returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.hooks.hook import SessionRunArgs, SessionRunContext, SessionRunHook


class FeedFnHook(SessionRunHook):
    """Calls `feed_fn()` before each run; it returns a dict of values for tensors."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Feed what the function returns."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
