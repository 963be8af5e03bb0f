"""What a case tells of a tensor: the few words that the cases of many topics share.

Runs under the interpreters of the recorded systems too, so it stays with the syntax of
Python 3.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.tf1.folders import in_folder

if TYPE_CHECKING:  # Python 3.7 cannot evaluate this
    Case = Callable[[Any], Any]


def run(
    tf: Any, fetches: Any, feeds: Any = None, target: Any = "", config: Any = None
) -> Any:
    """Run `fetches` once in a session of the default graph, by default a local one."""
    with tf.Session(target, config=config) as session:
        return session.run(fetches, feeds)


@contextmanager
def initialized(tf: Any) -> Iterator[Any]:
    """Give a local session in which all global variables have their initial values."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yield session


def started(tf: Any, fetches: Any) -> Any:
    """Run `fetches` once in such a session."""
    with initialized(tf) as session:
        return session.run(fetches)


def static(tensor: Any) -> dict[str, Any]:
    """Tell what is known of `tensor` while the graph is built."""
    shape = tensor.get_shape()
    return {
        "name": tensor.name,
        "dtype": tensor.dtype.base_dtype.name,
        "shape": None if shape.ndims is None else shape.as_list(),
    }


def facts(tf: Any, tensor: Any, feeds: Any = None) -> dict[str, Any]:
    """Tell name, dtype, static shape and value of `tensor`."""
    return {**static(tensor), "value": run(tf, tensor, feeds)}


def makes_case(function: Callable[..., Any]) -> Callable[..., Case]:
    """Let a function of `tf` and more return a case when it is called with the rest.

        @makes_case
        def power(tf, x, y):
            return run(tf, tf.pow(x, y))

        CASES = {"a_square": power(3.0, 2.0), "a_root": power(3.0, y=0.5)}

    A second argument called `folder` is an empty one for each case, one called
    `session` a local session of the default graph.
    """
    code = function.__code__
    extra = code.co_varnames[1 : code.co_argcount][:1]

    def case_of(*args: Any, **named: Any) -> Case:
        def with_session(tf: Any) -> Any:
            with tf.Session() as session:
                return function(tf, session, *args, **named)

        if extra == ("session",):
            return with_session
        if extra == ("folder",):
            return in_folder(lambda tf, folder: function(tf, folder, *args, **named))
        return lambda tf: function(tf, *args, **named)

    return case_of
