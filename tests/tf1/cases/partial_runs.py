"""Session: runs in parts, and runs prepared as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tests.tf1.look import inner, makes_case, tf

if TYPE_CHECKING:  # Python 3.7 cannot evaluate this
    Use = Callable[[Any, "Parts"], Any]


class Parts(NamedTuple):
    a: Any
    b: Any
    total: Any
    product: Any


def parts() -> Parts:
    """Return two placeholders, their sum, and that times another of them."""
    a = tf.placeholder(tf.float32, [], name="a")
    b = tf.placeholder(tf.float32, [], name="b")
    total = tf.add(a, 1.0, name="total")
    return Parts(a, b, total, tf.multiply(total, b, name="product"))


@makes_case
def use(session: Any, steps: Use) -> Any:
    made = parts()
    return steps(session, made)


def declared(session: Any, p: Parts) -> Any:
    return session.partial_run_setup([p.total, p.product], [p.a, p.b])


def two_parts(session: Any, p: Parts) -> Any:
    handle = declared(session, p)
    first = session.partial_run(handle, p.total, {p.a: 2.0})
    return first, session.partial_run(handle, p.product, {p.b: 10.0 * first})


def feeds_first(session: Any, p: Parts) -> Any:
    handle = declared(session, p)
    nothing = session.partial_run(handle, [], {p.a: 2.0})
    return nothing, session.partial_run(handle, [p.total, p.product], {p.b: 10.0})


def all_at_once(session: Any, p: Parts) -> Any:
    handle = declared(session, p)
    return session.partial_run(
        handle, {"x": p.product, "y": (p.total,)}, {p.a: 1, p.b: 2}
    )


def by_name(session: Any, p: Parts) -> Any:
    handle = session.partial_run_setup(["total:0", "product:0"], ["a:0", "b:0"])
    first = session.partial_run(handle, "total:0", {"a:0": 2.0})
    return first, session.partial_run(handle, "product:0", {"b:0": 10.0})


def two_handles(session: Any, p: Parts) -> Any:
    first, two = declared(session, p), declared(session, p)
    result = [
        session.partial_run(first, p.total, {p.a: 1.0}),
        session.partial_run(two, p.total, {p.a: 2.0}),
        session.partial_run(first, p.product, {p.b: 1.0}),
        session.partial_run(two, p.product, {p.b: 1.0}),
    ]
    return first == two, type(first).__name__, result


def feed_not_declared(session: Any, p: Parts) -> Any:
    handle = session.partial_run_setup([p.total], [p.a])
    return session.partial_run(handle, p.total, {p.a: 1.0, p.b: 2.0})


def fetch_not_declared(session: Any, p: Parts) -> Any:
    handle = session.partial_run_setup([p.total], [p.a])
    return session.partial_run(handle, p.a.op.outputs[0] + 0.0, {p.a: 1.0})


def fetch_that_was_not_named(session: Any, p: Parts) -> Any:
    handle = session.partial_run_setup([p.total], [p.a, p.b])
    return session.partial_run(handle, p.product, {p.a: 1.0, p.b: 2.0})


def feed_twice(session: Any, p: Parts) -> Any:
    handle = declared(session, p)
    session.partial_run(handle, p.total, {p.a: 1.0})
    return session.partial_run(handle, p.product, {p.a: 1.0, p.b: 1.0})


def fetch_twice(session: Any, p: Parts) -> Any:
    handle = declared(session, p)
    session.partial_run(handle, p.total, {p.a: 1.0})
    return session.partial_run(handle, p.total, {p.b: 1.0})


def fetch_too_early(session: Any, p: Parts) -> Any:
    return session.partial_run(declared(session, p), p.product, {p.a: 1.0})


def unknown_handle(session: Any, p: Parts) -> Any:
    return session.partial_run("moon", p.total, {p.a: 1.0})


def finished_handle(session: Any, p: Parts) -> Any:
    handle = declared(session, p)
    session.partial_run(handle, [p.total, p.product], {p.a: 1.0, p.b: 1.0})
    return session.partial_run(handle, p.total, {p.a: 1.0})


STEPS: dict[str, Use] = {
    "a_run_in_two_parts_keeps_what_it_computed": two_parts,
    "feeds_may_be_given_before_anything_is_fetched": feeds_first,
    "all_parts_may_come_at_once": all_at_once,
    "parts_may_be_named": by_name,
    "two_runs_in_parts_do_not_meet": two_handles,
    "a_feed_that_was_not_declared_is_refused": feed_not_declared,
    "a_fetch_that_was_made_later_is_refused": fetch_not_declared,
    "a_fetch_that_was_not_declared_is_refused": fetch_that_was_not_named,
    "a_feed_given_twice_is_refused": feed_twice,
    "a_fetch_taken_twice_is_refused": fetch_twice,
    "a_fetch_without_its_feeds_is_refused": fetch_too_early,
    "an_unknown_handle_is_refused": unknown_handle,
    "a_finished_handle_is_refused": finished_handle,
    "an_operation_in_a_part_is_refused": lambda session, p: session.partial_run(
        declared(session, p), p.total.op, {p.a: 1.0}
    ),
}


def fetched_twice(session: Any, p: Parts) -> Any:
    function = session.make_callable(p.product, [p.a, p.b])
    return function(2.0, 10.0), function(0, 1)


CALLABLES: dict[str, Use] = {
    "a_callable_takes_its_feeds_in_order": fetched_twice,
    "a_callable_of_an_operation_gives_none": lambda session, p: session.make_callable(
        p.total.op, [p.a]
    )(1.0),
    "a_callable_with_too_few_values_is_refused": lambda session, p: (
        session.make_callable(p.product, [p.a, p.b])(1.0)
    ),
    "a_callable_with_a_dict_of_feeds_is_refused": lambda session, p: (
        session.make_callable(p.total, {p.a: 1.0})
    ),
    "a_callable_of_none_is_refused": lambda session, p: session.make_callable(None),
}


@makes_case
def of_options(
    session: Any,
    values: Any = (2.0,),
    connected: Any = (),
    closed: bool = False,
    **names: Any,
) -> Any:
    """Return a case: what a function gives that is made of options, and a count."""
    config_pb2 = inner("core.protobuf.config_pb2")
    parts()
    count = tf.Variable(0, name="count")
    more = tf.assign_add(count, 1, name="more")
    options = config_pb2.CallableOptions(
        **{"feed": ["a:0"], "fetch": ["total:0"], **names}
    )
    for source, target in connected:
        options.tensor_connection.add(from_tensor=source, to_tensor=target)
    session.run(count.initializer)
    function = session._make_callable_from_options(options)
    if closed:
        session.close()
    arrays = [np.array(value, np.float32) for value in values]
    result = [function(*arrays) for _ in range(2)]
    return type(result[0]).__name__, result, session.run(count), more.name


OPTIONS = {
    "options": of_options(),
    "options_with_a_target": of_options(target=["more"]),
    "options_without_fetches": of_options(fetch=[], target=["more"]),
    "options_of_two_feeds": of_options(
        (2.0, 3.0), feed=["a:0", "b:0"], fetch=["product:0", "total"]
    ),
    "options_with_a_connection": of_options(
        connected=[("total:0", "b:0")], fetch=["product:0", "total:0"], target=["more"]
    ),
    "options_with_a_circle": of_options(
        connected=[("product:0", "b:0")], fetch=["product:0"]
    ),
    "options_with_an_unknown_connection": of_options(connected=[("c:0", "b:0")]),
    "options_with_an_unknown_fetch": of_options(fetch=["c:0"]),
    "options_with_an_unknown_feed": of_options(feed=["c:0"]),
    "options_with_too_few_values": of_options(()),
    "options_with_too_many_values": of_options((1.0, 2.0)),
    "options_of_a_closed_session": of_options(closed=True),
}


CASES = {
    **{name: use(steps) for name, steps in STEPS.items()},
    **{name: use(make) for name, make in CALLABLES.items()},
    **{f"a_callable_of_{name}": case for name, case in OPTIONS.items()},
}
