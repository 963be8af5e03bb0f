"""Session.run: the structure of what is fetched, and of what comes back."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.tf1.look import makes_case, run, tf


class Pair(NamedTuple):
    first: Any
    second: Any


class Row(list):  # type: ignore[type-arg]
    pass


def nodes() -> tuple[Any, Any]:
    """Return the tensors `a:0` and `b:0`."""
    return tf.constant(3.0, name="a"), tf.constant([1, 2], name="b")


Fetch = Any

GOOD: dict[str, Callable[[Any, Any], Fetch]] = {
    "a_tensor": lambda a, b: a,
    "a_vector": lambda a, b: b,
    "an_operation": lambda a, b: a.op,
    "the_name_of_an_operation": lambda a, b: "a",
    "the_name_of_a_tensor": lambda a, b: "a:0",
    "a_name_in_bytes": lambda a, b: b"a:0",
    "a_list": lambda a, b: [a, b],
    "a_list_of_one": lambda a, b: [a],
    "a_subclass_of_list": lambda a, b: Row([a, b]),
    "a_tuple": lambda a, b: (a, b.op),
    "a_tuple_of_one": lambda a, b: (a,),
    "a_namedtuple": lambda a, b: Pair(a, b),
    "a_dict": lambda a, b: {"x": a, "y": b.op},
    "a_dict_keeps_its_order": lambda a, b: {"y": a, "x": b},
    "a_dict_with_numbers_as_keys": lambda a, b: {1: a, 2: b},
    "an_ordered_dict": lambda a, b: collections.OrderedDict([("y", a), ("x", b)]),
    "a_nested_structure": lambda a, b: {"x": [a, (b, Pair(a, {"z": b}))], "y": ()},
    "an_empty_list": lambda a, b: [],
    "an_empty_tuple": lambda a, b: (),
    "an_empty_dict": lambda a, b: {},
    "empty_things_inside": lambda a, b: [[], (), {}, a],
    "the_same_twice": lambda a, b: [a, a, (a,)],
    "a_list_of_names": lambda a, b: ["a:0", "b:0", "b"],
}

BAD: dict[str, Callable[[Any, Any], Fetch]] = {
    "none": lambda a, b: None,
    "none_inside_a_list": lambda a, b: [a, None],
    "none_inside_a_dict": lambda a, b: {"x": None},
    "an_int": lambda a, b: 3,
    "a_float": lambda a, b: 3.0,
    "an_array": lambda a, b: np.ones(2),
    "a_set": lambda a, b: {"a:0"},
    "a_generator": lambda a, b: (item for item in [a]),
    "an_unknown_operation": lambda a, b: "moon",
    "an_unknown_tensor": lambda a, b: "moon:0",
    "an_output_that_does_not_exist": lambda a, b: "a:1",
    "an_output_that_is_a_word": lambda a, b: "a:b",
    "an_empty_name": lambda a, b: "",
    "a_name_with_two_colons": lambda a, b: "a:0:0",
    "an_object": lambda a, b: object(),
    "a_graph": lambda a, b: a.graph,
    "a_shape": lambda a, b: a.shape,
}


@makes_case
def fetched(fetch: Callable[[Any, Any], Fetch]) -> Any:
    a, b = nodes()
    return run(fetch(a, b))


def case_fetch_a_tensor_of_another_graph() -> Any:
    nodes()
    with tf.Graph().as_default():
        stranger = tf.constant(1)
    return run(stranger)


CASES = {f"fetch_{name}": fetched(fetch) for name, fetch in {**GOOD, **BAD}.items()}
