"""Many cases in one test: all are tried, and each that fails is named."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from tests.cases import for_each


def test_all_cases_are_tried_and_each_that_fails_is_named() -> None:
    tried = []

    @for_each("number", range(5))
    def is_odd(number: int) -> None:
        tried.append(number)
        assert number % 2, "even"

    with pytest.raises(ExceptionGroup, match=r"3 of 5 cases fail:\s+0\s+2\s+4") as info:
        is_odd()

    assert tried == [0, 1, 2, 3, 4]
    notes = [exception.__notes__ for exception in info.value.exceptions]
    assert notes == [[f"This is the case {number}."] for number in (0, 2, 4)]


def test_case_of_several_values_has_the_name_that_it_is_given() -> None:
    def are_equal(a: int, b: int) -> None:
        assert a == b

    pairs = [(1, 1), (1, 2)]
    with pytest.raises(ExceptionGroup, match="1 of 2 cases fail:\n  one-two"):
        for_each(("a", "b"), pairs, {1: "one", 2: "two"}.get)(are_equal)()
    with pytest.raises(ExceptionGroup, match="1 of 2 cases fail:\n  unequal"):
        for_each(("a", "b"), pairs, ["equal", "unequal"])(are_equal)()


def test_fixtures_are_given_to_each_case() -> None:
    @for_each("number", [1, 2])
    def is_in(number: int, numbers: set[int]) -> None:
        assert number in numbers

    assert [*inspect.signature(is_in).parameters] == ["numbers"]
    is_in(numbers={1, 2})
    with pytest.raises(ExceptionGroup, match="1 of 2 cases"):
        is_in(numbers={1})


def test_every_number_is_tried_with_every_text_by_two_of_them() -> None:
    tried = []

    @for_each("number", [1, 2])
    @for_each("text", "ab")
    def add(number: int, text: str) -> None:
        tried.append((number, text))

    add()

    assert tried == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


@pytest.mark.parametrize("outcome", [pytest.fail, pytest.skip])
def test_case_that_fails_or_skips_in_words_of_pytest_is_named_too(
    outcome: Callable[[str], None],
) -> None:
    @for_each("number", [1, 2])
    def end(number: int) -> None:
        if number == 2:
            outcome("why")

    with pytest.raises(BaseExceptionGroup, match="1 of 2 cases fail:\n  2"):
        end()


def test_no_cases_are_refused() -> None:
    with pytest.raises(AssertionError, match="there are no cases of number"):
        for_each("number", [])
