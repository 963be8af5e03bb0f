"""Thousands of small arrays by compiled code: taken as they are, or not at all."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.memory import Memory
from tests.cases import for_each
from tests.exchange.models import models

gather = pytest.importorskip(
    "kit.training.worker._gather", reason="gather.c was not built"
).gather
Values = dict[str, Any]
MANY = 240


def places_of(specs: list[Spec]) -> Values:
    return Memory(lay_out(specs, n_workers=2)).leaves(GRAD)


def like(places: Values, seed: int = 0) -> Values:
    dice = np.random.default_rng(seed)
    return {
        name: np.asarray(dice.normal(size=target.shape)).astype(target.dtype)
        for name, target in places.items()
    }


def small() -> Values:
    return places_of([Spec(f"p{number}", (2, 3), "float32") for number in range(MANY)])


@given(models(80), st.data())
def test_values_come_to_their_places_in_stretches_of_any_length(
    specs: list[Spec], data: st.DataObject
) -> None:
    places = places_of(specs)
    values = like(places)

    for _ in range(2):
        left, position = list(places.items()), 0
        while left:
            n = data.draw(st.integers(1, len(left)))
            position = gather(values, dict(left[:n]), position)
            assert position > 0
            del left[:n]
        for name, target in places.items():
            assert target.tobytes() == values[name].tobytes()
            target[...] = 7


class Named(np.ndarray):
    """An array of a class of the user's own."""


UNFIT: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda item: item.T.copy(),
    "in the order of Fortran": lambda item: np.asfortranarray(item),
    "every second": lambda item: np.repeat(item, 2, axis=1)[:, ::2],
    "other bytes": lambda item: item.astype(">f4"),
    "other dtype": lambda item: item.astype(np.float64),
    "more axes": lambda item: item[None],
    "of a subclass": lambda item: item.view(Named),
    "a list": lambda item: item.tolist(),
    "a number": lambda item: 1.0,
    "nothing": lambda item: None,
}


@for_each("change", UNFIT.values(), ids=UNFIT)
def test_what_is_no_array_like_its_place_is_left_to_others(
    change: Callable[[Any], Any],
) -> None:
    places = small()
    values = like(places)
    values["p42"] = change(values["p42"])

    assert gather(values, places, 0) == -1


@pytest.mark.parametrize(
    "change",
    [
        lambda values: dict(reversed(values.items())),
        lambda values: {"".join(list(name)): item for name, item in values.items()},
        lambda values: values | {"p7": values.pop("p7")},
        lambda values: {},
    ],
    ids=["other order", "equal names", "one at the end", "none"],
)
def test_other_names_are_left_to_others(change: Callable[[Values], Values]) -> None:
    places = small()

    assert gather(change(like(places)), places, 0) == -1


def test_dict_from_which_a_name_was_removed_meanwhile_ends_early() -> None:
    places = small()
    values, last = like(places), {"p239": places.pop("p239")}
    position = gather(values, places, 0)
    assert position > 0

    values.popitem()

    assert gather(values, last, position) == -1


def test_dict_with_holes_is_read_past_them() -> None:
    places = small()
    others = {f"other{number}": None for number in range(50)}
    values: Values = {**others, **like(places)}
    for name in others:
        del values[name]

    assert gather(values, places, 0) > 0
    assert all((target == values[name]).all() for name, target in places.items())


def test_no_reference_is_left_over() -> None:
    places = small()
    values = like(places)
    seen, counted = weakref.ref(values["p3"]), sys.getrefcount(places["p3"])
    for _ in range(50):
        assert gather(values, places, 0) > 0

    counted_then = sys.getrefcount(places["p3"])  # an assertion would hold one more
    assert counted_then == counted
    values.clear()
    gc.collect()
    assert seen() is None


@for_each("wrong", [([], {}, 0), ({}, [], 0), ({}, {}, "0"), ({}, {})])
def test_what_is_no_dict_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        gather(*wrong)
