"""Defaults of functions within a block: `with arg_scope([conv2d], padding="SAME")`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Defaults = dict[Any, dict[str, Any]]

_current: ContextVar[Defaults] = ContextVar("arg_scope")


def add_arg_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function so that `arg_scope` can give it defaults."""

    @functools.wraps(function)
    def with_defaults(*args: Any, **kwargs: Any) -> Any:
        defaults = _current.get({}).get(with_defaults, {})
        return function(*args, **{**defaults, **kwargs})

    with_defaults._takes_defaults = True  # type: ignore[attr-defined]
    return with_defaults


@contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Defaults]:
    """Give functions these defaults within the block, beside those of outer blocks.

    Takes a list of functions, or what another `arg_scope` has yielded. Raises
    `TypeError` for anything else, `ValueError` for a function that was not made by
    `add_arg_scope`, and for defaults beside such a scope.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs "
                "must be empty."
            )
        merged = {key: dict(defaults) for key, defaults in list_ops_or_scope.items()}
    elif isinstance(list_ops_or_scope, list | tuple):
        merged = dict(_current.get({}))
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                raise ValueError(
                    f"{function!r} is not decorated with @add_arg_scope; decorate it, "
                    f"or leave it out."
                )
            merged[function] = {**merged.get(function, {}), **kwargs}
    else:
        raise TypeError(
            f"list_ops_or_scope must either be a list/tuple or reused scope (i.e. "
            f"dict), not {list_ops_or_scope!r}."
        )
    token = _current.set(merged)
    try:
        yield merged
    finally:
        _current.reset(token)


def has_arg_scope(function: Any) -> bool:
    """Return whether a function was made by `add_arg_scope`."""
    return getattr(function, "_takes_defaults", False) is True
