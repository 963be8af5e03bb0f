"""A prediction that the reader locks in before a lesson shows what happens.

    guess = Prediction("What does a worker send in a step?", "bytes", low=0, high=1e6)
    guess                    # a field and a button; or guess.lock("70 kB")

    guess.required()         # first line of a cell that would give the answer away
    guess.reveal(measured)   # a sentence: both, and how far apart they are

Students who predict a result understand it better than those who only watch: Crouch et
al., "Classroom demonstrations: learning tools or entertainment?", American Journal of
Physics 72 (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kit.demo.verdict import AnswerVerdict, chosen, number_text, quantity, reveal
from kit.errors import FailedPreconditionError, InvalidArgumentError, KitError
from kit.handles import OldName, handle
from kit.markup import element, in_cell, markup, verbatim
from widgets.drawing import front_end, looks

# Choices that a phone has no room for go on in the next row.
_CHOICES = verbatim(
    ".ps-prediction .widget-radio-box { flex-flow: row wrap; }\n"
    ".ps-prediction .widget-radio-box label { flex: none; white-space: nowrap; }\n"
)


@handle
class Prediction:
    """A question with a field for a number, or with choices, and a lock.

    Parameters
    ----------
    question : str
        The question, a sentence.
    unit : str, default ""
        The unit of the number, such as "bytes", "ms" or "steps". An answer may be in
        another unit of the same kind: "1.2 MB", "0.05 s".
    low, high : float, optional
        The range of sensible answers, in `unit`.
    choices : sequence of str
        The answers to choose from, instead of a number.

    Raises
    ------
    InvalidArgumentError
        There is only one choice, or there are choices and a unit, or the range is
        empty.

    Examples
    --------
    >>> guess = Prediction("How many messages?", "messages", low=1, high=100)
    >>> guess.lock("8").reveal(4)
    Measured: 4 messages; you guessed 8. That is too high by a factor of 2.
    """

    question: str
    unit: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    def __init__(
        self,
        question: str,
        unit: str = "",
        *,
        low: float | None = None,
        high: float | None = None,
        choices: Sequence[str] = (),
    ) -> None:
        self.question, self.unit = question, unit
        self.low, self.high, self.choices = low, high, tuple(choices)
        if len(self.choices) == 1 or (self.choices and unit):
            raise InvalidArgumentError(
                f"choices is {self.choices!r}, with unit {unit!r}; give two or more "
                f"choices and no unit, or a unit alone."
            )
        if low is not None and high is not None and not low < high:
            raise InvalidArgumentError(
                f"low is {low} and high is {high}; give a range with numbers in it."
            )
        self._value: float | str | None = None
        self._form: PredictionForm | None = None

    @property
    def is_locked(self) -> bool:
        """Whether a guess was made; it cannot be changed."""
        return self._value is not None

    @property
    def value(self) -> float | str:
        """The guess, a number in `unit` or a choice; raises as `required` does."""
        self.required()
        assert self._value is not None
        return self._value

    def lock(self, answer: float | str) -> Prediction:
        """Make a guess, once; return this prediction.

        Parameters
        ----------
        answer : float or str
            A number in `unit`, a text with a unit such as "1.2 MB", or one of the
            choices.

        Raises
        ------
        InvalidArgumentError
            It is not an answer, or it is out of range.
        FailedPreconditionError
            A guess was made already. To make another, run the question's cell again.
        """
        if self._value is not None:
            raise FailedPreconditionError(
                f"your guess is locked in at {self.in_words(self._value)}; run the "
                f"cell that asks the question again to begin anew."
            )
        self._value = self.checked(answer)
        if self._form is not None:
            self._form.show()
        return self

    def required(self) -> None:
        """Raise `FailedPreconditionError` if there is no guess yet."""
        if self._value is None:
            raise FailedPreconditionError(
                f"predict first: {self._asked} Lock in your guess above, then run this "
                f"cell again."
            )

    def reveal(
        self, measured: float | str, yours: float | None = None
    ) -> AnswerVerdict:
        """Compare the guess with what was measured.

        Parameters
        ----------
        measured : float or str
            A number in `unit`, or one of the choices. With `yours` it is what the best
            program needs.
        yours : float, optional
            What the reader's own program needs, to be said as well. The guess is right
            or wrong whatever that is.

        Returns
        -------
        AnswerVerdict
            Whether the guess was right, and how far off it was, in words.

        Raises
        ------
        FailedPreconditionError
            There is no guess yet.
        """
        guess = self.value
        if isinstance(guess, str) or isinstance(measured, str):
            return chosen(str(guess), str(measured))
        return reveal(guess, measured, self.unit, yours)

    def checked(self, answer: float | str) -> float | str:
        """Return an answer as a number in `unit`, or as a choice; lock nothing.

        Parameters
        ----------
        answer : float or str
            As for `lock`.

        Raises
        ------
        InvalidArgumentError
            It is not an answer, or it is out of range.

        Returns
        -------
        float or str
            The number in `unit`, or the choice.
        """
        if self.choices:
            if answer not in self.choices:
                raise InvalidArgumentError(
                    f"{answer!r} is not one of the choices: {', '.join(self.choices)}."
                )
            return str(answer)
        value = quantity(answer, self.unit)
        low, high = self.low, self.high
        if (low is not None and value < low) or (high is not None and value > high):
            raise InvalidArgumentError(
                f"{self.in_words(value)} is out of range; answer {self.expected}."
            )
        return value

    @property
    def expected(self) -> str:
        """What an answer is, in words.

        >>> Prediction("How long?", "ms", low=0, high=500).expected
        'from 0 to 500 ms'
        """
        if self.choices:
            return f"one of: {', '.join(self.choices)}"
        limits = [
            f"{word} {number_text(limit)}"
            for word, limit in (("from", self.low), ("to", self.high))
            if limit is not None
        ]
        return f"{' '.join(limits) or 'a number'} {self.unit}".strip()

    def in_words(self, value: float | str) -> str:
        """Return an answer in words, with its unit."""
        if isinstance(value, str):
            return value
        return f"{number_text(value)} {self.unit}".strip()

    told = OldName("told", "in_words")

    def __repr__(self) -> str:
        if self._value is not None:
            return f"{self._asked} Locked in: {self.in_words(self._value)}."
        return f"{self._asked} Answer {self.expected}, with .lock(answer)."

    @property
    def _asked(self) -> str:
        """The question, with dots if the answer is the end of its sentence."""
        return self.question if self.question.endswith("?") else f"{self.question} ..."

    def form(self) -> PredictionForm:
        """Return its form, made once; raise `ImportError` without ipywidgets."""
        self._form = self._form or PredictionForm(self)
        return self._form

    def _ipython_display_(self) -> None:
        if front_end.kernel() is None:
            raise NotImplementedError  # a terminal shows the text
        text, form = repr(self), {}
        with suppress(ImportError):  # the text says how to answer
            form = self.form().root._repr_mimebundle_()
        # In one bundle, so that a page without a kernel shows the text instead.
        front_end.show_bundle(
            {**form, "text/plain": text, "text/html": in_cell(element("p", text))}
        )


class PredictionForm:
    """The field or choices of a prediction, its button, and what it answers."""

    def __init__(self, prediction: Prediction) -> None:
        """Make them; raise `ImportError` without ipywidgets."""
        import ipywidgets as ipw

        from widgets.drawing.html_view import HtmlView

        self._prediction = prediction
        self.field = _field(prediction)
        self.button = front_end.button("Lock in", "lock", "Your guess stays after that")
        self.said = HtmlView()
        self.button.on_click(lambda _: self._lock())
        row = ipw.Layout(flex_flow="row wrap", align_items="center", grid_gap="0 12px")
        question = markup("<b>{}</b>", prediction.question)
        sheet = looks.icons() + _CHOICES
        asked = HtmlView(markup("<style>{}</style>{}", sheet, question))
        unit = HtmlView(markup("{}", prediction.unit))
        parts = [asked, self.field, unit, self.button, self.said]
        self.root = ipw.HBox(parts, layout=row)
        self.root.add_class("ps-prediction")
        self._say("")
        self.show()

    def _lock(self) -> None:
        answer = self.field.value
        if not answer:
            self._say(f"Answer {self._prediction.expected}.")
            return
        try:
            self._prediction.lock(answer)
        except KitError as error:
            self._say(error.message)

    def show(self) -> None:
        """Show the guess, if there is one."""
        if not self._prediction.is_locked:
            return
        self.field.disabled = self.button.disabled = True
        value = self._prediction.value
        self.field.value = value if isinstance(value, str) else number_text(value)
        self._say(f"Locked in: {self._prediction.in_words(value)}.")

    def _say(self, text: str) -> None:
        self.said.value = markup('<span role="status">{}</span>', text)


def _field(prediction: Prediction) -> Any:
    import ipywidgets as ipw

    if prediction.choices:
        return ipw.RadioButtons(
            options=prediction.choices,
            value=None,
            orientation="horizontal",
            tooltip=prediction.question,
            layout=ipw.Layout(width="auto"),
        )
    return ipw.Text(
        placeholder=prediction.expected,
        tooltip=prediction.question,
        layout=ipw.Layout(width="260px"),
    )
