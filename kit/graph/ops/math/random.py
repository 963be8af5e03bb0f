"""Random numbers: a stream for each op and session, which seeds make repeatable.

An op's two seeds, the graph's and its own, decide its stream. With neither, the stream
begins at an unpredictable point. Each run draws on; a new session begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.arguments import Ints, given_or_input, numbers_or_input
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.convert import make, tensor
from kit.graph.default import graph_of
from kit.graph.dtypes import DType, dtype_of, name_of
from kit.graph.fold import sizes_of
from kit.graph.graph import Graph
from kit.graph.kernels import random as kernels
from kit.graph.op import Tensor
from kit.graph.ops.math.arithmetic import add, multiply, subtract
from kit.graph.static import Static
from kit.graph.table import Attrs, enter, infer_like

Seeds: TypeAlias = tuple[int, int] | None


def seeds_in(graph: Graph, seed: int | None) -> Seeds:
    """Return the two seeds of the graph's next op, None if nothing is seeded.

    With the graph's seed alone, the op's number in the graph is its own seed.
    """
    own = None if seed is None else int(seed)
    return kernels.seed_pair(graph.seed, own, graph.version)


def uniform(
    shape: Any,
    low: Any = 0.0,
    high: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return floats uniform over low <= x < high; each run draws new ones.

    Parameters
    ----------
    shape : sequence of int or Tensor
        Of the result.
    low, high : float or Tensor, default 0 and 1
        The bounds.
    dtype : dtype, default "float32"
        Of the result.
    seed : int, optional
        Of this op. With it, or with the graph's `seed`, sessions repeat the numbers.
    name : str, optional
        The name of the op.

    Raises
    ------
    TypeError
        The dtype is not of floats.
    """
    wanted = _float_of(dtype)
    if _is_number(low) and _is_number(high):
        bounds = {"low": float(low), "high": float(high)}
        return _draw("RandomUniform", shape, wanted, seed, name, **bounds)
    drawn = _draw("RandomUniform", shape, wanted, seed, None, low=0.0, high=1.0)
    span = subtract(tensor(high, wanted), tensor(low, wanted))
    return add(multiply(drawn, span), tensor(low, wanted), name=name)


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return normally distributed floats; each run draws new ones.

    Parameters
    ----------
    shape : sequence of int or Tensor
        Of the result.
    mean, stddev : float or Tensor, default 0 and 1
        Of the distribution.
    dtype, seed, name
        As for `uniform`.

    Raises
    ------
    TypeError
        The dtype is not of floats.
    """
    return _bell("RandomStandardNormal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return normally distributed floats within two standard deviations.

    Values beyond that are drawn again.

    Parameters
    ----------
    shape, mean, stddev, dtype, seed, name
        As for `normal`.
    """
    return _bell("TruncatedNormal", shape, mean, stddev, dtype, seed, name)


