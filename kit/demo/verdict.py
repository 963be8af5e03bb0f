"""A teacher's word on an answer: a sentence in a notebook, never a traceback.

Pure. A lesson's questions are made of these: `number` and `function` judge an answer,
`reveal` puts a guess beside what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from numbers import Real
from typing import Any

Function = Callable[..., Any]
_EMPTY = "Not yet: put your answer where the three dots are, and run the cell again."


class _Unwritten(Exception):
    """The function is still the stub of the exercise."""


@dataclass(frozen=True)
class AnswerVerdict:
    """What is said of an answer; a notebook shows it as a sentence."""

    is_right: bool
    words: str

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        sign = "&#10003;" if self.is_right else "&#8230;"
        line = "solid" if self.is_right else "dashed"
        return (
            f'<p role="status" style="border-left:4px {line};padding-left:10px;'
            f'font-size:max(14px,1em)">{sign} {escape(self.words)}</p>'
        )


def number(
    given: object,
    right: float,
    *,
    well: str,
    hints: Mapping[float, str],
    otherwise: str,
    share: float = 0.001,
) -> AnswerVerdict:
    """Judge a number; `hints` are what is said of the wrong ones that are usual.

    A number is right within `share` of the right one.

    >>> number(4, 6, well="Yes.", hints={4: "twice?"}, otherwise="Count again.")
    Not yet: you said 4; twice?
    >>> number("6", 6, well="Yes.", hints={}, otherwise="Count again.")
    Not yet: '6' is a text; write the number without quotes.
    """
    if given is None or given is ...:
        return AnswerVerdict(False, _EMPTY)
    if isinstance(given, str):
        return _not_yet(f"{given!r} is a text; write the number without quotes.")
    if isinstance(given, bool) or not isinstance(given, Real):
        return _not_yet(f"a number is asked for, this is a {type(given).__name__}.")
    if _is_near(given, right, share):
        return AnswerVerdict(True, f"Right. {well}")
    said = (words for wrong, words in hints.items() if _is_near(given, wrong, share))
    return _not_yet(f"you said {_plain(given):,.6g}; {next(said, otherwise)}")


def reveal(guess: object, measured: float, unit: str) -> AnswerVerdict:
    """Put a guess beside what was measured; nothing is wrong about a wrong guess.

    >>> reveal(100, 200, "bytes")
    Measured: 200 bytes; you guessed 100. That is too low by a factor of 2.
    >>> reveal(..., 200, "bytes")
    Measured: 200 bytes. You made no guess; next time, dare one.
    """
    shown = f"Measured: {measured:,.6g} {unit}"
    if isinstance(guess, bool) or not isinstance(guess, Real):
        return AnswerVerdict(False, f"{shown}. You made no guess; next time, dare one.")
    shown += f"; you guessed {_plain(guess):,.6g}."
    said = _plain(guess)
    if _is_near(said, measured, 0.1):
        return AnswerVerdict(True, f"{shown} Well guessed.")
    if not (said > 0 and measured > 0):
        return AnswerVerdict(False, shown)
    much = max(measured / said, said / measured)
    which = "low" if said < measured else "high"
    shown += f" That is too {which} by a factor of {much:.3g}."
    return AnswerVerdict(False, shown)


def function(
    given: object, judge: Callable[[Function], str], well: str
) -> AnswerVerdict:
    """Judge a function: `judge` calls it, and says what is wrong, or nothing.

    One that returns three dots has not been written yet.

    >>> function(lambda: 1 / 0, lambda f: f(), well="Yes.")
    Not yet: your function raised ZeroDivisionError: division by zero.
    """
    if given is None or given is ...:
        return AnswerVerdict(False, _EMPTY)
    if not callable(given):
        return _not_yet(f"{given!r} is not a function; write one with def.")

    def called(*args: Any) -> Any:
        found = given(*args)
        if found is ...:
            raise _Unwritten
        return found

    try:
        wrong = judge(called)
    except _Unwritten:
        return AnswerVerdict(False, _EMPTY)
    except Exception as error:  # it is the learner's, whatever it is
        said = str(error).rstrip(".")
        return _not_yet(f"your function raised {type(error).__name__}: {said}.")
    return _not_yet(wrong) if wrong else AnswerVerdict(True, f"Right. {well}")


def _not_yet(words: str) -> AnswerVerdict:
    return AnswerVerdict(False, f"Not yet: {words}")


def _is_near(given: Any, right: float, share: float) -> bool:
    return math.isclose(_plain(given), right, rel_tol=share)


def _plain(given: Any) -> float:
    try:
        return float(given)
    except OverflowError:
        return math.inf
