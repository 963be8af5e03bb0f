"""A prediction is made once, in a range and a unit, before anything is revealed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kit.errors import FailedPreconditionError, InvalidArgumentError
from tests.cases import for_each
from widgets import Prediction


def asked() -> Prediction:
    return Prediction("What does a worker send?", "bytes a step", low=0, high=1e6)


def chosen() -> Prediction:
    return Prediction("And the loss?", choices=["jumps up", "goes on"])


def test_nothing_is_revealed_before_a_guess() -> None:
    for prediction, measured in ((asked(), 100.0), (chosen(), "goes on")):
        with pytest.raises(FailedPreconditionError, match="predict first: ") as result:
            prediction.reveal(measured)
        with pytest.raises(FailedPreconditionError):
            prediction.required()

        assert str(measured) not in result.value.message


def test_a_question_that_its_answer_completes_ends_with_dots() -> None:
    prediction = Prediction("A worker sends", "bytes")

    assert repr(prediction).startswith("A worker sends ... Answer a number bytes")
    with pytest.raises(FailedPreconditionError, match=r"sends \.\.\. Lock in your"):
        prediction.required()


def test_guess_stays_as_it_was_locked() -> None:
    prediction = asked().lock("70 kB")

    with pytest.raises(FailedPreconditionError, match=re.escape("at 70,000 bytes")):
        prediction.lock(5)
    prediction.required()

    assert prediction.value == 70_000
    assert prediction.reveal(140_000).words == (
        "Measured: 140,000 bytes a step; you guessed 70,000. "
        "That is too low by a factor of 2."
    )


@for_each(
    ("answer", "words"),
    [
        (
            "2 MB",
            "2,000,000 bytes a step is out of range; answer from 0 to 1,000,000 bytes",
        ),
        (-1, "out of range"),
        ("much", "is not a number"),
        ("5 ms", "'ms' does not fit here"),
        ([1], "is a list"),
        (True, "is a bool"),
    ],
)
def test_answer_that_makes_no_sense_locks_nothing(answer: Any, words: str) -> None:
    prediction = asked()

    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        prediction.lock(answer)

    assert not prediction.is_locked


def test_choice_is_one_of_those_that_there_are_and_its_form_shows_it() -> None:
    prediction = chosen()
    form = prediction.form()
    with pytest.raises(InvalidArgumentError, match="choices: jumps up, goes on"):
        prediction.lock("explodes")

    assert prediction.lock("goes on").reveal("goes on").is_right
    assert form.field.value == "goes on"
    assert form.field.disabled
    assert chosen().lock("goes on").reveal("jumps up").words == (
        "It is: jumps up. You guessed: goes on."
    )


@for_each(
    "wrong",
    [
        {"choices": ["one"]},
        {"choices": ["a", "b"], "unit": "ms"},
        {"low": 2, "high": 1},
    ],
)
def test_question_that_cannot_be_answered_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        Prediction("What?", **wrong)


def test_button_locks_the_field_and_says_what_is_wrong_with_it() -> None:
    prediction = asked()
    form = prediction.form()
    assert form.field.tooltip == "What does a worker send?"  # for a screen reader
    assert form.button.description == "Lock in"
    assert 'role="status"' in form.said.value

    form.button.click()
    empty = form.said.value
    form.field.value = "7 ms"
    form.button.click()
    wrong = form.said.value
    form.field.value = "7 kB"
    form.button.click()

    assert "Answer from 0 to" in empty
    assert "does not fit here" in wrong
    assert prediction.value == 7000
    assert form.field.disabled
    assert form.button.disabled
    assert "Locked in: 7,000 bytes a step." in form.said.value


def test_a_guess_of_the_best_is_right_whatever_ones_own_program_needs() -> None:
    def guessed(guess: int) -> Prediction:
        return Prediction("How many at least?", "messages").lock(guess)

    well = guessed(3).reveal(3, yours=12)
    badly = guessed(12).reveal(3, yours=12)

    assert (well.is_right, badly.is_right) == (True, False)
    assert well.words == (
        "The best known: 3 messages; you guessed 3. Well guessed. "
        "Your program: 12 messages."
    )
    assert badly.words == (
        "The best known: 3 messages; you guessed 12. "
        "That is too high by a factor of 4. Your program: 12 messages."
    )
