"""Pickles of functions and data that go to other processes, and what cannot go.

Pure. An object that belongs to a process, such as a lock, is named with the way to it.
What code changes of the process that it comes from can be asked for: of that its copy
changes another one.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

import cloudpickle

from kit.errors import InvalidArgumentError

_DEEPEST = 5
_OURS: Final = __name__.partition(".")[0]
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
        for name, part in parts(value, is_first=not path):
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


def parts(value: Any, *, is_first: bool) -> Iterator[tuple[str, Any]]:
    """Yield what a value refers to, by the names that its author knows.

    What an object holds only if it is the first, or its class is of `__main__`.
    """
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


# --------------------------------------------------------------------------------------
# What code changes of what it refers to: in a task that is a copy.


_CHANGING: Final = (
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop"),
    *("popitem", "remove", "reverse", "setdefault", "sort", "update"),
)


def changed_by(value: Any) -> dict[str, Any]:
    """Return the globals, and variables of outer functions, that code changes.

    As far as the source says so: `seen.append(x)`, `counts[k] += 1`, `best.loss = x`,
    and names that are declared global or nonlocal. `value` is a function, or an object
    with functions and methods, whose own attributes do not count. Of what they call,
    functions of the same module are looked at too. What is installed is left out.
    """
    changed, seen = dict[str, Any](), set[FunctionType]()
    waiting = list(_functions(value))
    while waiting:
        function = waiting.pop(0)
        if function in seen or _is_installed(function):
            continue
        seen.add(function)
        names, values = _changed_names(function), _referred(function)
        changed |= {k: item for k, item in values.items() if k in names}
        waiting += [
            item
            for item in values.values()
            if isinstance(item, FunctionType) and item.__module__ == function.__module__
        ]
    return {name: item for name, item in changed.items() if item is not value}


def _is_installed(function: FunctionType) -> bool:
    top = str(function.__module__).partition(".")[0]
    is_known = top == _OURS or top in sys.stdlib_module_names
    return is_known or "site-packages" in function.__code__.co_filename


def _functions(value: Any) -> Iterator[FunctionType]:
    value = value.func if isinstance(value, functools.partial) else value
    if isinstance(value, FunctionType):
        yield value
        return
    if isinstance(value, MethodType):
        value = value.__self__
    parts = [*getattr(value, "__dict__", {}).values()]
    parts += [part for kind in type(value).__mro__ for part in vars(kind).values()]
    yield from (part for part in parts if isinstance(part, FunctionType))


def _referred(function: FunctionType) -> dict[str, Any]:
    codes, names = [function.__code__], set[str]()
    for code in codes:
        names |= {*code.co_names}
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    values = {k: v for k, v in function.__globals__.items() if k in names}
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        with suppress(ValueError):  # it is empty
            values[name] = cell.cell_contents
    return values


def _changed_names(function: FunctionType) -> set[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return set()
    names = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Global() | ast.Nonlocal():
                names.update(node.names)
            case ast.Call(func=ast.Attribute(attr=method, value=owner)):
                names.update(_root(owner) if method in _CHANGING else ())
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                names.update(_root(node))
    return names


def _root(node: ast.AST) -> list[str]:
    """Return the name that an expression such as `a.b[c]` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return [node.id] if isinstance(node, ast.Name) else []
