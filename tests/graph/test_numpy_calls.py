"""Numpy code on tensors gives what the same code gives on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit.graph.ops
from kit.graph.array_protocol import OperatorNotAllowedInGraphError
from kit.graph.graph import Graph
from kit.graph.ops.state.source import placeholder
from kit.session.client.session import Session
from tests.cases import for_each
from tests.graph.cases.case import evaluate, listed, numbers

assert kit.graph.ops  # fills the tables

Code = Callable[..., Any]

A = numbers(1, 2, 3)
INTS = np.array([[3, -1, 2], [0, 5, -4]], np.int32)


FUNCTIONS: dict[str, Code] = {
    "add": lambda x: np.add(x, 1),
    "subtract": lambda x: np.subtract(x, np.float32(2)),
    "multiply": lambda x: np.multiply(x, 2.5),
    "divide": lambda x: np.divide(x, 4),
    "power": lambda x: np.power(x, 2),
    "floor_divide": lambda x: x // 2,
    "remainder": lambda x: x % 3,
    "fmod": lambda x: np.fmod(x, 3),
    "matmul": lambda x: np.matmul(x, x.T),
    "dot of matrices": lambda x: np.dot(x, x.T),
    "dot of vectors": lambda x: np.dot(x[0], x[1]),
    "matrix times vector": lambda x: x @ x[0],
    "vector times matrix": lambda x: x[:, 1] @ x,
    "outer": lambda x: np.outer(x[0], x[1]),
    "sum": np.sum,
    "sum along an axis": lambda x: np.sum(x, axis=-1, keepdims=True),
    "sum as a method": lambda x: x.sum(0),
    "add.reduce": lambda x: np.add.reduce(x),
    "mean": lambda x: np.mean(x, axis=0),
    "prod": lambda x: np.prod(x, axis=1),
    "max": lambda x: np.max(x, axis=0),
    "amin": lambda x: np.amin(x),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argmin": np.argmin,
    "all": lambda x: np.all(x, axis=1),
    "any": lambda x: np.any(x > 100),
    "var": lambda x: np.var(x, axis=1, ddof=1),
    "std": np.std,
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "norm of a vector": lambda x: np.linalg.norm(x[0], 1),
    "reshape": lambda x: np.reshape(x, (3, -1)),
    "reshape as a method": lambda x: x.reshape(-1, 2),
    "transpose": np.transpose,
    "transpose with an order": lambda x: x.transpose(1, 0),
    "swapaxes": lambda x: np.swapaxes(x[None], 0, 2),
    "moveaxis": lambda x: np.moveaxis(x[None, :, :, None], 1, -1),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "squeeze": lambda x: np.squeeze(x[:1]),
    "concatenate": lambda x: np.concatenate([x, x * 2], axis=1),
    "concatenate flat": lambda x: np.concatenate([x, x], axis=None),
    "stack": lambda x: np.stack([x, x], axis=-1),
    "vstack": lambda x: np.vstack([x[0], x]),
    "hstack": lambda x: np.hstack([x, x]),
    "split": lambda x: np.split(x, 3, axis=1),
    "split at indices": lambda x: np.split(x, [1], axis=1),
    "where": lambda x: np.where(x > 0, x, -1),
    "argwhere": lambda x: np.argwhere(x > 0),
    "clip": lambda x: np.clip(x, -1, 2),
    "clip on one side": lambda x: np.clip(x, None, 1),
    "maximum": lambda x: np.maximum(x, 0),
    "minimum": lambda x: np.minimum(x, x[0]),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": lambda x: np.log(np.abs(x) + 1),
    "log1p": lambda x: np.log1p(x * x),
    "sqrt": lambda x: np.sqrt(x * x),
    "square": np.square,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "abs": np.abs,
    "builtin abs": abs,
    "negative": lambda x: -x,
    "reciprocal": lambda x: np.reciprocal(x + 10.5),
    "sign": np.sign,
    "floor": lambda x: np.floor(x / 2),
    "ceil": lambda x: np.ceil(x / 2),
    "rint": lambda x: np.rint(x / 2),
    "round": np.round,
    "round to tenths": lambda x: np.round(x / 3, 1),
    "round to tens": lambda x: np.round(x * 7, -1),
    "isfinite": np.isfinite,
    "zeros_like": np.zeros_like,
    "ones_like": lambda x: np.ones_like(x, dtype=np.float32),
    "full_like": lambda x: np.full_like(x, 7),
    "take": lambda x: np.take(x, [2, 0, -1], axis=1),
    "take of all": lambda x: np.take(x, [5, 0]),
    "pad": lambda x: np.pad(x, 1),
    "pad reflect": lambda x: np.pad(x, ((0, 0), (1, 2)), mode="reflect"),
    "tile": lambda x: np.tile(x, (2, 1, 2)),
    "tile short": lambda x: np.tile(x, 2),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 2, 3)),
    "ravel": np.ravel,
    "flip": np.flip,
    "diag": lambda x: np.diag(x[0]),
    "diagonal part": lambda x: np.diag(x),
    "astype": lambda x: x.astype(np.float64),
    "np.astype": lambda x: np.astype(x, np.int64),
    "comparison": lambda x: x <= 1,
    "logic": lambda x: (x > 0) & ~(x > 2) | (x < -1) ^ (x > 3),
    "reflected": lambda x: 2 - x + (3 * x) / 4,
    "array on the left": lambda x: np.array([1, 2, 3], np.float32) * x,
    "numpy number on the left": lambda x: np.float64(2) * x,
    "slices": lambda x: x[::-1, 1:][:, -1],
    "rows": lambda x: x[[1, 0, 1]],
    "shape": lambda x: x * np.shape(x)[0] + np.ndim(x) + np.size(x),
}


@for_each("inputs", [A, INTS], ["floats", "integers"])
@for_each("function", FUNCTIONS.values(), FUNCTIONS)
def test_a_function_of_numpy_does_the_same_to_a_tensor(
    function: Code, inputs: npt.NDArray[Any]
) -> None:
    expected = listed(function(inputs))
    x = placeholder(inputs.dtype, inputs.shape)

    with Session() as session:
        result = session.run(listed(function(x)), {x: inputs})

    for value, wanted in zip(result, expected, strict=True):
        assert np.asarray(value).dtype == np.asarray(wanted).dtype
        assert np.shape(value) == np.shape(wanted)
        np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-7)


BINARY: list[Code] = [
    lambda x, y: x + y,
    lambda x, y: x - y * 2,
    lambda x, y: np.maximum(x, y),
    lambda x, y: np.where(x > y, x, y),
    lambda x, y: x / (np.abs(y) + 1.5),
    lambda x, y: np.tanh(x) * y,
    lambda x, y: np.stack([x, y]).mean(axis=0),
    lambda x, y: np.concatenate([x, y], axis=-1)[..., : x.shape[-1]],
]
UNARY: list[Code] = [
    lambda x: x.T.T,
    lambda x: -x,
    lambda x: x - np.mean(x, axis=0),
    lambda x: np.clip(x, -2, 2.5),
    lambda x: x[::-1],
    lambda x: x * np.float32(0.5),
    lambda x: np.sqrt(np.abs(x)),
    lambda x: x.reshape(-1).reshape(np.shape(x)),
    lambda x: np.round(x),
    lambda x: x @ np.ones((3, 3), np.float32) / 3,
]
DTYPES = st.sampled_from(["float32", "float64", "int32", "int64", "float16"])


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[str], int]:
    """Steps of a program: (number of a function, which earlier values it takes)."""
    count = draw(st.integers(1, 6))
    steps: list[tuple[int, ...]] = []
    for i in range(count):
        earlier = st.integers(0, i + 1)
        unary = st.tuples(st.integers(0, len(UNARY) - 1), earlier)
        binary = st.tuples(st.integers(0, len(BINARY) - 1), earlier, earlier)
        steps.append(draw(st.one_of(unary, binary)))
    return steps, [draw(DTYPES), draw(DTYPES)], draw(st.integers(0, 1000))


@given(programs())
def test_a_program_of_numpy_is_the_same_on_tensors(program: Any) -> None:
    steps, dtypes, seed = program
    arrays = [
        (numbers(seed + i, 3, 3) * 3).astype(item) for i, item in enumerate(dtypes)
    ]

    def code(*xs: Any) -> list[Any]:
        values = list(xs)
        for function, *which in steps:
            table = UNARY if len(which) == 1 else BINARY
            values.append(table[function](*[values[i] for i in which]))
        return values[2:]

    with np.errstate(all="ignore"):
        expected = code(*arrays)
    with Graph().as_default():
        xs = [placeholder(array.dtype, array.shape) for array in arrays]
        results = code(*xs)
        with np.errstate(all="ignore"):
            outputs = evaluate(np, results, dict(zip(xs, arrays, strict=True)))

    for value, wanted, result in zip(outputs, expected, results, strict=True):
        assert value.dtype == wanted.dtype == result.static.dtype
        assert value.shape == wanted.shape == result.static.shape
        loose = 2e-2 if value.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(value, wanted, rtol=loose, atol=loose)


def test_a_function_without_an_op_is_refused_by_name() -> None:
    x = placeholder("float64", (3,))

    with pytest.raises(TypeError, match=r"numpy\.cumprod"):
        np.cumprod(x)
    with pytest.raises(TypeError, match=r"np\.copysign"):
        np.copysign(x, x)


def test_an_out_argument_is_refused() -> None:
    x = placeholder("float64", (3,))

    with pytest.raises(TypeError, match="out"):
        np.add(x, 1, out=np.zeros(3))


def test_a_tensor_has_no_truth_no_items_and_no_number() -> None:
    x = placeholder("float64", (3,))

    with pytest.raises(OperatorNotAllowedInGraphError):
        bool(x)
    with pytest.raises(OperatorNotAllowedInGraphError):
        list(x)
    with pytest.raises(TypeError, match="session"):
        float(x)
    with pytest.raises(TypeError, match="session"):
        np.asarray(x)


def test_two_tensors_are_equal_only_if_they_are_one() -> None:
    x, y = placeholder("float64", (3,)), placeholder("float64", (3,))

    assert x == x
    assert x != y
    assert len({x, y, x}) == 2


def test_an_unknown_size_is_a_tensor_and_a_known_one_a_number() -> None:
    expected, unknown = (
        placeholder("float64", (3, 4)),
        placeholder("float64", (None, 4)),
    )

    assert np.shape(expected) == (3, 4)
    assert np.size(expected) == 12
    assert np.size(unknown, 1) == 4
    (value,) = evaluate(np, [np.size(unknown)], {unknown: np.zeros((5, 4))})  # type: ignore[list-item]
    assert value == 20


def test_python_numbers_take_the_dtype_of_the_tensor() -> None:
    x = placeholder("float16", (3,))

    assert (2.5 * x + 1).dtype == np.float16
    assert (x + np.float64(1)).dtype == np.float64
    assert (placeholder("int32", ()) * 2.0).dtype == np.float64
