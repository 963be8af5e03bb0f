"""Read a magic's line; an error is one line, with the most similar known word."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.utils.process import arg_split  # type: ignore[attr-defined]

from kit.cluster.cells.on import CellFailed, CellInterrupted
from kit.cluster.launchers.fields import nearest
from kit.errors import KitError
from kit.server.cards import AUTO

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Any:
    """Return an option for `takes`; the arguments are those of argparse."""
    return argument(*names, **settings)  # type: ignore[no-untyped-call]


def takes(name: str, *options: Any) -> Callable[[F], F]:
    """Return a decorator for the function of a magic called `name`, with its options.

    The function's docstring becomes its help, with all options.
    """

    def decorate(function: F) -> F:
        decorated: Any = function
        for decorator in reversed(options):
            decorated = decorator(decorated)
        made: Any = magic_arguments(name)(decorated)  # type: ignore[no-untyped-call]
        made.__doc__ = made.__doc__.replace(f"%{name}", name, 1)  # IPython adds a %
        return made  # type: ignore[no-any-return]

    return decorate


def parse(function: Callable[..., Any], line: str) -> argparse.Namespace:
    """Parse the line of a magic that `takes` has decorated.

    Raises `UsageError`, which notebooks show as one line.
    """
    parser: argparse.ArgumentParser = function.parser  # type: ignore[attr-defined]
    try:
        words = arg_split(line)
    except ValueError as error:
        raise UsageError(f"{parser.prog}: {error}: {line!r}.") from None
    try:
        options, unknown = parser.parse_known_args(words)
    except UsageError as error:
        raise UsageError(f"{parser.prog}: {error}.") from None
    if unknown:
        raise UsageError(_unknown(parser, unknown[0]))
    return options


def flags(function: Callable[..., Any]) -> list[str]:
    """Return the long flags of a magic, in the order of its help."""
    parser: argparse.ArgumentParser = function.parser  # type: ignore[attr-defined]
    return [text for text in _spellings(parser) if text.startswith("--")]


def _spellings(parser: argparse.ArgumentParser) -> list[str]:
    """Return all flags, short and long ones."""
    return [text for action in parser._actions for text in action.option_strings]


def count(text: str) -> int:
    """Read a whole number from 0 up; to be a `type` of arguments."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number from 0 up; give 0, 1, 2 and so on"
        )
    return int(text)


def gpus(text: str) -> int | str:
    """Read a number of GPUs, or "auto"; to be a `type` of arguments."""
    return text if text == AUTO else count(text)


def seconds(text: str) -> float:
    """Read a time above 0; to be a `type` of arguments."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time in seconds; give a number above 0, such as 2.5"
        )
    return value


def job(text: str) -> tuple[str, int]:
    """Read `chief=1`, a job with its number of tasks; to be a `type` of arguments."""
    name, sign, number = text.partition("=")
    if not (name and sign and number.isdecimal()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a job with its number of tasks; write it like chief=1"
        )
    return name, int(number)


def _unknown(parser: argparse.ArgumentParser, word: str) -> str:
    flag = word.partition("=")[0]
    spellings = _spellings(parser)
    if not flag.startswith("-"):
        meant = ""
        if f"--{flag}" in spellings and flag != word:
            meant = f" Did you mean --{word}?"
        elif parser.prog == "%%cluster" and word.isalpha():
            meant = f" With one % it manages the cluster: %cluster {word}."
        return f"{parser.prog} does not know what to do with {word!r}.{meant}"
    listed = ", ".join(text for text in spellings if text.startswith("--"))
    return (
        f"{parser.prog} has no option {flag}.{nearest(flag, spellings)} "
        f"Its options: {listed}; {parser.prog}? explains them."
    )


# --------------------------------------------------------------------------------------
# Errors of magics, shown as one line: what happened and what to do, no traceback. The
# error itself does not change, only how IPython shows it.


def show_as(error: BaseException, lines: Sequence[str]) -> None:
    """Let IPython show these lines when the error ends a cell."""
    # IPython asks an exception for this method; a partial of a built-in can be pickled.
    error._render_traceback_ = partial(list, tuple(lines))  # type: ignore[attr-defined]


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Shorten how errors that leave the block are shown, except remote tracebacks."""
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
