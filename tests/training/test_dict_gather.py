"""Thousands of small arrays by compiled code: taken as they are, or not at all."""

from __future__ import annotations

import ctypes
import gc
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
from kit.training.worker import native as module
from kit.training.worker.native import FEW, DictGather, compiled, dict_gather
from tests.cases import for_each
from tests.exchange.models import models

Values = dict[str, Any]
MANY = FEW + 40

pytestmark = pytest.mark.skipif(compiled() is None, reason="many.c was not built")


def places_of(specs: list[Spec]) -> Values:
    return Memory(lay_out(specs, n_workers=2)).leaves(GRAD)


def of(places: Values) -> DictGather:
    found = compiled()
    assert found is not None
    return DictGather(found, places)


def like(places: Values, seed: int = 0) -> Values:
    dice = np.random.default_rng(seed)
    return {
        name: np.asarray(dice.normal(size=place.shape)).astype(place.dtype)
        for name, place in places.items()
    }


def small() -> Values:
    return places_of([Spec(f"p{number}", (2, 3), "float32") for number in range(MANY)])


@given(models(80), st.data())
def test_values_come_to_their_places_in_stretches_of_any_length(
    specs: list[Spec], data: st.DataObject
) -> None:
    places = places_of(specs)
    values, gather = like(places), of(places)

    for _ in range(2):
        left = len(places)
        assert gather.begin(values)
        while left:
            n = data.draw(st.integers(1, left))
            assert gather.copy(values, n)
            left -= n
        for name, place in places.items():
            assert place.tobytes() == values[name].tobytes()
            place[...] = 7


@given(models(80), st.data())
def test_one_unfit_value_is_found_wherever_it_is(
    specs: list[Spec], data: st.DataObject
) -> None:
    places = places_of(specs)
    values, gather = like(places), of(places)
    name = data.draw(st.sampled_from(list(places)))
    values[name] = np.zeros((*places[name].shape, 2), places[name].dtype)

    assert gather.begin(values)
    assert not gather.copy(values, len(values))


class Named(np.ndarray):
    """An array of a class of the user's own."""


UNFIT: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda one: one.T.copy(),
    "in the order of Fortran": lambda one: np.asfortranarray(one),
    "every second": lambda one: np.repeat(one, 2, axis=1)[:, ::2],
    "other bytes": lambda one: one.astype(">f4"),
    "other dtype": lambda one: one.astype(np.float64),
    "more axes": lambda one: one[None],
    "of a subclass": lambda one: one.view(Named),
    "a list": lambda one: one.tolist(),
    "a number": lambda one: 1.0,
    "nothing": lambda one: None,
}


@for_each("change", UNFIT.values(), ids=UNFIT)
def test_what_is_no_array_like_its_place_is_left_to_others(
    change: Callable[[Any], Any],
) -> None:
    places = small()
    values, gather = like(places), of(places)
    values["p42"] = change(values["p42"])

    assert gather.begin(values)
    assert not gather.copy(values, len(values))


@pytest.mark.parametrize(
    "change",
    [
        lambda values: dict(reversed(values.items())),
        lambda values: {"".join(list(name)): one for name, one in values.items()},
        lambda values: values | {"p7": values.pop("p7")},
    ],
    ids=["other order", "equal names", "one at the end"],
)
def test_other_names_are_left_to_others(change: Callable[[Values], Values]) -> None:
    places = small()
    values, gather = change(like(places)), of(places)

    assert gather.begin(values)
    assert not gather.copy(values, len(values))


class Own(dict[str, Any]):
    """A dict that may answer otherwise than it holds."""


def test_only_a_plain_dict_of_as_many_is_begun() -> None:
    places = small()
    values, gather = like(places), of(places)

    assert not gather.begin(Own(values))
    assert not gather.begin(list(values.values()))
    assert not gather.begin(values | {"more": values["p1"]})
    assert not gather.begin({})


def test_dict_from_which_a_name_was_removed_meanwhile_ends_early() -> None:
    places = small()
    values, gather = like(places), of(places)
    assert gather.begin(values)
    assert gather.copy(values, MANY - 1)

    values.popitem()

    assert not gather.copy(values, 1)


def test_dict_with_holes_is_read_past_them() -> None:
    places = small()
    others = {f"other{number}": None for number in range(50)}
    values: Values = {**others, **like(places)}
    for name in others:
        del values[name]
    gather = of(places)

    assert gather.begin(values)
    assert gather.copy(values, MANY)
    assert all((place == values[name]).all() for name, place in places.items())


def test_no_reference_is_counted_up_or_down() -> None:
    places = small()
    values, gather = like(places), of(places)
    seen = weakref.ref(values["p3"])
    for _ in range(50):
        assert gather.begin(values)
        assert gather.copy(values, MANY)

    assert seen() is values["p3"]
    values.clear()
    gc.collect()
    assert seen() is None


def test_few_places_are_left_to_others() -> None:
    places = small()

    assert dict_gather(places) is not None
    assert dict_gather(dict(list(places.items())[:FEW])) is None


def test_arrays_that_begin_otherwise_than_expected_are_left_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Longer(ctypes.Structure):
        """As if something were counted before the bytes."""

        _fields_ = (
            *module._Header._fields_[:2],
            ("more", ctypes.c_void_p),
            *module._Header._fields_[2:],
        )

    monkeypatch.setattr(module, "_Header", Longer)
    module._can_be_relied_on.cache_clear()
    try:
        assert dict_gather(small()) is None
    finally:
        module._can_be_relied_on.cache_clear()
