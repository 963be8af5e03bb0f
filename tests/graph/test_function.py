"""Python functions as ops: what they get, what they may return, how they fail."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    OutOfRangeError,
    UnknownError,
)
from kit.graph.gradients import gradients
from kit.graph.graph import Graph
from kit.graph.ops.state.function import function_of, py_function, take
from kit.graph.ops.state.source import constant, placeholder
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from tests.cases import for_each


def run(fetches: Any, feeds: Any = None) -> Any:
    with Session() as session:
        return session.run(fetches, feeds)


def test_function_gets_arrays_and_its_results_are_tensors() -> None:
    seen: list[Any] = []

    def both(x: Any, text: Any, number: Any) -> Any:
        seen.extend([x, text, number])
        return x.sum(axis=0), [text, b"end"]

    x = placeholder("float64", (None, 2))
    inputs = [x, constant("begin"), constant(3)]
    total, texts = py_function(both, inputs, ["float64", "string"], [[2], None])

    result = run([total * 2, texts], {x: [[1, 2], [3, 4]]})

    assert (total.shape, texts.shape) == ((2,), None)
    assert result[0].tolist() == [8, 12]
    assert result[1].tolist() == [b"begin", b"end"]
    assert isinstance(seen[0], np.ndarray)
    assert (type(seen[1]), type(seen[2])) == (bytes, np.int32)


def test_function_is_called_once_in_each_run_and_never_before() -> None:
    calls: list[int] = []

    def count() -> int:
        calls.append(1)
        return len(calls)

    counted = py_function(count, [], "int32")
    before = len(calls)

    with Session() as session:
        result = [session.run([counted + 1, counted]) for _ in range(3)]

    assert before == 0
    assert result == [[2, 1], [3, 2], [4, 3]]


def test_function_without_results_is_an_op(graph: Graph) -> None:
    seen: list[float] = []
    op = py_function(lambda x: seen.append(float(x)), [constant(2.5)], [])

    assert run(op) is None
    assert (op.type, seen) == ("PyFunc", [2.5])


def test_one_result_may_be_a_list_of_numbers() -> None:
    assert run(py_function(lambda: [1.0, 2.0], [], "float32")).tolist() == [1, 2]
    assert run(py_function(lambda: [[1.0, 2.0]], [], ["float32"]))[0].tolist() == [1, 2]


def test_function_cannot_change_what_others_hold() -> None:
    w = Variable(np.zeros(3, np.float32))

    def spoil(x: Any) -> Any:
        x[0] = 1
        return x

    spoiled = py_function(spoil, [w], "float32")
    with Session() as session:
        session.run(initialize_all())
        with pytest.raises(InvalidArgumentError, match="read-only"):
            session.run(spoiled)

        assert not session.run(w).any()


def test_function_may_go_on_to_change_what_it_returned() -> None:
    buffer = np.zeros(2)

    def counted() -> Any:
        buffer[:] += 1
        return buffer[::-1]

    result = py_function(counted, [], "float64")
    with Session() as session:
        first, second = session.run(result), session.run(result)

    assert (first.tolist(), second.tolist()) == ([1, 1], [2, 2])


WRONG: dict[str, tuple[str, Callable[[], Any], Any, Any]] = {
    "dtype": ("is float64, and float32", lambda: np.ones(2), "float32", None),
    "fraction as integer": ("1.5", lambda: 1.5, "int32", None),
    "number as text": ("string", lambda: 3, "string", None),
    "nothing": ("None", lambda: None, "float32", None),
    "shape": (r"\[2\], and \[3\]", lambda: [1.0, 2.0], "float32", [3]),
    "count": ("returned 2 .* 1 were", lambda: (1.0, 2.0), ["float32"], None),
    "one for two": ("returned 1 .* 2 were", lambda: 1.0, ["float32"] * 2, None),
}


@for_each(("words", "function", "dtypes", "shapes"), WRONG.values(), ids=WRONG)
def test_result_that_was_not_announced_ends_the_run(
    words: str, function: Callable[[], Any], dtypes: Any, shapes: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        run(py_function(function, [], dtypes, shapes))


def test_exact_results_are_what_numpy_makes_of_them() -> None:
    single, double, several = (
        py_function(function, [], "float32", is_exact=True)
        for function in (lambda: np.float32(2), lambda: 2.0, lambda: [2.0, 3.0])
    )

    assert run(single) == 2
    with pytest.raises(InvalidArgumentError, match="float64"):
        run(double)
    with pytest.raises(InvalidArgumentError, match="2 values"):
        run(several)


FAILURES: dict[str, tuple[type[BaseException], type[KitError]]] = {
    "value": (ValueError, InvalidArgumentError),
    "arithmetic": (ZeroDivisionError, InvalidArgumentError),
    "end": (StopIteration, OutOfRangeError),
    "anything": (OSError, UnknownError),
    "exit": (SystemExit, UnknownError),
    "ours": (AbortedError, AbortedError),
}


@pytest.mark.parametrize(("raised", "expected"), FAILURES.values(), ids=FAILURES)
def test_what_it_raises_arrives_with_traceback_op_and_task(
    raised: type[BaseException], expected: type[KitError]
) -> None:
    def unlucky() -> Any:
        raise raised("no luck today")

    bad = py_function(unlucky, [], "float32", name="dice")

    with pytest.raises(expected, match="no luck today") as caught:
        run(bad)

    error = caught.value
    assert "'dice'" in error.message
    assert "localhost" in str(error.task)
    assert error.remote_traceback is not None
    assert "in unlucky" in error.remote_traceback


def test_no_gradient_flows_through_a_function() -> None:
    x = constant([1.0])

    assert gradients(py_function(lambda x: x, [x], "float32"), x) == [None]


def test_function_lives_as_long_as_its_graph() -> None:
    class Callable_:
        def __call__(self) -> float:
            return 1.0

    function = Callable_()
    gone = weakref.ref(function)
    graph = Graph()
    with graph.as_default():
        token = py_function(function, [], "float32").op.attrs["token"]
    del function
    gc.collect()
    kept = function_of(token)

    del graph, kept
    gc.collect()

    assert gone() is None
    assert function_of(token) is None


def test_function_that_is_not_here_is_an_error_that_says_where_it_would_be(
    graph: Graph,
) -> None:
    op = graph.create(
        "PyFunc",
        token="elsewhere",
        dtypes=(np.dtype("float32"),),
        shapes=(None,),
        is_exact=False,
        is_one=True,
    )

    with pytest.raises(FailedPreconditionError, match="process that made the op"):
        run(op.outputs[0])
    take({"elsewhere": lambda: 4.0})

    assert run(op.outputs[0]) == 4


def test_what_cannot_be_called_and_shapes_that_do_not_match_are_refused() -> None:
    with pytest.raises(TypeError, match="called"):
        py_function(3, [], "float32")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 shapes for 2"):
        py_function(lambda: (1, 2), [], ["int32", "int32"], [[2]])
