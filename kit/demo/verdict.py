"""What a teacher says of an answer: a sentence in a notebook, never a traceback.

Pure. Lessons use these for their questions: `number` and `function` judge an answer,
`reveal` compares a guess with what was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.markup import Html, in_cell, markup

Function = Callable[..., Any]
_EMPTY = "Not yet: put your answer where the three dots are, and run the cell again."


class _Unwritten(Exception):
    """The function is still the stub of the exercise."""


@dataclass(frozen=True)
class AnswerVerdict:
    """Whether an answer is right, in words; a notebook shows it as a sentence.

    Attributes
    ----------
    is_right : bool
        Whether it is right.
    words : str
        The sentence for the learner.
    """

    is_right: bool
    words: str

    def required(self) -> None:
        """Raise `FailedPreconditionError` if it is not right."""
        if not self.is_right:
            raise FailedPreconditionError(f"this cell needs your answer. {self.words}")

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> Html:
        sign = Html("&#10003;") if self.is_right else Html("&#8230;")
        line = "solid" if self.is_right else "dashed"
        page = markup(
            '<p role="status" style="border-left:4px {};padding-left:10px;'
            'font-size:max(14px,1em)">{} {}</p>',
            line,
            sign,
            self.words,
        )
        return in_cell(page)


# Units of a kind, in the first one.
_UNITS: Final[tuple[dict[str, float], ...]] = (
    {
        "bytes": 1,
        "byte": 1,
        "B": 1,
        **{f"{prefix}B": 1e3**n for n, prefix in enumerate(("k", "M", "G"), 1)},
        **{f"{prefix}iB": 2.0 ** (10 * n) for n, prefix in enumerate("KMG", 1)},
    },
    {"s": 1, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "min": 60},
)
_MOST: Final = 1e100
_MOST_TEXT: Final = 100
_EXACT: Final = 1000  # from here on every digit of what was measured is told
_QUANTITY: Final = re.compile(r"([-+]?[\d,.]+(?:[eE][-+]?\d+)?)\s*(\D*)")


def quantity(answer: object, unit: str) -> float:
    """Return an answer as a number in `unit`; it may have another unit of that kind.

    Raises `InvalidArgumentError`, with a sentence for the learner, if it is not one.

    >>> quantity("1.5 kB", "bytes a step"), quantity("0.05 s", "ms"), quantity(7, "")
    (1500.0, 50.0, 7.0)
    """
    if isinstance(answer, str):
        value = _with_unit(answer.strip(), unit)
    elif isinstance(answer, bool) or not isinstance(answer, Real):
        raise InvalidArgumentError(
            f"a number is asked for, this is a {type(answer).__name__}."
        )
    else:
        value = _plain(answer)
    if math.isnan(value):
        raise InvalidArgumentError("nan is not a number.")
    if abs(value) > _MOST:
        # Sums and differences of larger ones are infinite, and cannot be drawn.
        raise InvalidArgumentError(
            f"{value:g} is more than anything that is measured here; answer a number "
            f"from {-_MOST:g} to {_MOST:g}."
        )
    return value


def _with_unit(text: str, unit: str) -> float:
    # The time that matching takes grows with the square of the length.
    match = _QUANTITY.fullmatch(text) if len(text) <= _MOST_TEXT else None
    try:
        value = float(match[1].replace(",", "")) if match else math.nan
    except ValueError:
        value = math.nan
    wanted = unit.split()[0] if unit else ""
    if match is None or math.isnan(value):
        like = f"1,200 {wanted}".strip()
        text = text[:_MOST_TEXT]
        raise InvalidArgumentError(f"{text!r} is not a number; write it like {like}.")
    said = match[2].strip()
    if said in ("", wanted, unit):
        return value
    for kind in _UNITS:
        if wanted in kind and said in kind:
            return value * kind[said] / kind[wanted]
    others = next((kind for kind in _UNITS if wanted in kind), {wanted: 1})
    units = ", ".join(name for name in others if name) or "no unit"
    raise InvalidArgumentError(f"{said!r} does not fit here; use {units}.")


def number_text(value: float) -> str:
    """Return a number as it is read aloud: six digits at least, and never an exponent.

    >>> number_text(2_100_000.0), number_text(0.75), number_text(0.0000125)
    ('2,100,000', '0.75', '0.0000125')
    """
    if not math.isfinite(value) or value == 0 or 1e-4 <= abs(value) < 1e6:
        return f"{value:,.6g}"
    if abs(value) >= 1e6:
        return f"{value:,.0f}"
    return f"{value:.12f}".rstrip("0").rstrip(".")


def chosen(guess: str, right: str) -> AnswerVerdict:
    """Compare a choice with what happened.

    >>> chosen("fewer", "more")
    It is: more. You guessed: fewer.
    """
    if guess == right:
        return AnswerVerdict(True, f"Well guessed. It is: {right}.")
    return AnswerVerdict(False, f"It is: {right}. You guessed: {guess}.")


def number(
    answer: object,
    right: float,
    *,
    well: str,
    hints: Mapping[float, str],
    otherwise: str,
    unit: str = "",
    share: float = 0.001,
) -> AnswerVerdict:
    """Judge a number; `hints` has a remark for each of the usual mistakes.

    It is right if it is within `share` of the right one. It may be text with a unit.

    >>> number(4, 6, well="Yes.", hints={4: "twice?"}, otherwise="Count again.")
    Not yet: 4 is too low; twice?
    >>> number("6 kB", 6000, well="Yes.", hints={}, otherwise="Again.", unit="bytes")
    Right. Yes.
    """
    if answer is None or answer is ...:
        return AnswerVerdict(False, _EMPTY)
    try:
        value = quantity(answer, unit)
    except InvalidArgumentError as error:
        return _not_yet(error.message)
    if _is_near(value, right, share):
        return AnswerVerdict(True, f"Right. {well}")
    said = (words for wrong, words in hints.items() if _is_near(value, wrong, share))
    which = "low" if value < right else "high"
    shown = f"{number_text(value)} {unit}".strip()
    return _not_yet(f"{shown} is too {which}; {next(said, otherwise)}")


def reveal(
    guess: float, right: float, unit: str, yours: float | None = None
) -> AnswerVerdict:
    """Compare a guess with what is right; a wrong guess is not a mistake.

    That was measured, or it is what the best known program needs, and the learner's
    own needs `yours`.

    >>> reveal(100, 200, "bytes")
    Measured: 200 bytes; you guessed 100. That is too low by a factor of 2.
    >>> reveal(3, 2.41532, "times")
    Measured: 2.42 times; you guessed 3. That is too high by a factor of 1.24.
    >>> reveal(3, 3, "messages", yours=12)
    The best known: 3 messages; you guessed 3. Well guessed. Your program: 12 messages.
    """
    head = "Measured" if yours is None else "The best known"
    shown = f"{_with(head, right, unit)}; you guessed {number_text(guess)}."
    if is_right := _is_near(guess, right, 0.1):
        shown += " Well guessed."
    elif guess > 0 and right > 0:
        much = max(right / guess, guess / right)
        which = "low" if guess < right else "high"
        shown += f" That is too {which} by a factor of {much:.3g}."
    if yours is not None:
        better = ", better than every known program" if yours < right else ""
        shown += f" {_with('Your program', yours, unit)}{better}."
    return AnswerVerdict(is_right, shown)


def _with(name: str, value: float, unit: str) -> str:
    if abs(value) < _EXACT and not float(value).is_integer():
        value = float(f"{value:.3g}")  # was measured, and is another each time
    return f"{name}: {number_text(value)} {unit}".strip()


def function(
    answer: object, judge: Callable[[Function], str], well: str
) -> AnswerVerdict:
    """Judge a function: `judge` calls it, and returns what is wrong, or "".

    A function that returns `...` counts as not written yet.

    >>> function(lambda: 1 / 0, lambda f: f(), well="Yes.")
    Not yet: your function raised ZeroDivisionError: division by zero.
    """
    if answer is None or answer is ...:
        return AnswerVerdict(False, _EMPTY)
    if not callable(answer):
        return _not_yet(f"{answer!r} is not a function; write one with def.")

    def called(*args: Any) -> Any:
        result = answer(*args)
        if result is ...:
            raise _Unwritten
        return result

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


def _is_near(value: Any, right: float, share: float) -> bool:
    return math.isclose(_plain(value), right, rel_tol=share)


def _plain(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
