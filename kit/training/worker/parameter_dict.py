"""One dict for all steps, as long as nobody changes it.

A step gets a dict of its parameters, and may change it. For ten thousand parameters a
new one for each step takes 300 us to make and to free, because each of its references
is counted somewhere beyond the cache. So the same dict is handed out again, unless the
interpreter says that it was changed: up to Python 3.11 each dict bears a version (PEP
509), from 3.12 on a dict can be watched (`PyDict_Watch`). Where neither can be relied
on there is a new dict each time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from kit.exchange.ports.memory import Array
from kit.training.worker.native import FEW, compiled

Changed = Callable[[], bool]
Watch = Callable[[dict[str, Any]], Changed]

_CHANGES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda one: one.__setitem__("a", 2),
    lambda one: one.__setitem__("new", 1),
    lambda one: one.__delitem__("a"),
    lambda one: one.pop("a"),
    lambda one: one.popitem(),
    lambda one: one.clear(),
    lambda one: one.setdefault("new", 1),
    lambda one: one.update(a=2),
    lambda one: one.__ior__({"a": 2}),
)


class ParameterDict:
    """Gives a dict that is equal to `values`, with the same order and the same values.

    The caller may change it; the changes are gone the next time.
    """

    def __init__(self, values: dict[str, Array], *, native: bool = True) -> None:
        """`values` belongs to this object from now on."""
        self._values = values
        self._watch = watch() if native and len(values) > FEW else None
        self._given: dict[str, Array] = {}
        self._changed: Changed = lambda: True

    def give(self) -> dict[str, Array]:
        """Return the dict: 1 us, or what a new one takes."""
        if self._watch is None:
            return dict(self._values)
        if self._changed():
            self._given = dict(self._values)
            self._changed = self._watch(self._given)
        return self._given


@cache
def watch() -> Watch | None:
    """Return what watches a dict as long as that lives; None if nothing can."""
    if sys.implementation.name != "cpython":
        return None
    found = _by_version if sys.version_info < (3, 12) else _by_watcher()
    return found if found is not None and _can_be_relied_on(found) else None


class _Dict(ctypes.Structure):
    """How a dict begins, up to Python 3.11."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("used", ctypes.c_ssize_t),
        ("version", ctypes.c_uint64),
    )


def _by_version(one: dict[str, Any]) -> Changed:
    head = _Dict.from_address(id(one))
    seen = head.version
    return lambda: bool(head.version != seen)


def _by_watcher() -> Watch | None:
    """Count changes of all watched dicts: any of them is taken for the dict's own."""
    found, api = compiled(), ctypes.pythonapi
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)
    if found is None or not has_lock():
        return None
    try:
        number = api.PyDict_AddWatcher(found.kit_note_change)
        count = ctypes.c_uint64.in_dll(found, "kit_changes")
    except (AttributeError, RuntimeError, ValueError):  # all watchers are taken
        return None

    def start(one: dict[str, Any]) -> Changed:
        api.PyDict_Watch(number, ctypes.py_object(one))
        seen = count.value
        return lambda: count.value != seen

    return start


def _can_be_relied_on(start: Watch) -> bool:
    """Try every way to change a dict, and some to read one."""
    kept = {"a": 1}
    was_changed = start(kept)
    _ = (list(kept.items()), kept.get("a"), kept == {"a": 1}, kept | kept, len(kept))
    if was_changed():
        return False
    for change in _CHANGES:
        one = {"a": 1}
        was_changed = start(one)
        change(one)
        if not was_changed():
            return False
    return True
