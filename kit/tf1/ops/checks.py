"""Assertions: operations that fail in a run, or at once where the values are known.

An assertion runs when it is fetched, or when something waits for it in a
`tf.control_dependencies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from kit.bfloat16 import kind_of, limits_of
from kit.errors import InvalidArgumentError
from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.graph.control import group, no_op
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops import arithmetic
from kit.tf1.ops.reduce import reduce_all, reduce_any
from kit.tf1.ops.shape import rank as rank_of
from kit.tf1.signature import with_options
from kit.tf1.tensor.allowed import check_allowed
from kit.tf1.tensor.convert import convert_to_tensor, create, create_op, op_scope
from kit.tf1.tensor.dtypes import as_dtype, bool_, float32, int32
from kit.tf1.tensor.shape import as_shape, static_of


def Assert(
    condition: Any, data: Any, summarize: int | None = None, name: str | None = None
) -> Any:
    """Return an operation that fails unless `condition`, one bool, is true.

    Raises in a run `InvalidArgumentError`, with the first `summarize` values (3 by
    default) of each tensor of the list `data`; `TypeError` if that is no list.
    """
    if not isinstance(data, list | tuple):
        raise TypeError(f"Expected list for 'data' argument to 'Assert' Op, not {data}")
    with op_scope(name, "Assert", [condition, *data]):
        choice = convert_to_tensor(condition, bool_, name="condition")
        shown = [convert_to_tensor(part) for part in data]
        most = 3 if summarize is None else summarize
        return create_op("Assert", choice, *shown, name="Assert", summarize=most)


@dataclass
class _Report:
    """What an assertion says when it fails."""

    data: Any = None
    summarize: int | None = None
    message: str | None = None

    def asserting(self, holds: Any, said: str, shown: list[Any]) -> Any:
        """Return the operation; it shows `data`, if given, in place of `shown`."""
        values = shown if self.data is None else self.data
        return Assert(holds, [f"{self.message or ''} {said}", *values], self.summarize)


def _pair(left: Any, right: Any) -> list[Any]:
    return [f"x ({left.name}) = ", left, f"y ({right.name}) = ", right]


def _compared(name: str, compare: Callable[..., Any], sign: str) -> Any:
    @with_options(_Report)
    def check(x: Any, y: Any, *, name: str | None = name, options: Any) -> Any:
        with op_scope(name, None, [x, y]):
            left = convert_to_tensor(x, name="x")
            right = convert_to_tensor(y, name="y")
            said = f"Condition x {sign} y did not hold element-wise:"
            holds = reduce_all(compare(left, right))
            values = left.static.value, right.static.value
            if values[0] is not None and values[1] is not None:
                text = f"{options.message or ''} {said}"
                _check_now(_NUMPY[sign](*values), text, values)
            return options.asserting(holds, said, _pair(left, right))

    check.__name__ = name
    check.__doc__ = (
        f"Return an operation that fails unless x {sign} y for all elements.\n\n"
        f"`InvalidArgumentError` at once where both are known, else in a run; the text "
        f"has `message`, and `data` in place of the values."
    )
    return check


_NUMPY: dict[str, Callable[..., Any]] = {
    **{"==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal},
    **{">": np.greater, ">=": np.greater_equal},
}


def _check_now(holds: Any, said: str, values: Sequence[Any]) -> None:
    if not np.all(holds):
        raise InvalidArgumentError(f"{said.strip()} x = {values[0]}, y = {values[1]}")


assert_equal = _compared("assert_equal", arithmetic.equal, "==")
assert_none_equal = _compared("assert_none_equal", arithmetic.not_equal, "!=")
assert_less = _compared("assert_less", arithmetic.less, "<")
assert_less_equal = _compared("assert_less_equal", arithmetic.less_equal, "<=")
assert_greater = _compared("assert_greater", arithmetic.greater, ">")
assert_greater_equal = _compared("assert_greater_equal", arithmetic.greater_equal, ">=")


def _signed(name: str, check: Callable[..., Any], is_left: bool) -> Any:
    @with_options(_Report)
    def check_sign(x: Any, *, name: str | None = name, options: Any) -> Any:
        with op_scope(name, None, [x]):
            number = convert_to_tensor(x, name="x")
            zero = convert_to_tensor(0, number.dtype.base_dtype)
            sides = (number, zero) if is_left else (zero, number)
            return check(*sides, **vars(options))

    what = name.removeprefix("assert_").replace("_", " ")
    check_sign.__name__ = name
    check_sign.__doc__ = (
        f"Return an operation that fails unless all elements are {what}.\n\n"
        f"See `assert_less`."
    )
    return check_sign


assert_negative = _signed("assert_negative", assert_less, True)
assert_positive = _signed("assert_positive", assert_less, False)
assert_non_negative = _signed("assert_non_negative", assert_less_equal, False)
assert_non_positive = _signed("assert_non_positive", assert_less_equal, True)


@with_options(_Report)
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    *,
    name: str | None = None,
    options: Any,
) -> Any:
    """Return an operation that fails unless |x - y| <= atol + rtol * |y| everywhere.

    Both tolerances are ten times the machine's precision by default.
    """
    with op_scope(name, "assert_near", [x, y]):
        left = convert_to_tensor(x, name="x")
        dtype = left.dtype.base_dtype
        right = convert_to_tensor(y, dtype, name="y")
        least = 10 * limits_of(dtype.as_numpy_dtype).eps
        share = convert_to_tensor(least if rtol is None else rtol, dtype)
        slack = convert_to_tensor(least if atol is None else atol, dtype)
        distance = arithmetic.abs(left - right)
        holds = reduce_all(distance <= slack + share * arithmetic.abs(right))
        said = "x and y not equal to tolerance"
        return options.asserting(holds, said, _pair(left, right))


# --------------------------------------------------------------------------------------
# What is known of tensors: ranks and dtypes.


def _ranked(name: str, sign: str, holds: Callable[[Any, Any], Any]) -> Any:
    @with_options(_Report)
    def check(x: Any, rank: Any, *, name: str | None = name, options: Any) -> Any:
        return _check_rank(x, [rank], options, name, (sign, holds))

    check.__name__ = name
    check.__doc__ = (
        f"Return an operation that fails unless the rank of `x` is {sign}`rank`.\n\n"
        f"`ValueError` at once where it is known, else `InvalidArgumentError` in a run."
    )
    return check


assert_rank = _ranked("assert_rank", "", arithmetic.equal)
assert_rank_at_least = _ranked(
    "assert_rank_at_least", "at least ", arithmetic.greater_equal
)


@with_options(_Report)
def assert_rank_in(
    x: Any, ranks: Any, *, name: str | None = "assert_rank_in", options: Any
) -> Any:
    """Return an operation that fails unless the rank of `x` is one of some.

    `ValueError` at once where it is known, else `InvalidArgumentError` in a run.
    """
    rule = ("in ", arithmetic.equal)
    return _check_rank(x, ranks, options, name, rule)


def _check_rank(
    x: Any, ranks: Any, options: _Report, name: str | None, rule: tuple[str, Any]
) -> Any:
    sign, holds = rule
    with op_scope(name, None, [x, *ranks]):
        tensor = convert_to_tensor(x, name="x")
        wanted = [convert_to_tensor(rank, name="rank") for rank in ranks]
        for rank in wanted:
            if rank.dtype.base_dtype != int32:
                raise TypeError(f"{rank.name} must be of type tf.int32")
            if rank.shape.ndims not in (0, None):
                raise ValueError("Rank must be a scalar.")
        static_ranks = [rank.static.value for rank in wanted]
        n_axes = tensor.shape.ndims
        if n_axes is not None and None not in static_ranks:
            sizes = [int(rank) for rank in static_ranks if rank is not None]
            fits = n_axes >= sizes[0] if sign == "at least " else n_axes in sizes
            if not fits:
                raise ValueError(
                    f"{options.message or ''}. Tensor {tensor.name} must have rank "
                    f"{sign}{sizes if sign == 'in ' else sizes[0]}. Received rank "
                    f"{n_axes}, shape {tensor.shape}"
                )
            return no_op("static_checks_determined_all_ok")
        said = f"Tensor {tensor.name} must have rank {sign}"
        here = rank_of(tensor)
        choice = reduce_any([holds(here, rank) for rank in wanted])
        return options.asserting(choice, said, [*wanted, "Received rank: ", here])


def assert_scalar(tensor: Any, name: str | None = None, message: str = "") -> Any:
    """Return the tensor; `ValueError` unless it is known to have no axes."""
    with op_scope(name, "assert_scalar", [tensor]) as scope:
        number = convert_to_tensor(tensor, name=scope)
        if number.shape.ndims != 0:
            raise ValueError(
                f"{message}Expected scalar shape for {number.name}, saw shape: "
                f"{number.shape}."
            )
        return number


def assert_type(
    tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None
) -> Any:
    """Return an operation that does nothing; `TypeError` for another dtype."""
    with op_scope(name, "assert_type", [tensor]):
        value = convert_to_tensor(tensor, name="tensor")
        if value.dtype.base_dtype != as_dtype(tf_type).base_dtype:
            _refuse(message, f"{value.name} must be of type {tf_type!r}", value)
        return no_op("statically_determined_correct_type")


def assert_integer(
    x: Any, message: str | None = None, name: str | None = "assert_integer"
) -> Any:
    """Return an operation that does nothing; `TypeError` unless `x` is of integers."""
    with op_scope(name, None, [x]):
        value = convert_to_tensor(x, name="x")
        if not value.dtype.is_integer:
            _refuse(message, f"{value.name} must be of an integer type", value)
        return no_op("statically_determined_was_integer")


def _refuse(message: str | None, text: str, value: Any) -> NoReturn:
    raise TypeError(f"{message or ''} {text}, not {value.dtype.name}; cast it.".strip())


def assert_proper_iterable(values: Any) -> None:
    """Raise `TypeError` for a tensor, array or text, and for what is no iterable."""
    is_one = isinstance(values, str | bytes | np.ndarray | ArrayProtocol)
    if is_one or not hasattr(values, "__iter__"):
        raise TypeError(
            f"Expected argument 'values' to be a proper iterable, such as a list. "
            f"Found: {type(values).__name__}"
        )


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """Return the floating point dtype of all tensors, by default float32.

    Raises `ValueError` for tensors of several dtypes, and for one that is no floating
    point dtype.
    """
    wanted = None if dtype is None else as_dtype(dtype).base_dtype
    for part in tensors or []:
        own = convert_to_tensor(part).dtype.base_dtype
        if wanted is not None and own != wanted:
            raise ValueError(f"expected {wanted.name}, not {own.name} as of {part!r}.")
        wanted = own
    wanted = wanted or float32
    if not wanted.is_floating:
        raise ValueError(f"Expected floating point type, got {wanted.name}.")
    return wanted


def is_numeric_tensor(tensor: Any) -> bool:
    """Return whether it is a tensor of numbers."""
    if not isinstance(tensor, ArrayProtocol):
        return False
    dtype = convert_to_tensor(tensor).dtype.base_dtype
    return bool(dtype.is_integer or dtype.is_floating or dtype.is_complex)


# --------------------------------------------------------------------------------------
# Shapes and numbers that are checked on their way.


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Any:
    """Return `x`, whose shape is known to fit `shape` from here on.

    Raises `ValueError` where it cannot fit, `InvalidArgumentError` in a run.
    """
    return _passed("EnsureShape", x, name, shape=static_of(as_shape(shape)))


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Any:
    """Return a tensor; `InvalidArgumentError` in a run for NaN and infinities."""
    return _passed("CheckNumerics", tensor, name, message=message)


def _passed(op_type: str, x: Any, name: str | None, **attrs: Any) -> Any:
    with op_scope(name, op_type, [x]) as scope:
        value = convert_to_tensor(x, name="tensor")
        check_allowed(op_type, [value])
        return create(op_type, value, name=scope, **attrs)


def verify_tensor_all_finite(
    t: Any = None,
    msg: str | None = None,
    name: str | None = None,
    x: Any = None,
    message: str | None = None,
) -> Any:
    """Return a tensor; see `check_numerics`."""
    tensor, text = (t, msg) if x is None else (x, message)
    return check_numerics(tensor, text or "", name or "VerifyFinite")


def add_check_numerics_ops() -> Any:
    """Return an operation that checks each floating point tensor of the graph so far.

    See `check_numerics`. Raises `ValueError` for a graph with branches or loops.
    """
    graph = get_default_graph()
    checks: list[Any] = []
    for op in graph.ops:
        if op.guards or op.type in ("Merge", "While"):
            raise ValueError(
                f"tf.add_check_numerics_ops() is not for a graph with a tf.cond or a "
                f"tf.while_loop, as by {op.name!r}; use tf.check_numerics on tensors."
            )
        for tensor in op.outputs:
            if kind_of(tensor.static.dtype) == "f" and not op.op_def.gives_ref:
                with graph.control_dependencies(checks[-1:]):
                    checks.append(check_numerics(tensor, tensor.name).op)
    return group(*checks)
