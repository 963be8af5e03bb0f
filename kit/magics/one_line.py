"""Errors of magics, shown as one line: what happened and what to do, no traceback.

The error itself stays what it is, with its class; only how IPython shows it is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from kit.cluster.cells.on import CellFailed, CellInterrupted
from kit.errors import KitError


def show_as(error: BaseException, lines: Sequence[str]) -> None:
    """Let IPython show these lines when the error ends a cell."""
    # IPython asks an exception for this method; a partial of a built-in can be pickled.
    error._render_traceback_ = partial(list, tuple(lines))  # type: ignore[attr-defined]


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Give errors that leave the block their form; a remote traceback stays whole."""
    try:
        yield
    except CellFailed as error:
        show_as(error, error.lines)
        raise
    except CellInterrupted as stop:
        show_as(stop, [f"KeyboardInterrupt: {stop}"])
        raise
    except KitError as error:
        first, _, rest = error.message.partition("\n")
        more = rest.splitlines()  # the log of what did not start
        show_as(error, [f"{type(error).__name__}: {first}", *more])
        raise
