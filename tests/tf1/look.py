"""What recorded cases share: the module that they try, and what they tell of a tensor.

The module is `kit.tf1`, unless `record.py` has put an original in its place. Runs under
the interpreters of the recorded systems too, so it stays with the syntax of Python 3.7.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.tf1.folders import in_folder

if TYPE_CHECKING:
    Case = Callable[[], Any]
else:
    Case = None  # Python 3.7 cannot evaluate this


class Tried:
    """Has the names of the module that is tried."""

    def __init__(self) -> None:
        self.module: Any = None

    def __getattr__(self, name: str) -> Any:
        if self.module is None:
            self.module = importlib.import_module("kit.tf1")
        return getattr(self.module, name)


tf: Any = Tried()


def inner(path: str) -> Any:
    """Import what a program imports from inside: `python.ops.gen_state_ops`."""
    root = "tensorflow" if "tensorflow" in tf.__name__ else "kit.tf1"
    return importlib.import_module(f"{root}.{path}")


def run(fetches: Any, feeds: Any = None, target: Any = "", config: Any = None) -> Any:
    """Run `fetches` once in a session of the default graph, by default a local one."""
    with tf.Session(target, config=config) as session:
        return session.run(fetches, feeds)


@contextmanager
def initialized() -> Iterator[Any]:
    """Give a local session in which all global variables have their initial values."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yield session


@contextmanager
def filled(session: Any) -> Iterator[Any]:
    """Let the queue runners of the graph run; give their coordinator."""
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coord)
    try:
        yield coord
    finally:
        coord.request_stop()  # the runners close their queues then
        coord.join(threads)


def started(fetches: Any) -> Any:
    """Run `fetches` once in such a session."""
    with initialized() as session:
        return session.run(fetches)


def names_of(things: Any) -> list[str]:
    """Tell the names of tensors, variables or operations."""
    return [thing.name for thing in things]


def op_names_of(tensors: Any) -> list[str]:
    """Tell the names of the operations that give tensors or variables."""
    return names_of(tensor.op for tensor in tensors)


def shapes_of(tensors: Any) -> list[Any]:
    """Tell the static shapes of tensors or variables."""
    return [tensor.shape.as_list() for tensor in tensors]


def static(tensor: Any) -> dict[str, Any]:
    """Tell what is known of `tensor` while the graph is built."""
    shape = tensor.get_shape()
    return {
        "name": tensor.name,
        "dtype": tensor.dtype.base_dtype.name,
        "shape": None if shape.ndims is None else shape.as_list(),
    }


def facts(tensor: Any, feeds: Any = None) -> dict[str, Any]:
    """Tell name, dtype, static shape and value of `tensor`."""
    return {**static(tensor), "value": run(tensor, feeds)}


def makes_case(function: Callable[..., Any]) -> Callable[..., Case]:
    """Let a function return a case, which calls it, when it is called.

        @makes_case
        def power(x, y):
            return run(tf.pow(x, y))

        CASES = {"a_square": power(3.0, 2.0), "a_root": power(3.0, y=0.5)}

    A first argument called `folder` is an empty one for each case, one called
    `session` a local session of the default graph.
    """
    code = function.__code__
    extra = code.co_varnames[: code.co_argcount][:1]

    def case_of(*args: Any, **named: Any) -> Case:
        def with_session() -> Any:
            with tf.Session() as session:
                return function(session, *args, **named)

        if extra == ("session",):
            return with_session
        if extra == ("folder",):
            return in_folder(lambda folder: function(folder, *args, **named))
        return lambda: function(*args, **named)

    return case_of


def kind_of(make: Case) -> Case:
    """Return a case: of what kind the thing is that comes out, if anything does."""
    return lambda: type(make()).__name__


def finite_difference(loss: Any, fed: Any, at: Any, step: float = 1e-5) -> Any:
    """Tell the slope of a function at one element of what it is given."""
    change = np.zeros_like(fed)
    change[at] = step
    return (loss(fed + change) - loss(fed - change)) / (2 * step)
