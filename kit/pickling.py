"""Pickles of functions and data that go to other processes, and what cannot go.

Pure. An object that belongs to a process, such as a lock, is named with the way to it.
"""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

import cloudpickle

from kit.errors import InvalidArgumentError

_DEEPEST = 5
_CACHE = type(functools.lru_cache(len))


# Returns what `__reduce__` of an object should, or NotImplemented to leave it to that.
Reducer = Callable[[Any], Any]


def dumps(
    value: Any,
    what: str,
    buffer_callback: Callable[[Any], Any] | None = None,
    reduced: Reducer | None = None,
) -> bytes:
    """Return `value` as bytes; `what` names it in the message.

    `reduced` is asked first what takes the place of an object. Raises
    `InvalidArgumentError`, naming the object that cannot travel.
    """
    try:
        return _dumps(value, buffer_callback, reduced)
    except InvalidArgumentError:  # it names the object already
        raise
    except Exception as error:  # pickling raises whatever the object's class does
        path, part = _culprit(value) or ((), value)
        kind = f"{type(part).__module__}.{type(part).__qualname__}"
        where = f"{path[-1]!r}, a {kind.removeprefix('builtins.')}," if path else kind
        way = f" (reached by {' -> '.join(path)})" if len(path) > 1 else ""
        raise InvalidArgumentError(
            f"{what} cannot travel to the tasks: {where} belongs to this process{way}. "
            f"{_instead(part)} ({error})"
        ) from error


def _dumps(
    value: Any,
    buffer_callback: Callable[[Any], Any] | None,
    reduced: Reducer | None = None,
) -> bytes:
    with io.BytesIO() as file:
        pickler = _Pickler(file, protocol=5, buffer_callback=buffer_callback)
        pickler.reduced = reduced
        pickler.dump(value)
        return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it is untyped
    reduced: Reducer | None = None

    def reducer_override(self, obj: Any) -> Any:
        if self.reduced is not None:
            instead = self.reduced(obj)
            if instead is not NotImplemented:
                return instead
        # It would be pickled by name, and the tasks have another `__main__`.
        if isinstance(obj, _CACHE) and obj.__module__ == "__main__":
            raise TypeError("a cache of functools is found by its name alone")
        return super().reducer_override(obj)


def _instead(part: Any) -> str:
    if inspect.isgenerator(part):
        return "Give a function that returns it, and call it on the task."
    if isinstance(part, _CACHE):
        return (
            "Leave out functools.lru_cache, or put the function into a module that the "
            "tasks import."
        )
    return "Make it inside of the function, on the task, or leave it out."


def _culprit(value: Any) -> tuple[tuple[str, ...], Any] | None:
    """Return the way to the part that cannot be pickled, and the part."""
    path: list[str] = []
    for _ in range(_DEEPEST):
        parts = _parts(value, is_first=not path)
        for name, part in parts:
            if not _is_picklable(part):
                path, value = [*path, name], part
                break
        else:
            break
    return (tuple(path), value) if path else None


def _is_picklable(part: Any) -> bool:
    try:
        _dumps(part, lambda buffer: None)
    except Exception:  # as above
        return False
    return True


def _parts(value: Any, *, is_first: bool) -> Iterator[tuple[str, Any]]:
    """Yield what a value refers to, by the names that its author knows."""
    if isinstance(value, MethodType):
        yield "self", value.__self__
    elif isinstance(value, FunctionType):
        seen = inspect.getclosurevars(value)
        yield from {**seen.globals, **seen.nonlocals}.items()
    elif isinstance(value, functools.partial):
        yield getattr(value.func, "__name__", "func"), value.func
        yield from (
            (f"argument {n}", argument) for n, argument in enumerate(value.args)
        )
        yield from value.keywords.items()
    elif isinstance(value, Mapping):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield getattr(part, "__name__", f"[{number}]"), part
    elif is_first or type(value).__module__ == "__main__":
        yield from getattr(value, "__dict__", {}).items()
