"""Random tensors: each run draws new numbers, which seeds repeat in each session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.errors import InvalidArgumentError
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.ops.math import random as native
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.arithmetic import cast, log
from kit.tf1.ops.creation import zeros
from kit.tf1.ops.index import slice as slice_of
from kit.tf1.ops.join import concat
from kit.tf1.ops.reduce import argmax
from kit.tf1.ops.shape import expand_dims
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.ops.write import vector
from kit.tf1.tensor.convert import argument, convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import DType, as_dtype, float32, int32, int64, numpy_of

_UNIFORM = ("float16", "bfloat16", "float32", "float64", "int32", "int64")


def set_random_seed(seed: int | None) -> None:
    """Set the default graph's seed, for the random operations made from now on."""
    get_default_graph().seed = seed


_DEFAULT_SEED, _MOST = 87654321, 2**31 - 1


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Return the two seeds of an operation made now, None twice without any."""
    graph = get_default_graph()
    if graph.seed is None and op_seed is None:
        return None, None
    pair = (
        _DEFAULT_SEED if graph.seed is None else graph.seed,
        graph.version if op_seed is None else op_seed,
    )
    low, high = (number % _MOST for number in pair)
    return (0, _MOST) if (low, high) == (0, 0) else (low, high)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return normally distributed numbers; each run draws new ones."""
    curve = {"mean": mean, "stddev": stddev}
    return _drawn("random_normal", native.normal, shape, curve, dtype, seed, name)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return normally distributed numbers within two standard deviations."""
    curve = {"mean": mean, "stddev": stddev}
    draw = native.truncated_normal
    return _drawn("truncated_normal", draw, shape, curve, dtype, seed, name)


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return numbers uniform over minval <= x < maxval; each run draws new ones.

    `maxval` defaults to 1; integers need one. Raises `ValueError` for
    another dtype, and for integers without `maxval`; `InvalidArgumentError` for bounds
    between which there is no integer.
    """
    wanted = as_dtype(dtype)
    if wanted.name not in _UNIFORM:
        raise ValueError(f"Invalid dtype {wanted!r}")
    if maxval is None:
        if wanted.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {wanted!r}")
        maxval = 1
    draw: Callable[..., Any] = native.uniform
    if wanted.is_integer:
        draw = native.integers
    bounds = {"low": minval, "high": maxval}
    return _drawn("random_uniform", draw, shape, bounds, dtype, seed, name)


def _drawn(
    default: str,
    draw: Callable[..., Any],
    shape: Any,
    settings: dict[str, Any],
    dtype: Any,
    seed: int | None,
    name: str | None,
) -> Any:
    wanted = as_dtype(dtype)
    with op_scope(name, default, [shape, *settings.values()]) as scope:
        sizes = vector(default, "shape", shape)
        bounds = {key: _setting(key, value, wanted) for key, value in settings.items()}
        for bound in bounds.values():
            if wanted.is_integer and isinstance(bound, ArrayProtocol):
                convert_to_tensor(bound).shape.assert_has_rank(0)
        low, high = bounds.get("low"), bounds.get("high")
        is_nothing = isinstance(sizes, list) and 0 in sizes
        if wanted.is_integer and isinstance(low, int) and isinstance(high, int):
            if is_nothing:
                return zeros(sizes, wanted, name=scope)
            _check_between(low, high)
        return draw(sizes, **bounds, dtype=numpy_of(wanted), seed=seed, name=scope)


def _check_between(low: int, high: int) -> None:
    if not low < high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")


def _setting(name: str, value: Any, dtype: DType) -> Any:
    """Return a number that `dtype` can hold as it is, and a tensor unchanged."""
    tensor = convert_to_tensor(value, dtype, name=name)
    static_value = None if isinstance(value, ArrayProtocol) else tensor.static.value
    return tensor if static_value is None or static_value.ndim else static_value.item()


def multinomial(
    logits: Any,
    num_samples: Any,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: Any = None,
) -> Any:
    """Return classes drawn anew in each run: [batch, num_samples] of int64.

    `logits` are [batch, classes]: the logarithms of how likely the classes are, up to a
    constant for each row. Raises `ValueError` for another rank.
    """
    with op_scope(name, "multinomial", [logits, num_samples]) as scope:
        weights = convert_to_tensor(logits, name="logits")
        weights.shape.assert_has_rank(2)
        count = convert_to_tensor(num_samples, int32, name="num_samples")
        batch, classes = shape_of(weights)[:1], shape_of(weights)[1:]
        drawn = random_uniform(
            concat([batch, expand_dims(count, 0), classes], 0),
            1e-37,
            1.0,
            weights.dtype,
            seed,
        )
        # The greatest of Gumbel's noise and the logit is the class, as likely as it is.
        chosen = argmax(expand_dims(weights, 1) - log(-log(drawn)), 2)
        return cast(chosen, as_dtype(output_dtype or int64), name=scope)


def categorical(
    logits: Any,
    num_samples: Any,
    dtype: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return classes drawn anew in each run; see `multinomial`."""
    return multinomial(logits, num_samples, seed, name or "categorical", dtype)


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """Return the rows in random order; each run draws a new one."""
    with op_scope(name, "RandomShuffle", [value]) as scope:
        tensor = argument("RandomShuffle", "value", value)
        return native.shuffle(tensor, seed=seed, name=scope)


def random_crop(
    value: Any, size: Any, seed: int | None = None, name: str | None = None
) -> Any:
    """Return a block of this size at a random offset; each run draws a new one.

    Raises `InvalidArgumentError` for a size that the tensor does not have.
    """
    with op_scope(name, "random_crop", [value, size]) as scope:
        tensor = convert_to_tensor(value, name="value")
        sizes = convert_to_tensor(size, int32, name="size")
        _check_within(tensor, sizes.static.value)
        room = shape_of(tensor) - sizes + 1
        # As the original draws it: one range for all axes, then the remainder.
        drawn = random_uniform(shape_of(sizes), 0, int32.max, int32, seed=seed)
        made = slice_of(tensor, drawn % room, sizes, name=scope)
        if sizes.static.value is not None:
            made.set_shape(sizes.static.value.tolist())
        return made


def _check_within(tensor: Any, sizes: Any) -> None:
    sizes_now = tensor.shape.as_list() if tensor.shape.ndims is not None else []
    for own, wanted in zip(sizes_now, [] if sizes is None else sizes, strict=False):
        if own is not None and wanted > own:
            raise InvalidArgumentError(
                f"Need value.shape >= size, got {tensor.shape} and {sizes.tolist()}."
            )
