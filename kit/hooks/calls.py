"""One run with its hooks: what they ask for is merged with what the caller asked for.

Pure: the caller makes the run itself.

    asked = before(hooks, context)            each hook's before_run, in order
    ... one run of context's fetches and asked.fetches, with asked.feeds ...
    after(hooks, context, results, ...)       each hook's after_run, in the same order
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.hooks.hook import SessionRunContext, SessionRunHook, SessionRunValues


@dataclass(frozen=True)
class HookedRun:
    """What is to be run, hooks included.

    `fetches` are those of the hooks, by the hook; `feeds` are everybody's; `options`
    those that hooks gave, in their order.
    """

    fetches: dict[SessionRunHook, Any]
    feeds: dict[Any, Any]
    options: list[Any]


def before(hooks: Sequence[SessionRunHook], context: SessionRunContext) -> HookedRun:
    """Ask each hook what should run along.

    Raises `RuntimeError` when two feed the same tensor, or a hook and the caller.
    """
    asked = HookedRun({}, {}, [])
    for hook in hooks:
        request = hook.before_run(context)
        if request is None:
            continue
        if request.fetches is not None:
            asked.fetches[hook] = request.fetches
        if request.feed_dict:
            _refuse_common(asked.feeds, request.feed_dict, "by two hooks")
            asked.feeds.update(request.feed_dict)
        if request.options is not None:
            asked.options.append(request.options)
    own = context.original_args.feed_dict
    if own:
        _refuse_common(asked.feeds, own, "by a SessionRunHook and user")
        asked.feeds.update(own)
    return asked


def after(
    hooks: Sequence[SessionRunHook],
    context: SessionRunContext,
    results: Mapping[SessionRunHook, Any],
    options: Any = None,
    run_metadata: Any = None,
) -> None:
    """Give each hook the values of its fetches, None if it had none."""
    for hook in hooks:
        values = SessionRunValues(results.get(hook), options, run_metadata)
        hook.after_run(context, values)


def _refuse_common(first: Iterable[Any], other: Iterable[Any], by: str) -> None:
    common = {_mark(key) for key in first} & {_mark(key) for key in other}
    if common:
        twice = [key for key in other if _mark(key) in common]
        names = sorted(str(getattr(key, "name", key)) for key in twice)
        raise RuntimeError(
            f"Same tensor is fed {by}: {', '.join(names)}. Let one of them feed it."
        )


def _mark(key: Any) -> Any:
    # Tensors may compare element by element: what counts is which one it is.
    return key if isinstance(key, str | bytes) else id(key)
