"""The dict that a step gets: always whole, whatever the step before did to its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.training.worker import parameter_dict
from kit.training.worker.native import FEW, compiled, marker
from kit.training.worker.parameter_dict import ParameterDict, watch
from tests.cases import for_each

Values = dict[str, Any]
MANY = FEW + 1

can_watch = pytest.mark.skipif(watch() is None, reason="no dict can be watched here")
has_build = pytest.mark.skipif(compiled() is None, reason="many.c was not built")


def values(n: int = MANY) -> Values:
    return {f"p{number}": np.zeros(1) for number in range(n)}


def is_whole(found: Values, want: Values) -> bool:
    return list(found) == list(want) and all(
        one is two for one, two in zip(found.values(), want.values(), strict=True)
    )


CHANGES: dict[str, Callable[[Values], object]] = {
    "a value": lambda one: one.__setitem__("p3", np.ones(1)),
    "a name more": lambda one: one.__setitem__("new", np.ones(1)),
    "a name less": lambda one: one.pop("p7"),
    "the last": lambda one: one.popitem(),
    "all": lambda one: one.clear(),
    "the order": lambda one: one.__setitem__("p0", one.pop("p0")),
    "two swapped": lambda one: one.update(p1=one["p2"], p2=one["p1"]),
}


@for_each("native", [True, False])
@for_each("change", CHANGES.values(), ids=CHANGES)
def test_what_a_step_does_to_its_dict_is_gone_in_the_next(
    change: Callable[[Values], object], native: bool
) -> None:
    all_of_it = values()
    one = ParameterDict(dict(all_of_it), native=native)

    first = one.give()
    change(first)

    assert not is_whole(first, all_of_it)
    assert is_whole(one.give(), all_of_it)
    change(one.give())
    assert is_whole(one.give(), all_of_it)


@can_watch
def test_a_dict_that_nobody_changed_is_handed_out_again() -> None:
    one = ParameterDict(values())

    first = one.give()

    assert len(list(first.items())) == MANY
    assert first == dict(first)
    assert one.give() is first


@can_watch
def test_a_dict_that_is_kept_and_changed_later_is_no_longer_handed_out() -> None:
    all_of_it = values()
    one = ParameterDict(dict(all_of_it))
    kept = one.give()
    one.give()

    kept["p0"] = np.ones(1)  # between two steps

    assert is_whole(one.give(), all_of_it)


@pytest.mark.parametrize(("n", "native"), [(FEW, True), (MANY, False)])
def test_a_few_get_a_new_dict_each_time_and_so_do_all_without_compiled_code(
    n: int, native: bool
) -> None:
    one = ParameterDict(values(n), native=native)

    assert one.give() is not one.give()


@can_watch
def test_two_go_on_handing_out_the_same_after_one_was_changed() -> None:
    both = ParameterDict(values()), ParameterDict(values())
    for each in both:
        each.give()
    both[0].give()["new"] = np.ones(1)

    given = [[id(each.give()) for each in both] for _ in range(4)]

    assert given == [given[0]] * 4


@can_watch
def test_a_watch_that_misses_a_change_is_not_relied_on() -> None:
    def never(_: Values) -> Callable[[], bool]:
        return lambda: False

    def always(_: Values) -> Callable[[], bool]:
        return lambda: True

    assert not parameter_dict._can_be_relied_on(never)
    assert not parameter_dict._can_be_relied_on(always)


def test_an_interpreter_of_another_kind_gets_new_dicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.implementation, "name", "another")

    assert watch.__wrapped__() is None


@pytest.mark.slow
@has_build
@given(
    st.sampled_from(["uint32", "uint64"]),
    st.sets(st.integers(0, 2_000), min_size=MANY, max_size=500),
)
def test_marks_are_set_where_they_belong_and_nowhere_else(
    dtype: str, places: set[int]
) -> None:
    where = np.array(sorted(places))
    flat = np.zeros(2_001, dtype)
    want = flat.copy()
    want[where] = 0x7FC0_6B69

    marker(flat, where, 0x7FC0_6B69, native=True)()

    np.testing.assert_array_equal(flat, want)
