"""Nested device scopes: what each does to an op, and the stack of those now open.

Pure: no I/O. `kit.devices.device` checks whether a cluster has such a device. An op is
any object with a `device` that can be set; scopes are applied from the inside out:

    with device("/job:ps/task:0"):      3. fills in parts that are still unset
        with device(choose):            2. is called with the op, replaces its device
            with device("/cpu:0"):      1. sets the first parts
                op

None hides all scopes outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from kit.cluster_def import as_text
from kit.devices.device import DeviceSpec, merge

# Users annotate the op in a device function as they like, so it is Any here.
DeviceFunction: TypeAlias = Callable[[Any], str | DeviceSpec]
Scope: TypeAlias = str | DeviceSpec | DeviceFunction | None


class Placeable(Protocol):
    """An object with a device that scopes may set."""

    device: str


@dataclass(frozen=True, slots=True)
class ScopeEntry:
    """One scope as it was when it was entered: a canonical name, a function or None."""

    scope: str | DeviceFunction | None


def parse_scope(x: Scope) -> ScopeEntry:
    """Return the scope in a form that later changes of `x` do not reach.

    Raises `ValueError` for a name that cannot be read, and `AttributeError` for any
    other type.

    >>> parse_scope("/cpu:0/job:ps")
    ScopeEntry(scope='/job:ps/device:CPU:0')
    """
    if isinstance(x, DeviceSpec):
        return ScopeEntry(x.to_string())
    if x is None or callable(x):
        return ScopeEntry(x)
    return ScopeEntry(DeviceSpec.from_string(x).to_string())


def resolve(op: Placeable, entries: Sequence[ScopeEntry]) -> str:
    """Set the device of `op` by scopes, given with the outermost first; return it.

    Names fill in parts that are still unset. A function is called with the op, which
    then has the device that the inner scopes have set; its result replaces that device
    and is stored as it is, readable or not. Raises `TypeError` if the result is neither
    a name nor a spec, `ValueError` if an outer scope has to complete a name that cannot
    be read, and whatever the function raises.

    >>> from types import SimpleNamespace
    >>> scopes = [parse_scope("/job:ps/task:1"), parse_scope(lambda op: "/job:fn")]
    >>> resolve(SimpleNamespace(device=""), scopes)
    '/job:fn/task:1'
    """
    for entry in reversed(entries):
        if entry.scope is None:
            break
        if isinstance(entry.scope, str):
            op.device = _completed(op.device, entry.scope)
        else:
            op.device = _answer(entry.scope, op)
    return op.device


# A graph asks for the same few pairs again and again; reading them takes 100 x as long.
@lru_cache(maxsize=1024)
def _completed(inner: str, outer: str) -> str:
    if not outer:
        return inner
    outer_spec, inner_spec = (
        DeviceSpec.from_string(outer),
        DeviceSpec.from_string(inner),
    )
    return merge(outer_spec, inner_spec).to_string()


def _answer(function: DeviceFunction, op: Placeable) -> str:
    answer: object = function(op)
    if isinstance(answer, DeviceSpec):
        return answer.to_string()
    if isinstance(answer, str | bytes):
        return as_text(answer, "a device name")
    name = getattr(function, "__qualname__", repr(function))
    raise TypeError(
        f"the device function {name} returned {answer!r} of type "
        f"{type(answer).__name__} for {op!r}; return a device name such as "
        f"'/job:ps/task:0', a DeviceSpec, or op.device to change nothing."
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Frame:
    """The scopes that hold from one entering on, and what held before."""

    entries: tuple[ScopeEntry, ...]
    outer: _Frame | None

    def is_within(self, other: _Frame) -> bool:
        frame: _Frame | None = self
        while frame is not None and frame is not other:
            frame = frame.outer
        return frame is other


class ScopeStack:
    """The scopes now open, the outermost first, separately for each thread and task.

    A new thread begins without any. An asyncio task, like `asyncio.to_thread`, begins
    with those of its creator, and does not change them for any other.
    """

    def __init__(self) -> None:
        self._top: ContextVar[_Frame | None] = ContextVar("device_scopes", default=None)

    def entries(self) -> tuple[ScopeEntry, ...]:
        """Return the open scopes, the outermost first."""
        top = self._top.get()
        return () if top is None else top.entries

    def hidden(self) -> tuple[ScopeEntry, ...]:
        """Return the open scopes; inside of `replaced(())`, those that it hides."""
        frame = self._top.get()
        while frame is not None and not frame.entries:
            frame = frame.outer
        return () if frame is None else frame.entries

    @contextmanager
    def push(self, x: Scope) -> Iterator[None]:
        """Open one more scope. Raises as `parse_scope` and `replaced` do."""
        with self.replaced((*self.entries(), parse_scope(x))):
            yield

    @contextmanager
    def replaced(self, entries: Sequence[ScopeEntry]) -> Iterator[None]:
        """Use these scopes instead of those that are open.

        Raises `RuntimeError` if it is left before a scope that was opened inside of it,
        or in another thread or task. The former ends both scopes; the latter changes
        nothing.
        """
        mine = _Frame(tuple(entries), self._top.get())
        token = self._top.set(mine)
        try:
            yield
        except GeneratorExit:
            # Entered by hand and then garbage collected: no caller could catch it.
            with suppress(RuntimeError):
                self._leave(mine, token)
            raise
        except BaseException:
            self._leave(mine, token)
            raise
        self._leave(mine, token)

    def _leave(self, mine: _Frame, token: Token[_Frame | None]) -> None:
        top = self._top.get()
        in_order = top is mine
        if top is not None and top.is_within(mine):
            try:
                # Not set(None): the context would keep a dead graph's variable alive.
                self._top.reset(token)
            except ValueError:  # inherited; it is open where it was entered
                in_order = False
        if not in_order:
            raise RuntimeError(
                "device scopes were not left in the reverse order of entering, in the "
                "thread or task that entered them; open them by `with`."
            )
