"""Clip gradients: scale down those whose norm is too large.

Pure. The norm of a sparse gradient (`IndexedSlices`) is that of its rows; None stays
None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.convert import tensor
from kit.graph.op import IndexedSlices, Tensor
from kit.graph.ops.array.choose import select
from kit.graph.ops.array.fill import ones_like
from kit.graph.ops.math.arithmetic import add_n, divide, maximum, minimum, multiply
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.compare import greater
from kit.graph.ops.math.reduce import reduce_sum
from kit.graph.ops.math.unary import is_finite, sqrt, square
from kit.graph.ops.state.source import identity


def clip_by_norm(
    x: Any, clip_norm: Any, axes: Any = None, name: str | None = None
) -> Any:
    """Return `x`, scaled down to the norm `clip_norm` if its own is larger.

    Parameters
    ----------
    x : Tensor, IndexedSlices or array-like
        For example a gradient.
    clip_norm : float or Tensor
        The largest norm: the square root of the sum of squares.
    axes : int or sequence of int, optional
        The axes along which the norm is taken; by default over all elements.
    name : str, optional
        The name of the op.

    Returns
    -------
    Tensor or IndexedSlices
        `IndexedSlices` if `x` is that, else a tensor of the shape of `x`.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     short = kit.clip_by_norm(np.array([3.0, 4.0]), 10.0)
    ...     session.run(short).tolist()
    [3.0, 4.0]
    """
    values = x.values if isinstance(x, IndexedSlices) else tensor(x)
    total = reduce_sum(square(values), axes, keepdims=True)
    # The square root has no slope at 0: where the norm is 0, take the root of 1.
    is_long = greater(total, 0)
    safe = select(is_long, total, ones_like(total))
    length = select(is_long, sqrt(safe), total)
    longest = maximum(length, clip_norm)
    clipped = identity(divide(multiply(values, clip_norm), longest), name=name)
    if isinstance(x, IndexedSlices):
        return IndexedSlices(clipped, x.indices, x.dense_shape)
    return clipped


def global_norm(xs: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the square root of the sum of the squares of all elements of a list.

    Parameters
    ----------
    xs : list or tuple of Tensor, IndexedSlices or None
        For example gradients; None counts nothing.
    name : str, optional
        The name of the op.

    Raises
    ------
    TypeError
        `xs` is not a list or tuple.
    ValueError
        It holds nothing but None.
    """
    _check_list(xs)
    present = [_values(x) for x in xs if x is not None]
    if not present:
        raise ValueError(
            "the list holds no gradient, so there is no norm; give at least one."
        )
    squares = [reduce_sum(square(values)) for values in present]
    return sqrt(add_n(squares), name=name)


def clip_by_global_norm(
    xs: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Return all of `xs`, scaled so that their global norm is at most `clip_norm`.

    Parameters
    ----------
    xs : list or tuple of Tensor, IndexedSlices or None
        For example gradients; None stays None.
    clip_norm : float or Tensor
        The largest global norm (`global_norm`).
    use_norm : float or Tensor, optional
        The global norm, if it is already known.
    name : str, optional
        Prefix of the names of the ops.

    Returns
    -------
    list, Tensor
        The scaled values, and the norm before. If that is not finite, all values are
        NaN, so that the failure is seen.

    Raises
    ------
    TypeError
        `xs` is not a list or tuple.
    ValueError
        It holds nothing but None, and there is no `use_norm`.

    Examples
    --------
    >>> import kit, numpy as np
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     tensors = [kit.constant([3.0]), kit.constant([4.0])]
    ...     clipped, norm = kit.clip_by_global_norm(tensors, 1.0)
    ...     [np.round(session.run(tensor), 3).tolist() for tensor in [*clipped, norm]]
    [[0.6...], [0.8...], 5.0]
    """
    _check_list(xs)
    if use_norm is None:
        length = global_norm(xs)
    else:
        like = next((_values(x) for x in xs if x is not None), None)
        graph = None if like is None else like.graph
        length = tensor(use_norm, graph=graph)
    scale = minimum(divide(clip_norm, length), 1)
    bad = tensor(np.array(np.nan, scale.static.dtype), graph=scale.graph)
    scale = select(is_finite(length), scale, bad)
    prefix = name or "clip_by_global_norm"
    return [_scaled(x, scale, f"{prefix}_{i}") for i, x in enumerate(xs)], length


def _scaled(x: Any, scale: Tensor, name: str) -> Any:
    if x is None:
        return None
    values = _values(x)
    factor = cast(scale, values.static.dtype)
    with values.graph.colocate_with(values.op):
        scaled = multiply(values, factor, name=name)
    if isinstance(x, IndexedSlices):
        return IndexedSlices(scaled, x.indices, x.dense_shape)
    return scaled


def _values(x: Any) -> Tensor:
    return x.values if isinstance(x, IndexedSlices) else tensor(x)


def _check_list(xs: Any) -> None:
    if not isinstance(xs, list | tuple):
        raise TypeError(f"give a list of gradients, not {xs!r}.")
