"""What hooks ask for is merged with what the caller asks for."""

from __future__ import annotations

from typing import Any

import pytest

from kit.hooks import SessionRunArgs, SessionRunContext, SessionRunHook
from kit.hooks.hook import SessionRunValues, after, before


class Wishing(SessionRunHook):
    """Asks for the same in each run, and keeps what it is told."""

    def __init__(self, request: SessionRunArgs | None) -> None:
        self.request = request
        self.results: list[Any] = []

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        return self.request

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        self.results.append(run_values.results)


def context(**feeds: int) -> SessionRunContext:
    return SessionRunContext(SessionRunArgs("loss", feeds or None), None)


def test_each_hook_is_told_of_its_own_fetches_alone() -> None:
    hooks = [Wishing(SessionRunArgs("a")), Wishing(None), Wishing(SessionRunArgs("b"))]

    asked = before(hooks, context())
    after(hooks, context(), {hook: str(asked.fetches[hook]) * 2 for hook in hooks[::2]})

    assert [hook.results for hook in hooks] == [["aa"], [None], ["bb"]]


def test_feeds_of_all_are_fed_together() -> None:
    hooks = [
        Wishing(SessionRunArgs(None, {"x": 1})),
        Wishing(SessionRunArgs(None, {"y": 2})),
    ]

    asked = before(hooks, context(z=3))

    assert asked.feeds == {"x": 1, "y": 2, "z": 3}
    assert asked.fetches == {}


def test_what_is_fed_twice_is_refused_by_name() -> None:
    hooks = [Wishing(SessionRunArgs(None, {"x": 1})) for _ in range(2)]

    with pytest.raises(RuntimeError, match="fed by two hooks: x"):
        before(hooks, context())
    with pytest.raises(RuntimeError, match="SessionRunHook and user: x"):
        before(hooks[:1], context(x=2))


def test_options_come_in_the_order_of_the_hooks() -> None:
    hooks = [Wishing(SessionRunArgs(None, None, item)) for item in ("first", "second")]

    assert before(hooks, context()).options == ["first", "second"]
