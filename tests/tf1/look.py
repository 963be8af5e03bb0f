"""What a case tells of a tensor: the few words that the cases of many topics share.

Runs under the interpreters of the recorded systems too, so it stays with the syntax of
Python 3.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    """Run `fetches` once in a local session of the default graph."""
    with tf.Session() as session:
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


def told(tf: Any, tensor: Any, feeds: Any = None) -> dict[str, Any]:
    """Tell name, dtype, static shape and value of `tensor`."""
    return {**static(tensor), "value": run(tf, tensor, feeds)}
