"""The answers of a class to one prediction: collected, drawn, and then revealed.

Pure. Viewers are known by a name that their page makes up. The first answer of each
counts, as a prediction is locked once it is made.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from kit.demo.verdict import chosen, reveal
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.markup import Html, joined, markup
from widgets.drawing import svg_charts
from widgets.drawing.curves import Axis, Bars, Part
from widgets.prediction import Prediction

# A page can make up any number of names, so the memory for them is bounded. There is
# room for what a pupil's program can send within seconds, and for all others beside it.
MOST_ANSWERS = 10_000
_MOST_NAME = 64  # characters
_CROWD = 60  # answers of one address, of which the teacher should know
_BINS, _FAR = 8, 4.0  # answers that differ by this factor are in bins of 1, 2, 5, 10
_FEW_DECADES, _MOST_DECADES = 3, 12  # over more than the few by powers of ten alone
_REACH = 3.0  # times what most answers are apart: further off is not drawn to scale
_LEAST = 1e-9  # answers that differ by less are equal
_MARK = "\u25b8 "  # at what was measured
Answer = float | str


class Poll:
    """One question to a class.

    >>> poll = Poll(Prediction("Which is faster?", choices=("ps", "ring")))
    >>> poll.start()
    >>> poll.take("anna", "ring"), poll.take("ben", "ring")
    ('ring', 'ring')
    >>> poll.counts()
    [('ps', 0), ('ring', 2)]
    """

    def __init__(
        self,
        prediction: Prediction,
        answer: Answer | Callable[[], Answer] | None = None,
    ) -> None:
        """Make a poll that has not begun; `answer` is the right one, or measures it."""
        self.prediction = prediction
        self._answer = answer
        self.reset()

    def reset(self) -> None:
        """Forget all answers and what was revealed, as before the start."""
        self.answers: dict[str, Answer] = {}
        # Of each who answered, the address and the second.
        self._origins: dict[str, tuple[str, int]] = {}
        self.state = "waiting"  # then open, then revealed
        self.measured: Answer | None = None

    def start(self) -> None:
        """Take answers from now on."""
        self.reset()
        self.state = "open"

    def take(self, who: str, text: str, address: str = "", at_s: float = 0) -> str:
        """Lock in the answer of a viewer; return it in words.

        If there are `MOST_ANSWERS`, another is forgotten for it: one of those that came
        from the same address in the same second, where these are the most. A program
        sends so many at once, and a class does not.

        Raises `InvalidArgumentError` if it is not an answer or not a name, and
        `FailedPreconditionError` if it is a second one or none is asked for.
        """
        if self.state != "open":
            raise FailedPreconditionError(
                f"this question is {self.state}, not open, so it takes no answers now."
            )
        if not 0 < len(who) <= _MOST_NAME:
            raise InvalidArgumentError(
                f"a page gives itself a name of 1 to {_MOST_NAME} characters, and this "
                f"has {len(who)}; load the page again."
            )
        if who in self.answers:
            guess = self.prediction.in_words(self.answers[who])
            raise FailedPreconditionError(f"your guess is locked in at {guess}.")
        answer = self.prediction.checked(text)
        if len(self.answers) >= MOST_ANSWERS:
            (most, _), *_ = Counter(self._origins.values()).most_common(1)
            guest = secrets.choice([w for w, o in self._origins.items() if o == most])
            del self.answers[guest], self._origins[guest]
        self.answers[who], self._origins[who] = answer, (address, int(at_s))
        return self.prediction.in_words(answer)

    def reveal(self, measured: Answer | None = None) -> None:
        """Take no more answers, and say what was measured.

        Raises `FailedPreconditionError` if that is not known.
        """
        value = self._answer if measured is None else measured
        if callable(value):
            value = value()
        if value is None:
            raise FailedPreconditionError(
                "nothing says what was measured; call share.reveal(measured), or give "
                "share.ask(prediction, answer) a value, or a function that returns one."
            )
        self.measured, self.state = value, "revealed"

    def counts(self) -> list[tuple[str, int]]:
        """Return choices or ranges, each with the number of answers in it."""
        answers = list(self.answers.values())
        if choices := self.prediction.choices:
            return [(choice, answers.count(choice)) for choice in choices]
        numbers = sorted(float(answer) for answer in answers)
        if not numbers:
            return []
        shown = sorted([*numbers, *self._measured_number()])
        if _is_narrow(low := shown[0], high := shown[-1]):
            return [(self._range(low, high, high), len(numbers))]
        # One absurd answer must not put all others into one bin; an outer one has it.
        _, *inner, _ = edges = _edges(*_middle(shown))
        edges = [min(low, edges[0]), *inner, max(high, edges[-1])]
        many, _ = np.histogram(numbers, edges)
        return [
            (self._range(low, high, edges[-1]), int(n))
            for (low, high), n in zip(pairwise(edges), many, strict=True)
        ]

    def _measured_number(self) -> list[float]:
        is_number = self.measured is not None and not self.prediction.choices
        return [float(self.measured or 0)] if is_number else []

    def _range(self, low: float, high: float, last: float) -> str:
        """Return the name of a bin, with a mark if what was measured is in it."""
        is_here = any(
            low <= value < high or value == high == last
            for value in self._measured_number()
        )
        return f"{_MARK * is_here}{low:,.9g} to {high:,.9g}"

    def histogram(self) -> Html:
        """Return the answers as bars in SVG; "" without any."""
        counts = self.counts()
        if not self.answers:
            return Html()
        rows = tuple((label, (Part(label, n, "h0"),)) for label, n in counts)
        most = max(5, *(n for _, n in counts))
        title = f"Answers of {len(self.answers)}: {self.in_words()}"
        return svg_charts.bars_chart(Bars(title, Axis("answers", 0.0, most), rows))

    def verdict_on(self, who: str) -> str:
        """Return a viewer's guess in words, after the reveal with what it is worth."""
        guess = self.answers.get(who)
        if guess is None:
            return ""
        if self.measured is None:
            return f"Locked in: {self.prediction.in_words(guess)}."
        if isinstance(guess, str) or isinstance(self.measured, str):
            return chosen(str(guess), str(self.measured)).words
        return reveal(guess, self.measured, self.prediction.unit).words

    def in_words(self) -> str:
        """Return the histogram as part of a sentence: ranges with their counts."""
        return ", ".join(f"{label}: {n}" for label, n in self.counts() if n)

    def verdict(self) -> str:
        """Say what was measured, and how the class did; "" before the reveal."""
        if self.measured is None:
            return ""
        text = self.prediction.in_words(self.measured)
        if isinstance(self.measured, str) or self.prediction.choices:
            n_right = list(self.answers.values()).count(str(self.measured))
            return f"It is {text}: {n_right} of {len(self.answers)} guessed so."
        near = sum(_is_near(answer, self.measured) for answer in self.answers.values())
        return (
            f"{_MARK}Measured: {text}. {near} of {len(self.answers)} guesses are "
            f"within a fifth of it."
        )

    def html(self, *, is_teacher: bool) -> Html:
        """Return the question, the count of answers, and the histogram if shown."""
        counted = f"{len(self.answers):,} answered." if self.state != "waiting" else ""
        addresses = Counter(address for address, _ in self._origins.values())
        for address, n in addresses.most_common(1):
            if is_teacher and n > _CROWD:
                counted += f" {n:,} of them came from {address}."
        is_seen = is_teacher or self.state == "revealed"
        drawn = self.histogram() if is_seen else ""
        head = markup('<p class="ps-head">{}</p>', self.prediction.question)
        parts = [head] * (is_teacher or self.state != "waiting")
        parts += [markup("<p>{}</p>", counted)] * bool(counted)
        parts += [markup('<div class="ps-answers">{}</div>', drawn)] * bool(drawn)
        parts += [markup('<p class="ps-wait">{}</p>', self.verdict())] * (
            self.measured is not None
        )
        return joined(parts)


