"""Arguments that several functions have in common, written once as a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def with_options(options: type[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Let a function take the fields of a dataclass after its own arguments.

    The function gets them as one object, named `options`. Its arguments that go by
    keyword only stay behind them. Wrong arguments raise `TypeError` as ever.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Window:
    ...     stride: int = 1
    ...     padding: str = "SAME"
    >>> @with_options(Window)
    ... def pool(images, options):
    ...     return images, options.stride, options.padding
    >>> pool(5, 2), inspect.signature(pool).parameters["padding"].default
    ((5, 2, 'SAME'), 'SAME')
    """
    shared = list(inspect.signature(options).parameters.values())

    def decorate(function: Callable[..., Any]) -> Any:
        own = inspect.signature(function)
        first: list[inspect.Parameter] = []
        last: list[inspect.Parameter] = []
        for parameter in own.parameters.values():
            if parameter.name != "options":
                (first if parameter.kind is _POSITIONAL else last).append(parameter)
        signature = own.replace(parameters=[*first, *shared, *last])

        @functools.wraps(function)
        def taking_options(*args: Any, **kwargs: Any) -> Any:
            values = arguments_of(function.__name__, signature, args, kwargs)
            fields = [param.name for param in shared if param.name in values]
            made = options(**{name: values.pop(name) for name in fields})
            return function(**values, options=made)

        taking_options.__signature__ = signature  # type: ignore[attr-defined]
        return taking_options

    return decorate


def arguments_of(
    name: str, signature: inspect.Signature, args: Any, kwargs: Any
) -> dict[str, Any]:
    """Return the arguments of a call by their names; `TypeError` names the function."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as exc:
        raise TypeError(f"{name}() {exc}") from None
    values = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            values |= values.pop(parameter.name, {})
    return values
