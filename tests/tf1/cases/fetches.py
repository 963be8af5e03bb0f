"""Session.run: the structure of what is fetched, and of what comes back."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Pair(NamedTuple):
    first: Any
    second: Any


class Row(list):  # type: ignore[type-arg]
    pass


def nodes(tf: Any) -> tuple[Any, Any]:
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
    "a_generator": lambda a, b: (one for one in [a]),
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


def fetched(fetch: Callable[[Any, Any], Fetch]) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        a, b = nodes(tf)
        with tf.Session() as session:
            return session.run(fetch(a, b))

    return case


CASES = {f"fetch_{name}": fetched(fetch) for name, fetch in {**GOOD, **BAD}.items()}


def case_fetch_a_defaultdict(tf: Any) -> Any:
    a, _ = nodes(tf)
    fetch = collections.defaultdict(list)
    fetch["x"] = a
    with tf.Session() as session:
        return type(session.run(fetch)).__name__


def case_an_empty_fetch_comes_back_as_another_object(tf: Any) -> Any:
    nodes(tf)
    with tf.Session() as session:
        return [session.run([[], ()]), session.run({"x": []})]


def case_the_kinds_of_what_comes_back(tf: Any) -> Any:
    fetches = [
        tf.constant(3.0),
        tf.constant(3),
        tf.constant(3.0, tf.float64),
        tf.constant(True),
        tf.constant([3.0]),
        tf.constant("text"),
        tf.constant(["text"]),
    ]
    with tf.Session() as session:
        return [type(one).__name__ for one in session.run(fetches)]


def case_text_comes_back_as_bytes(tf: Any) -> Any:
    texts = [tf.constant("é"), tf.constant(["a", "bc"]), tf.constant([[b"x"]])]
    with tf.Session() as session:
        return session.run(texts)


def case_an_empty_array_keeps_its_shape(tf: Any) -> Any:
    with tf.Session() as session:
        return session.run([tf.zeros([0, 3]), tf.constant([], tf.int64)])


def case_fetch_a_variable(tf: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        session.run(variable.initializer)
        return session.run({"v": variable, "w": [variable.name]})


def case_fetch_indexed_slices(tf: Any) -> Any:
    slices = tf.IndexedSlices(
        tf.constant([[1.0], [2.0]]), tf.constant([0, 3]), tf.constant([4, 1])
    )
    with tf.Session() as session:
        return session.run(slices)


def case_fetch_a_sparse_tensor(tf: Any) -> Any:
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
    with tf.Session() as session:
        return session.run(sparse)


def case_fetch_a_tensor_of_another_graph(tf: Any) -> Any:
    nodes(tf)
    with tf.Graph().as_default():
        stranger = tf.constant(1)
    with tf.Session() as session:
        return session.run(stranger)


def case_fetch_a_group(tf: Any) -> Any:
    a, b = nodes(tf)
    with tf.Session() as session:
        return session.run(tf.group(a, b)), session.run(tf.no_op())


def case_an_operation_runs_once_however_often_it_is_fetched(tf: Any) -> Any:
    count = tf.Variable(0)
    more = count.assign_add(1)
    with tf.Session() as session:
        session.run(count.initializer)
        found = session.run([more, more.op, [more], {"x": more}])
        return found, session.run(count)


def case_what_is_not_fetched_does_not_run(tf: Any) -> Any:
    count = tf.Variable(0)
    count.assign_add(1)
    seven = tf.constant(7)
    with tf.Session() as session:
        session.run(count.initializer)
        session.run(seven)
        return session.run(count)


def case_a_fetched_array_belongs_to_the_caller(tf: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        session.run(variable.initializer)
        found = session.run(variable)
        if found.flags.writeable:
            found[0] = 9.0
        return session.run(variable)


def case_fetch_from_a_server(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    a, b = nodes(tf)
    with tf.Session(server.target) as session:
        return session.run({"x": [a, (b, a.op)], "y": Pair("a:0", []), "z": "b"})


def case_fetch_a_tensor_that_is_marked(tf: Any) -> Any:
    a, _ = nodes(tf)
    graph = tf.get_default_graph()
    before = graph.is_fetchable(a)
    graph.prevent_fetching(a.op)
    after = graph.is_fetchable(a)
    with tf.Session() as session:
        try:
            session.run(a)
        except ValueError as error:
            return before, after, type(error).__name__