def _is_near(guess: Answer, measured: float) -> bool:
    return abs(float(guess) - measured) <= abs(measured) / 5


def _is_narrow(low: float, high: float) -> bool:
    return high - low <= _LEAST * max(1.0, abs(low), abs(high))


def _middle(numbers: Sequence[float]) -> tuple[float, float]:
    """Return from where to where sorted numbers are, but for some that are far off.

    >>> _middle([1.0, 2.0, 3.0]), _middle([1.0, 2.0, 3.0, 4.0, 1e9])
    ((1.0, 3.0), (1.0, 4.0))
    """
    n_off = len(numbers) // 5  # on each side
    first, last = numbers[n_off], numbers[-1 - n_off]
    reach = _REACH * (last - first)
    near = [n for n in numbers if first - reach <= n <= last + reach]
    ends = near if not _is_narrow(near[0], near[-1]) else numbers
    return ends[0], ends[-1]


def _edges(low: float, high: float) -> list[float]:
    """Return round edges of bins from `low` to `high`: 1, 2, 5 and 10 if these are far.

    >>> _edges(30.0, 170.0), _edges(0.0, 47.0)
    ([20.0, 50.0, 100.0, 200.0], [0, 10, 20, 30, 40, 50])
    """
    if low > _LEAST and high / low >= _FAR:
        first, last = math.floor(math.log10(low)), math.floor(math.log10(high)) + 1
        every = math.ceil((last - first) / _MOST_DECADES)
        digits = (1, 2, 5) if last - first <= _FEW_DECADES else (1,)
        edges = [m * 10.0**n for n in range(first, last + every, every) for m in digits]
        begin = max(n for n, edge in enumerate(edges) if edge <= low)
        end = min(n for n, edge in enumerate(edges) if edge > high)
        return edges[begin : end + 1]
    inner = svg_charts.ticks(low, high, _BINS)
    width = inner[1] - inner[0]
    first = math.floor(low / width + 1e-9)
    last = max(first + 1, math.ceil(high / width - 1e-9))
    return [round(n * width, 12) for n in range(first, last + 1)]
