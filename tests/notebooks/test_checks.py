"""The checkers know right answers from wrong ones, and say something useful."""

from __future__ import annotations

import doctest
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from kit.demo.verdict import AnswerVerdict, quantity
from kit.errors import FailedPreconditionError, InvalidArgumentError
from notebooks import checks
from tests.cases import for_each

Ask = Callable[[Any], AnswerVerdict]
NUMBERS: dict[str, tuple[Ask, float, dict[float, str]]] = {
    "tower bytes": (
        lambda value: checks.tower_bytes(value, towers=3, size=2600),
        15_600,
        {7800: "one direction", 5200: "one tower"},
    ),
    "server bytes": (
        lambda value: checks.server_bytes(value, n=10, size=100),
        2000,
        {1000: "one direction", 200: "one worker"},
    ),
    "servers needed": (
        lambda value: checks.servers_needed(value, n=10),
        10,
        {1: "of all workers"},
    ),
    "ring bytes": (
        lambda value: checks.ring_bytes(value, n=4, size=1000),
        1500,
        {750: "once round", 2000: "nearly", 3000: "whole", 6000: "chunk"},
    ),
    "ring messages": (
        lambda value: checks.ring_messages(value, n=16),
        30,
        {15: "the others", 32: "nearly"},
    ),
    "even latency": (
        lambda value: checks.even_ms(value, n=4, size=100_000, mbit=200),
        3.5,  # 4 ms for S bytes: 5 * 4 + 2 l is 1.5 * 4 + 6 l
        {
            14 / 6: "latency as well",
            7: "how many more messages",
            0.0035: "in seconds",
            6.5: "while gradients come in",  # 8 * 4 + 2 l
        },
    ),
    "servers that win": (
        lambda value: checks.servers_that_win(value, n=8, once_ms=50, delay_ms=10),
        4,  # 3 * 50 + 2 * 10; a ring takes 1.75 * 50 + 14 * 10 = 227.5
        {2: "takes 270 ms, and the ring 227.5", 8: "would fewer"},
    ),
    "slow line": (
        lambda value: checks.slow_line(value, n=4, slower=10),
        15,
        {1.5: "equal lines", 10: "how often", 4.875: "a mean"},
    ),
    "population bytes": (
        lambda value: checks.population_bytes(value, size=2600),
        2600,
        {26_000: "by the worker that judges"},
    ),
    "losses bytes": (
        lambda value: checks.losses_bytes(value, population=100, size=2600),
        800,
        {100: "how many losses", 2600: "neither networks"},
    ),
    "steps again": (
        lambda value: checks.steps_again(value, every_s=0.2, step_s=0.008),
        12.5,
        {25: "the worst case", 0.1: "in seconds", 0.0125: "in seconds as well"},
    ),
    "neighbours": (
        lambda value: checks.neighbours(value, n=9),
        0.25,
        {0.125: "two neighbours", 2 / 9: "a different task", 9: "of how many"},
    ),
    "largest rank": (
        lambda value: checks.largest_rank(value, 400, 600, share=0.1),
        24,
        {25: "a little more", 40: "two factors"},
    ),
}


each_question = for_each(("ask", "right", "hints"), NUMBERS.values(), ids=NUMBERS)


@each_question
def test_right_number_is_right_in_any_form_and_mistakes_get_hints_of_their_own(
    ask: Ask, right: float, hints: dict[float, str]
) -> None:
    for inputs in (right, np.float64(right), right * 1.0001):
        assert ask(inputs).is_right
        assert repr(ask(inputs)).startswith("Right. ")
    for wrong, words in hints.items():
        verdict = ask(wrong)
        assert not verdict.is_right
        assert words in verdict.words
        which = "low" if wrong < right else "high"
        assert verdict.words.startswith(f"Not yet: {wrong:,.6g} ")
        assert f" is too {which}; " in verdict.words
    for other in (0, -7, 12_345_678, math.inf, 10**400):
        assert not ask(other).is_right
        assert len(ask(other).words) > len("Not yet: 12,345,678 is too high; ")


@each_question
@for_each(
    ("answer", "words"),
    [
        (..., "three dots"),
        (None, "three dots"),
        ("many", "is not a number; write it like 1,200"),
        (math.nan, "nan is not a number"),
        ("3 apples", "'apples' does not fit here; use"),
        (True, "is a bool"),
        ([1, 2], "is a list"),
        (1 + 2j, "is a complex"),
        (len, "is a builtin"),
    ],
)
def test_what_is_no_number_is_told_apart(
    ask: Ask, right: float, hints: dict[float, str], answer: object, words: str
) -> None:
    verdict = ask(answer)

    assert not verdict.is_right
    assert words in verdict.words


def fed_back(gradients: Any, send: Any) -> list[Any]:
    """Send what is due in all, less what has arrived."""
    arrived = [np.zeros(3)]
    for due in np.cumsum(gradients, axis=0):
        arrived.append(send(due - np.sum(arrived, axis=0)))
    return arrived[1:]


