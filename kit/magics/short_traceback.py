r"""How a notebook shows an error of the kit: its message, and the user's own lines.

    GradientMismatch: worker:0, step 0: step() returned tuple; it must return ...

    Cell In[2], line 5, in step, on worker:0
          4     x, y = batch
    ----> 5     return (x @ params["w"] - y).mean()

    Cell In[3], line 2
    ----> 2 run.wait()

    %tb shows the whole traceback.

Twelve lines at most. A traceback through asyncio, ipyparallel and this package buries
the message that helps; `%tb` shows it, and after `%xmode Verbose` it is always shown.
IPython shows all other errors as before.

A function that was defined in a cell has no file on the engines, so their tracebacks
lack its lines. The notebook adds them.
"""

from __future__ import annotations

import asyncio
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from kit.cluster.cells.calls import CallInterrupted
from kit.errors import ClusterBusy, KitError
from kit.magics import running
from kit.task import Task
from kit.training.client.run import WaitInterrupted

SHOWN: Final = (
    KitError,
    WaitInterrupted,
    CallInterrupted,
    asyncio.CancelledError,
)
_MOST_OF_MESSAGE: Final = 3
_BOLD, _RED, _GREEN, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"
_REMOTE: Final = re.compile(
    r'^ *File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?$'
)
# Code that is not the user's: this package, its view, and installed packages.
_ROOT: Final = Path(__file__).resolve().parents[2]
_OTHERS: Final = (
    _ROOT / "kit",
    _ROOT / "widgets",
    *(
        Path(sysconfig.get_path(name)).resolve()
        for name in ("stdlib", "purelib", "platlib")
    ),
)


class Place(NamedTuple):
    """A line of a frame: file, number, and function ("<module>" at the top)."""

    path: str
    line: int
    function: str

    @property
    def is_users(self) -> bool:
        """Whether the line is in a cell or a file of the user."""
        if not linecache.getline(self.path, self.line):
            return False
        parents = Path(self.path).resolve().parents
        return not any(other in parents for other in _OTHERS)


def install(shell: InteractiveShell) -> None:
    """Let the shell show errors of the kit like this, unless it has another handler."""
    if not shell.custom_exceptions:
        shell.set_custom_exc(SHOWN, _show)  # type: ignore[no-untyped-call]


def remove(shell: InteractiveShell) -> None:
    """Remove that handler; keep one that is not ours."""
    if shell.custom_exceptions == SHOWN:
        shell.set_custom_exc((), None)  # type: ignore[no-untyped-call]


def _show(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: BaseException,
    frames: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    if isinstance(error, asyncio.CancelledError):
        pause = _paused(error)
        if pause is None:
            shell.showtraceback((kind, error, frames), tb_offset=tb_offset)
            return []
        kind, error = type(pause), pause.with_traceback(frames)
    # The interpreter would set these; %tb and %debug read them.
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, frames
    if isinstance(error, KitError) and error.remote_traceback:
        error.remote_traceback = with_source(error.remote_traceback)
    is_set = hasattr(error, "_render_traceback_")
    if is_set or shell.InteractiveTB.mode != "Context":
        shell.showtraceback((kind, error, frames), tb_offset=tb_offset)
        return []
    shown = short(error, frames, shell)
    shell._showtraceback(kind, error, shown)
    if isinstance(error, ClusterBusy):
        _show_board_again()
    return shown


def _show_board_again() -> None:
    """Show the board of the training that runs: a cell run twice has removed it."""
    cluster = running.find()
    if cluster is not None and cluster.run is not None and not cluster.run.done:
        display(cluster.run)  # type: ignore[no-untyped-call]


def _paused(error: asyncio.CancelledError) -> WaitInterrupted | None:
    """Pause the run that a stopped cell awaited; return the error that says so.

    None if the stop button did not end this cell, or it did not await a run.
    """
    pause = getattr(error, "pause_training", None)
    try:
        cell = asyncio.current_task()
    except RuntimeError:  # no loop is running, so no cell awaits
        return None
    if pause is None or cell is None or not cell.cancelling():
        return None
    interrupted: WaitInterrupted | None = pause()
    return interrupted


def short(
    error: BaseException,
    frames: TracebackType | None,
    shell: InteractiveShell | None = None,
) -> list[str]:
    """Return the lines to show for an error."""
    message = getattr(error, "message", str(error))
    lines = message.splitlines() or [""]
    if len(lines) > _MOST_OF_MESSAGE:
        lines = [*lines[: _MOST_OF_MESSAGE - 1], "..."]
    name = f"{_BOLD}{_RED}{type(error).__name__}{_PLAIN}"
    shown = [f"{name}: {lines[0]}", *lines[1:]]
    task = getattr(error, "task", None)
    where = f", on {Task.parse(task).short}" if task else ""
    remote = _last_of_user(_remote_places(getattr(error, "remote_traceback", None)))
    if remote is not None:
        shown += ["", *_lines(remote, shell, where, 2)]
    here = _last_of_user(_places(frames))
    if here is not None:
        shown += ["", *_lines(here, shell, "", 1 if remote else 2)]
    return [*shown, "", "%tb shows the whole traceback."]


def with_source(traceback: str) -> str:
    """Return a task's traceback with the source lines that only this process has."""
    lines: list[str] = []
    text_lines = traceback.splitlines()
    for number, line in enumerate(text_lines):
        lines.append(line)
        remote = _place_of(line)
        following = text_lines[number + 1] if number + 1 < len(text_lines) else ""
        if remote is None or following.startswith("    "):
            continue
        if source := linecache.getline(remote.path, remote.line).strip():
            lines.append(f"    {source}")
    return "\n".join(lines) + "\n" * traceback.endswith("\n")


def _remote_places(traceback: str | None) -> Iterator[Place]:
    for line in (traceback or "").splitlines():
        remote = _place_of(line)
        if remote is not None:
            yield remote


def _place_of(line: str) -> Place | None:
    match = _REMOTE.match(line)
    if match is None:
        return None
    return Place(match["path"], int(match["line"]), match["function"] or "<module>")


def _places(frames: TracebackType | None) -> Iterator[Place]:
    while frames is not None:
        code = frames.tb_frame.f_code
        yield Place(code.co_filename, frames.tb_lineno, code.co_name)
        frames = frames.tb_next


def _last_of_user(places: Iterator[Place]) -> Place | None:
    return next((frame for frame in reversed([*places]) if frame.is_users), None)


def _lines(
    remote: Place, shell: InteractiveShell | None, where: str, n_lines: int
) -> Sequence[str]:
    """Return the place in words, and its line with those just before."""
    named = shell.compile.format_code_name(remote.path) if shell is not None else None
    file = " ".join(named) if named else remote.path
    function = "" if remote.function == "<module>" else f", in {remote.function}"
    first = max(1, remote.line - n_lines + 1)
    shown = [f"{_GREEN}{file}{_PLAIN}, line {remote.line}{function}{where}"]
    for number in range(first, remote.line + 1):
        source = linecache.getline(remote.path, number).rstrip()
        arrow = f"{_GREEN}---->{_PLAIN}" if number == remote.line else "     "
        if source or number == remote.line:
            shown.append(f"{arrow} {number} {source}")
    return shown
