"""What cannot travel to other processes is named, with the way to it."""

from __future__ import annotations

import pickle
import threading
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest

from kit.errors import InvalidArgumentError
from kit.pickling import changed_by, dumps
from tests.cases import for_each

guard = threading.Lock()


def with_a_helper() -> Any:
    numbers = (n for n in range(3))

    def helper() -> int:
        return next(numbers)

    def step(params: Any, batch: Any) -> Any:
        return helper()

    return step


def of_a_class() -> Any:
    class Model:
        def __init__(self) -> None:
            self.guard = threading.RLock()

        def step(self, params: Any, batch: Any) -> Any:
            return 0.0

    Model.__module__ = "__main__"
    return Model().step


def of_a_notebook(function: Any) -> Any:
    function.__module__ = "__main__"
    return function


def cached() -> Any:
    squares = of_a_notebook(lru_cache(lambda n: n * n))
    return lambda: squares(3)


# Nested functions travel by value, as those of a notebook do.
@for_each(
    ("step", "named", "way"),
    [
        (lambda: with_a_helper(), "'numbers', a generator", "helper -> numbers"),
        (lambda: cached(), "'squares', a functools._lru_cache_wrapper", "squares"),
        (lambda: partial(print, guard), "_thread.lock", "argument 0"),
        (lambda: of_a_class(), "'guard', a _thread.RLock", "self -> guard"),
    ],
)
def test_what_cannot_travel_is_named_with_the_way_to_it(
    step: Any, named: str, way: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        dumps({"step": step()}, "the training")

    assert named in caught.value.message
    assert way in caught.value.message


def test_arrays_go_beside_the_pickle() -> None:
    beside: list[Any] = []

    text = dumps({"x": np.arange(1000.0)}, "the data", lambda item: beside.append(item))

    assert len(text) < 500
    assert pickle.loads(text, buffers=beside)["x"].sum() == 499500


# -- what code changes where it comes from --------------------------------------------


losses: list[float] = []
sizes = {"width": 3}
n_seen = 0


def note(loss: float) -> None:
    losses.append(loss)


class Keeping:
    """What it keeps lies in its module."""

    def __init__(self) -> None:
        self.own: list[int] = []

    def after_run(self) -> None:
        self.own.append(sizes["width"])
        note(0.5)

    def end(self) -> None:
        global n_seen
        n_seen += 1


def counting() -> Any:
    counts, n = {"n": 0}, 0

    def count(params: Any, batch: Any) -> Any:
        nonlocal n
        n += 1
        counts["n"] += sizes["width"]
        return [losses for losses in params]  # another one of the same name

    return count


class Itself:
    """A function that it has refers to it, and so it does in a task."""

    def __init__(self) -> None:
        self.last = 0.0

        def measure(loss: float) -> None:
            self.last = loss

        self.measure = measure


@for_each(
    ("code", "names"),
    [
        (Keeping(), ["losses", "n_seen"]),
        (Keeping().end, ["losses", "n_seen"]),
        (note, ["losses"]),
        (partial(note, 0.5), ["losses"]),
        (counting(), ["counts", "n"]),
        (Itself(), []),
        (with_a_helper(), []),
        (len, []),
    ],
)
def test_what_code_changes_of_its_module_and_of_outer_functions_is_named(
    code: Any, names: list[str]
) -> None:
    assert sorted(changed_by(code)) == names