FUNCTIONS: dict[str, tuple[Ask, Any, dict[str, Any]]] = {
    "server step": (
        checks.server_step,
        lambda w, g, rate: w - rate * sum(g) / len(g),
        {
            "mean, not sum": lambda w, g, rate: w - rate * sum(g),
            "uphill": lambda w, g, rate: w + rate * np.mean(g, 0),
            "returns nothing": lambda w, g, rate: None,
            "not those of one mean step": lambda w, g, rate: w,
        },
    ),
    "schedule": (
        checks.schedule,
        lambda rank, hop, n: (rank + n - hop) % n,
        {
            "chunk(2, 1, 3) is 3, not 0 to 2": lambda rank, hop, n: rank + hop,
            "added twice": lambda rank, hop, n: rank,
            "[0, 0, 0] whole sums": lambda rank, hop, n: (rank + hop) % n,
            "is 0.0, not": lambda rank, hop, n: 0.0,
        },
    ),
    "quicker": (
        checks.quicker,
        # The ring has n - (n-1)/n fewer bytes on the line, and waits n-2 times more.
        lambda n, size, mbit, ms: (
            "ring" if (n - (n - 1) / n) * size * 8e-3 / mbit > (n - 2) * ms else "ps"
        ),
        {
            "it chose 'ps'; by the formulas": lambda *case: "ps",
            "it chose 'ring'; by the formulas": lambda *case: "ring",
            "it chose 7": lambda *case: 7,
        },
    ),
    "spread": (
        checks.spread,
        lambda logical, tasks: [-(-(logical - n) // tasks) for n in range(tasks)],
        {
            "return a list": lambda logical, tasks: logical / tasks,
            "has 1 numbers for 2 tasks": lambda logical, tasks: [logical],
            "places 8 of 4": lambda logical, tasks: [logical] * tasks,
            "two more": lambda logical, tasks: [logical] + [0] * (tasks - 1),
            "the first tasks": lambda logical, tasks: [
                (logical + n) // tasks for n in range(tasks)
            ],
        },
    ),
    "feedback": (
        checks.feedback,
        fed_back,
        {
            "some elements never arrived": lambda gradients, send: [
                send(gradient) for gradient in gradients
            ],
            "a list of 8 arrays": lambda gradients, send: sum(gradients),
            "of an element was lost": lambda gradients, send: list(gradients),
        },
    ),
    "direction": (
        checks.direction,
        lambda noise, plus, minus, s: ((plus - minus) @ noise) / (2 * s * len(noise)),
        {
            "downhill": lambda e, p, m, s: ((m - p) @ e) / (2 * s * len(e)),
            "2 times as long": lambda e, p, m, s: ((p - m) @ e) / (s * len(e)),
            "4,000 times": lambda e, p, m, s: ((p - m) @ e) / (2 * s),
            "its shape is (4000,)": lambda e, p, m, s: p - m,
            "returns nothing": lambda e, p, m, s: None,
        },
    ),
}


each_function = for_each(("ask", "right", "wrong"), FUNCTIONS.values(), ids=FUNCTIONS)


@each_function
def test_right_function_is_right_and_wrong_ones_are_told_what_is_wrong(
    ask: Ask, right: Any, wrong: dict[str, Any]
) -> None:
    verdict = ask(right)

    assert verdict.is_right, verdict
    assert verdict.words.startswith("Right. ")
    for words, function in wrong.items():
        verdict = ask(function)
        assert not verdict.is_right
        assert verdict.words.startswith("Not yet: ")
        assert words in verdict.words


@each_function
def test_function_that_fails_or_is_none_is_told_in_a_sentence(
    ask: Ask, right: Any, wrong: dict[str, Any]
) -> None:
    def fails(*_: object) -> object:
        raise KeyError("w7")

    assert "raised KeyError: 'w7'" in ask(fails).words
    assert "raised TypeError: " in ask(lambda: 1).words
    assert "three dots" in ask(lambda *_: ...).words
    assert "three dots" in ask(...).words
    assert "write one with def" in ask(3).words


def test_schedule_may_be_made_of_numpys_whole_numbers() -> None:
    assert checks.schedule(lambda rank, hop, n: np.int64((rank - hop) % n)).is_right


def test_learners_function_cannot_change_what_it_is_judged_by() -> None:
    def greedy(weights: Any, gradients: Any, rate: float) -> Any:
        result = weights - rate * np.mean(gradients, axis=0)
        weights[:] = 0
        for gradient in gradients:
            gradient[:] = 0
        return result

    assert checks.server_step(greedy).is_right


class Move(NamedTuple):
    tensor: str
    n_bytes: int


@for_each(
    ("answer", "unit", "expected"),
    [
        ("104,488", "bytes", 104_488),
        ("1.5 kB", "bytes a step", 1500),
        ("2 KiB", "bytes", 2048),
        ("1e6 bytes", "bytes a step", 1e6),
        ("1e6", "bytes", 1e6),
        ("0.05 s", "ms", 50),
        ("40 us", "ms", 0.04),
        ("7", "", 7),
        ("12 messages", "messages", 12),
        (-2.5, "ms", -2.5),
    ],
)
def test_number_may_be_written_in_any_unit_of_its_kind(
    answer: object, unit: str, expected: float
) -> None:
    assert quantity(answer, unit) == pytest.approx(expected, rel=1e-12)


@for_each(
    ("answer", "unit", "words"),
    [
        ("5 ms", "bytes", "'ms' does not fit here; use bytes, byte, B, kB"),
        ("5 kB", "ms", "use s, ms, us"),
        ("1..2", "ms", "is not a number"),
        ("", "ms", "is not a number"),
        ("5 apples", "", "use no unit"),
    ],
)
def test_unit_of_another_kind_is_refused_with_those_that_fit(
    answer: str, unit: str, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        quantity(answer, unit)


def test_cell_that_needs_a_right_answer_says_what_is_missing() -> None:
    checks.tower_bytes(15_600, towers=3, size=2600).required()

    with pytest.raises(FailedPreconditionError, match="needs your answer"):
        checks.tower_bytes(..., towers=3, size=2600).required()


def test_placement_is_judged_by_the_bytes_that_moved() -> None:
    many = checks.moved([Move("mean:0", 8), Move("table/read:0", 1_600_000)], 8)

    assert checks.moved([Move("mean:0", 8)], 8).is_right
    assert checks.moved([], 8).is_right
    assert not many.is_right
    assert "1,600,008 bytes moved" in many.words
    assert "table/read:0" in many.words


def test_verdict_is_text_and_html_that_says_the_same() -> None:
    verdict = AnswerVerdict(False, "Not yet: 2 < 3.")

    html = verdict._repr_html_()

    assert repr(verdict) == "Not yet: 2 < 3."
    assert "Not yet: 2 &lt; 3." in html
    assert 'role="status"' in html


def test_formulas_of_the_lessons_are_those_of_the_links() -> None:
    assert checks.predicted_ms("ps", 3, 125_000, mbit=100, delay_ms=2) == 44
    assert checks.predicted_ms("ring", 2, 125_000, mbit=100, delay_ms=2) == 14
    assert checks.even_ms(7 / 2, 4, 100_000, 200).is_right


def test_the_fastest_of_some_exchanges_is_right_and_no_other_is_given_away() -> None:
    seconds = {"ps": 0.02, "ring": 0.01}

    assert checks.fastest("ring", seconds).is_right
    slower = checks.fastest("ps", seconds)
    assert slower.words == (
        "Not yet: ps takes 20 ms a step, and another one is faster by a factor of 2."
    )
    assert checks.fastest("star", seconds).words.startswith(
        "Not yet: 'star' is not one"
    )
    assert "three dots" in checks.fastest(..., seconds).words


def steps(*rows: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["topology", "link"])


def test_only_steps_on_equal_links_are_compared() -> None:
    changed = [("ps", "slow")] * 3 + [("ring", "fast")] * 2 + [("ring", "slow")] * 30

    before, after = checks.around_switch(steps(*changed))

    assert before.index.tolist() == [0, 1, 2]
    assert after.index.tolist() == list(range(5, 25))


@for_each(
    "rows",
    [
        [("ps", "slow")] * 9,
        [("ps", "slow")] * 9 + [("ring", "fast")] * 9,
        [("ring", "slow")] * 9 + [("ps", "slow")] * 9,
        [],
    ],
)
def test_without_a_switch_on_equal_links_the_reader_is_told_what_to_do(
    rows: list[tuple[str, str]],
) -> None:
    with pytest.raises(FailedPreconditionError, match="press ring"):
        checks.around_switch(steps(*rows))


def test_examples_of_the_checkers_hold() -> None:
    result = doctest.testmod(checks)

    assert result.attempted
    assert not result.failed


def test_swaps_must_be_of_pairs_and_double_what_is_added() -> None:
    assert checks.swap_partner(lambda rank, hop: rank ^ 2**hop).is_right
    wrong = {
        "worker 0 swaps with 1, but 1 with 2": lambda rank, hop: (rank + 1) % 4,
        "worker 0 swaps with itself": lambda rank, hop: rank,
        "both have the number of 0": lambda rank, hop: rank ^ 1,
        "swaps with 2; there are 0 to 1": lambda rank, hop: rank ^ 2 ** (hop + 1),
        "three dots": lambda rank, hop: ...,
    }
    for words, partner in wrong.items():
        verdict = checks.swap_partner(partner)
        assert not verdict.is_right
        assert words in verdict.words, (words, verdict.words)
