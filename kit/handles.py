"""Objects that users hold, and functions that they call, refuse names they do not have.

`run.topolgy = "ring"` would otherwise make a new attribute and do nothing; what Python
says of `kit.train(batch_size=64)` does not name `batch`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, fields
from difflib import get_close_matches
from functools import cache, wraps
from typing import Any, TypeVar, cast

from kit.errors import InvalidArgumentError

_OURS = ("kit", "widgets")


class UnknownAttribute(InvalidArgumentError, AttributeError):
    """An attribute was set that the object does not have, or that cannot be set.

    The caller writes what the message gives instead.
    """


class FrozenAttribute(UnknownAttribute, FrozenInstanceError):
    """An attribute of something that cannot be changed was set, such as a setting.

    Nothing has changed. The caller makes another object, as the message says.
    """


class UnknownArgument(InvalidArgumentError, TypeError):
    """A function was called with an argument that it does not have.

    Nothing has been done. The caller writes the name that the message gives.
    """


Class = TypeVar("Class", bound=type[Any])
Function = TypeVar("Function", bound=Callable[..., Any])
Called = TypeVar("Called", bound=Callable[..., Any] | type[Any])


def handle(cls: Class) -> Class:
    """Refuse to set public attributes that a class neither has nor declares.

    And arguments that its objects are not made with. Decorates a class whose public
    attributes are properties or annotated in its body. A subclass of the user's may
    have attributes of its own.
    """
    assign: Any = cls.__setattr__

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if not name.startswith("_") and _is_ours(type(self)):
            cls: Any = type(self)
            refusal = _refusal(cls, name)
            if refusal is not None:
                raise type(refusal)(refusal.message)
        assign(self, name, value)

    changed: Any = cls
    changed.__setattr__ = __setattr__
    if "__init__" in vars(cls):
        changed.__init__ = names_its_arguments(changed.__init__)
    return cls


def _is_ours(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] in _OURS


@cache
def _refusal(cls: Any, name: str) -> UnknownAttribute | None:
    """Return what to raise when this attribute is set; None if that has an effect."""
    made_by = getattr(cls, "__dataclass_params__", None)
    set_once = (
        [field.name for field in fields(cls)] if made_by and made_by.frozen else []
    )
    if near := _nearest(name, set_once):
        return FrozenAttribute(
            f"{cls.__name__} cannot be changed once it is made; make another: "
            f"kit.{cls.__name__}({near}=...)."
        )
    names = _public(cls)
    if name in names:
        return _read_only(cls, name, names) if _is_read_only(cls, name) else None
    nothing = (
        f"{cls.__name__} has no attribute {name!r}, and setting it would do nothing"
    )
    if callable(getattr(cls, name, None)):
        return UnknownAttribute(
            f"{cls.__name__}.{name} is a method, and setting it would do nothing; call "
            f".{name}(...) instead."
        )
    near = _nearest(name, names)
    if not near:
        return UnknownAttribute(f"{nothing}; it has {', '.join(names)}.")
    if _is_read_only(cls, near):
        return UnknownAttribute(f"{nothing}; .{near} can only be read.")
    return UnknownAttribute(f"{nothing}; write .{near} = ....")


def _read_only(cls: Any, name: str, names: Sequence[str]) -> UnknownAttribute:
    others = [other for other in names if not _is_read_only(cls, other)]
    return UnknownAttribute(
        f"{cls.__name__}.{name} can only be read; what can be set: "
        f"{', '.join(others) or 'nothing'}."
    )


def _nearest(name: str, names: Sequence[str]) -> str:
    """Return the name itself, if it is there, else the most similar one, if any."""
    if name in names:
        return name
    return "".join(get_close_matches(name.lower(), names, n=1))


def _public(cls: type[Any]) -> list[str]:
    """Return the public attributes that are no methods."""
    declared = {name for kind in cls.__mro__ for name in inspect.get_annotations(kind)}
    present = {
        name
        for name in dir(cls)
        if not callable(value := getattr(cls, name, None))
        and not isinstance(value, OldName)
    }
    return sorted(name for name in declared | present if not name.startswith("_"))


def _is_read_only(cls: type[Any], name: str) -> bool:
    kept = inspect.getattr_static(cls, name, None)
    return isinstance(kept, property) and kept.fset is None


# What others call our arguments; the first of ours that a function has is meant.
_SYNONYMS = {
    "lr": ("learning_rate", "optimizer"),
    "learning_rate": ("optimizer",),
    "batch_size": ("batch",),
    "epochs": ("steps",),
    "num_steps": ("steps",),
    "data_set": ("data",),
    "dataset": ("data",),
    "workers": ("worker",),
    "n_workers": ("worker",),
    "num_workers": ("worker",),
    "n_ps": ("ps",),
    "num_ps": ("ps",),
}
_EXAMPLES = {"optimizer": "kit.Adam(0.001)"}


def names_its_arguments(function: Function) -> Function:
    """Refuse arguments by names that a function does not have, with the right name.

    >>> @names_its_arguments
    ... def step(learning_rate=0.1): ...
    >>> step(lr=0.5)
    Traceback (most recent call last):
    kit.handles.UnknownArgument: step has no argument 'lr'; write learning_rate=....
    """
    parameters = inspect.signature(function).parameters
    if any(param.kind is param.VAR_KEYWORD for param in parameters.values()):
        return function
    names = [name for name in parameters if name != "self"]

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in names:
                raise UnknownArgument(_unknown(function, name, names))
        return function(*args, **kwargs)

    return cast("Function", called)


def _unknown(function: Callable[..., Any], name: str, names: list[str]) -> str:
    meant = [synonym for synonym in _SYNONYMS.get(name.lower(), ()) if synonym in names]
    near = meant[0] if meant else _nearest(name, names)
    instead = f"it has {', '.join(names)}"
    if near:
        instead = f"write {near}={_EXAMPLES.get(near, '...')}"
    called = function.__qualname__.removesuffix(".__init__")
    return f"{called} has no argument {name!r}; {instead}."


# --------------------------------------------------------------------------------------
# Old names of what was renamed: they work, with a warning that says what to write.


def old_arguments(**renamed: str) -> Callable[[Called], Called]:
    """Let a function or class take arguments by old names, too: `old="new"`.

    >>> @old_arguments(rate="learning_rate")
    ... def step(learning_rate=0.1):
    ...     return learning_rate
    >>> with warnings.catch_warnings(action="ignore"):
    ...     step(rate=0.5)
    0.5
    """

    def decorated(called: Called) -> Called:
        name = called.__qualname__
        is_class, target = isinstance(called, type), cast("Any", called)
        function: Any = target.__init__ if is_class else called

        @wraps(function)
        def translating(*args: Any, **kwargs: Any) -> Any:
            for old in renamed.keys() & kwargs:
                new = renamed[old]
                if new in kwargs:
                    raise UnknownArgument(
                        f"{name} has no argument {old!r} beside {new!r}, which it is "
                        f"called now; write {new}=... alone."
                    )
                _warn(f"{name}({old}=...)", f"{name}({new}=...)", stacklevel=3)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        if not is_class:
            return cast("Called", translating)
        target.__init__ = translating
        return called

    return decorated


class OldName(property):
    """Gives an attribute or a method its old name, too, in the body of a class.

    >>> class Link:
    ...     speed = 5.0
    ...     rate = OldName("rate", "speed")
    >>> with warnings.catch_warnings(action="ignore"):
    ...     Link().rate
    5.0
    """

    def __init__(self, old: str, new: str) -> None:
        def read(instance: Any) -> Any:
            return by_old_name(instance, old, new)

        super().__init__(read, doc=f"The old name of `{new}`.")


def by_old_name(instance: Any, old: str, new: str) -> Any:
    """Return an attribute for a property of its old name, with the warning."""
    name = type(instance).__name__
    _warn(f"{name}.{old}", f"{name}.{new}", stacklevel=4)
    return getattr(instance, new)


def _warn(old: str, new: str, stacklevel: int) -> None:
    text = f"{old} is called {new} now."
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