def integers(
    shape: Any,
    low: Any,
    high: Any,
    dtype: Any = "int32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return integers uniform over low <= x < high; each run draws new ones.

    Parameters
    ----------
    shape : sequence of int or Tensor
        Of the result.
    low, high : int or Tensor
        The bounds.
    dtype : {"int32", "int64"}
        Of the result.
    seed, name
        As for `uniform`.

    Raises
    ------
    TypeError
        The dtype is another one.
    ValueError
        No integer lies between the bounds.
    """
    wanted = dtype_of(dtype)
    if wanted.name not in ("int32", "int64"):
        raise TypeError(f"integers are int32 or int64, not {name_of(wanted)}.")
    if not (_is_number(low) and _is_number(high)):
        bounds = [tensor(low, wanted), tensor(high, wanted)]
        return _draw("RandomUniformInt", shape, wanted, seed, name, *bounds)
    if not low < high:
        raise ValueError(f"no integer x has {low} <= x < {high}; give low < high.")
    both = {"low": int(low), "high": int(high)}
    return _draw("RandomUniformInt", shape, wanted, seed, name, **both)


def shuffle(x: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return the rows of x in random order; each run draws a new one.

    Parameters
    ----------
    x : Tensor or array
        Its rows are shuffled.
    seed, name
        As for `uniform`.
    """
    value = tensor(x)
    seeds = seeds_in(value.graph, seed)
    return make("RandomShuffle", value, name=name, seeds=seeds)


def _bell(
    op_type: str,
    shape: Any,
    mean: Any,
    stddev: Any,
    dtype: Any,
    seed: int | None,
    name: str | None,
) -> Tensor:
    wanted = _float_of(dtype)
    if _is_number(mean) and _is_number(stddev):
        curve = {"mean": float(mean), "stddev": float(stddev)}
        return _draw(op_type, shape, wanted, seed, name, **curve)
    drawn = _draw(op_type, shape, wanted, seed, None, mean=0.0, stddev=1.0)
    return add(multiply(drawn, tensor(stddev, wanted)), tensor(mean, wanted), name=name)


def _draw(
    op_type: str,
    shape: Any,
    dtype: DType,
    seed: int | None,
    name: str | None,
    *more: Tensor,
    **attrs: Any,
) -> Tensor:
    sizes, extra = numbers_or_input(shape, "the shape")
    if sizes is not None and min(sizes, default=0) < 0:
        raise ValueError(f"the shape is {list(sizes)}; give sizes of at least 0.")
    inputs = (*extra, *more)
    seeds = seeds_in(graph_of(inputs), seed)
    return make(
        op_type, *inputs, name=name, shape=sizes, dtype=dtype, seeds=seeds, **attrs
    )


def _float_of(dtype: Any) -> DType:
    wanted = dtype_of(dtype)
    if kind_of(wanted) != "f":
        raise TypeError(
            f"these are floating point numbers, not {name_of(wanted)}; for whole ones "
            f"use integers."
        )
    return wanted


def _is_number(value: Any) -> bool:
    return not isinstance(value, ArrayProtocol) and np.ndim(value) == 0


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    sizes = attrs["shape"]
    return [Static(sizes_of(inputs[0]) if sizes is None else sizes, attrs["dtype"])]


def _stream(call: Any, seeds: Seeds) -> kernels.Generator:
    def begin() -> kernels.Generator:
        # The op's number is in the seeds already: they were decided when it was made.
        graph_seed, op_seed = seeds or (None, None)
        return kernels.generator(graph_seed, op_seed, op_number=0, entropy=call.entropy)

    stream: kernels.Generator = call.own(begin)
    return stream


def _drawing(kernel: Callable[..., Any], *settings: str) -> Callable[..., Any]:
    """Make the `forward` of an op whose kernel takes these attributes after a shape."""

    def forward(
        call: Any,
        *inputs: Any,
        shape: Ints | None,
        dtype: DType,
        seeds: Seeds,
        **more: Any,
    ) -> Any:
        sizes = given_or_input(shape, inputs)
        arguments = [more[setting] for setting in settings]
        return kernel(call.xp, _stream(call, seeds), sizes, *arguments, dtype)

    return forward


def _integers(
    call: Any,
    *inputs: Any,
    shape: Ints | None,
    dtype: DType,
    seeds: Seeds,
    low: int | None = None,
    high: int | None = None,
) -> Any:
    sizes = given_or_input(shape, inputs)
    if low is None or high is None:
        low, high = (int(seed) for seed in inputs[-2:])
    stream = _stream(call, seeds)
    return kernels.random_uniform(call.xp, stream, sizes, low, high, dtype)


def _shuffle(call: Any, value: Any, *, seeds: Seeds) -> Any:
    return kernels.shuffle(call.xp, _stream(call, seeds), value)


_DRAWS: dict[str, Callable[..., Any]] = {
    "RandomUniform": _drawing(kernels.random_uniform, "low", "high"),
    "RandomStandardNormal": _drawing(kernels.random_normal, "mean", "stddev"),
    "TruncatedNormal": _drawing(kernels.truncated_normal, "mean", "stddev"),
    "RandomUniformInt": _integers,
}
for _name, _forward in _DRAWS.items():
    enter(_name, _infer, _forward, stateful=True, sizes_from=0)
enter("RandomShuffle", infer_like(0), _shuffle, stateful=True)
