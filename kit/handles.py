"""Objects that users hold: setting an attribute that they do not have is refused.

`run.topolgy = "ring"` would otherwise make a new attribute and do nothing.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

from kit.errors import InvalidArgumentError

_OURS = ("kit", "widgets")


class UnknownAttribute(InvalidArgumentError, AttributeError):
    """An attribute was set that the object does not have, or that is a method.

    Setting it would do nothing. The caller writes the name that the message gives.
    """


Class = TypeVar("Class", bound=type[Any])


def handle(cls: Class) -> Class:
    """Refuse to set public attributes that a class neither has nor declares.

    Decorates a class whose public attributes are properties or annotated in its body. A
    subclass of the user's may have attributes of its own.
    """
    assign: Any = cls.__setattr__

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if not name.startswith("_") and _is_ours(type(self)):
            _check(type(self), name)
        assign(self, name, value)

    changed: Any = cls
    changed.__setattr__ = __setattr__
    return cls


def _is_ours(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] in _OURS


def _check(cls: Any, name: str) -> None:
    names = _settable(cls)
    if name in names:
        return
    if callable(getattr(cls, name, None)):
        raise UnknownAttribute(
            f"{cls.__name__}.{name} is a method, and setting it would do nothing; call "
            f".{name}(...) instead."
        )
    near = get_close_matches(name.lower(), names, n=1)
    instead = f"write .{near[0]} = ..." if near else f"it has {', '.join(names)}"
    raise UnknownAttribute(
        f"{cls.__name__} has no attribute {name!r}, and setting it would do nothing; "
        f"{instead}."
    )


@cache
def _settable(cls: type[Any]) -> list[str]:
    """Return the public attributes that are no methods; the class says which can be."""
    declared = {name for one in cls.__mro__ for name in inspect.get_annotations(one)}
    present = {name for name in dir(cls) if not callable(getattr(cls, name, None))}
    return sorted(name for name in declared | present if not name.startswith("_"))
