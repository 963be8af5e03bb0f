"""From `kit`'s more specific errors to the original's classes.

A program may compare the type of an error, and does not know of a `PlacementError`. The
message stays as it is, and the error of `kit` is its cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kit.errors import KitError


@contextmanager
def originals() -> Iterator[None]:
    """Raise errors of `kit` in the block as the class that has their code."""
    try:
        yield
    except KitError as error:
        kind = _original(type(error))
        if kind is type(error):
            if error.op is not None and error.node_def is None:
                error.node_def = error.op.node_def
            raise
        raise _translated(error, kind) from error


def _original(kind: type[KitError]) -> type[KitError]:
    """Return the class directly below the base that an error's class descends from."""
    for base in kind.__mro__:
        if KitError in base.__bases__:
            return base
    return kind


def _translated(error: KitError, kind: type[KitError]) -> KitError:
    node_def = None if error.op is None else error.op.node_def
    made = kind(
        node_def,
        error.op,
        error.message,
        task=error.task,
        step=error.step,
        remote_traceback=error.remote_traceback,
    )
    made.node = error.node
    return made
