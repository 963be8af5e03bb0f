"""The answers of a class to one prediction: collected, drawn, and then revealed.

Pure. Viewers are known by a name that their page makes up. The first answer of each
counts, as a prediction is locked once it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from kit.errors import FailedPreconditionError, ResourceExhaustedError
from kit.markup import Html, joined, markup
from widgets.drawing import svg_charts
from widgets.drawing.curves import Axis, Bars, Part
from widgets.prediction import Prediction

MOST_ANSWERS = 1000  # a page can make up any number of names
_BINS, _FAR = 8, 100.0  # answers that differ by this factor are counted by decades
_LEAST = 1e-9  # answers that differ by less are equal
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
        self.state = "waiting"  # then open, then revealed
        self.measured: Answer | None = None

    def start(self) -> None:
        """Take answers from now on."""
        self.reset()
        self.state = "open"

    def take(self, who: str, text: str) -> str:
        """Lock in the answer of a viewer; return it in words.

        Raises `InvalidArgumentError` if it is not an answer, `FailedPreconditionError`
        if it is a second one or none is asked for, and `ResourceExhaustedError` if
        there are `MOST_ANSWERS`.
        """
        if self.state != "open":
            raise FailedPreconditionError(
                f"this question is {self.state}, not open, so it takes no answers now."
            )
        if who in self.answers:
            told = self.prediction.told(self.answers[who])
            raise FailedPreconditionError(f"your guess is locked in at {told}.")
        if len(self.answers) >= MOST_ANSWERS:
            raise ResourceExhaustedError(
                f"this question has {MOST_ANSWERS} answers and takes no more; ask "
                f"whoever leads the class to begin it again."
            )
        self.answers[who] = self.prediction.checked(text)
        return self.prediction.told(self.answers[who])

    def reveal(self, measured: Answer | None = None) -> None:
        """Take no more answers, and say what was measured.

        Raises `FailedPreconditionError` if that is not known.
        """
        found = self._answer if measured is None else measured
        if callable(found):
            found = found()
        if found is None:
            raise FailedPreconditionError(
                "nothing says what was measured; call share.reveal(measured), or give "
                "share.ask(prediction, answer) a value, or a function that returns one."
            )
        self.measured, self.state = found, "revealed"

    def counts(self) -> list[tuple[str, int]]:
        """Return choices or ranges, each with the number of answers in it."""
        given = list(self.answers.values())
        if choices := self.prediction.choices:
            return [(one, given.count(one)) for one in choices]
        numbers = sorted(float(one) for one in given)
        if not numbers:
            return []
        low, high = numbers[0], numbers[-1]
        if high - low <= _LEAST * max(1.0, abs(low), abs(high)):
            return [(f"{low:,.9g} to {high:,.9g}", len(numbers))]
        edges = _edges(low, high)
        # The edges are rounded: the largest answer may be above the last of them by its
        # last bits, and would be counted nowhere.
        many, _ = np.histogram(np.clip(numbers, edges[0], edges[-1]), edges)
        return [
            (f"{low:,.9g} to {high:,.9g}", int(n))
            for (low, high), n in zip(pairwise(edges), many, strict=True)
        ]

    def histogram(self) -> Html:
        """Return the answers as bars in SVG; "" without any."""
        counts = self.counts()
        if not self.answers:
            return Html()
        rows = tuple((label, (Part(label, n, "h0"),)) for label, n in counts)
        most = max(5, *(n for _, n in counts))
        title = f"Answers of {len(self.answers)}: {self.in_words()}"
        return svg_charts.bars_chart(Bars(title, Axis("answers", 0.0, most), rows))

    def in_words(self) -> str:
        """Return the histogram as part of a sentence: ranges with their counts."""
        return ", ".join(f"{label}: {n}" for label, n in self.counts() if n)

    def verdict(self) -> str:
        """Say what was measured, and how the class did; "" before the reveal."""
        if self.measured is None:
            return ""
        told = self.prediction.told(self.measured)
        if isinstance(self.measured, str) or self.prediction.choices:
            n_right = list(self.answers.values()).count(str(self.measured))
            return f"It is {told}: {n_right} of {len(self.answers)} guessed so."
        near = sum(_is_near(one, self.measured) for one in self.answers.values())
        return (
            f"Measured: {told}. {near} of {len(self.answers)} guesses are within a "
            f"fifth of it."
        )

    def html(self, *, is_teacher: bool) -> Html:
        """Return the question, the count of answers, and the histogram if shown."""
        counted = f"{len(self.answers)} answered." if self.state != "waiting" else ""
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


def _edges(low: float, high: float) -> list[float]:
    """Return round edges of bins from `low` to `high`: powers of ten if these are far.

    >>> _edges(3.0, 2e3), _edges(0.0, 47.0)
    ([1.0, 10.0, 100.0, 1000.0, 10000.0], [0, 10, 20, 30, 40, 50])
    """
    if low > _LEAST and high / low >= _FAR:
        first, last = math.floor(math.log10(low)), math.floor(math.log10(high)) + 1
        return [10.0**n for n in range(first, last + 1)]
    inner = svg_charts.ticks(low, high, _BINS)
    width = inner[1] - inner[0]
    first = math.floor(low / width + 1e-9)
    last = max(first + 1, math.ceil(high / width - 1e-9))
    return [round(n * width, 12) for n in range(first, last + 1)]
