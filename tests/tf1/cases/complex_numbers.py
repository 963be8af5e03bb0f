"""Complex numbers: their parts, products with adjoints, gradients in conjugates; and
gradients of half precision where what they are made of overflows; bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1 import look
from tests.tf1.look import Case, initialized, makes_case, tf

Z = np.array(
    [[1.0 + 2.0j, -0.5j, -1.5 + 0.5j], [2.0 - 1.0j, 0.25 + 1.0j, -0.75 - 2.0j]]
)
W = np.array([[0.5 - 1.0j, 2.0 + 0.5j, -1.0 + 1.0j], [1.0 + 1.0j, -0.5j, 0.75 + 0.25j]])
ROW = np.array([1.0 - 0.5j, 0.5 + 2.0j, -1.0 + 0.25j])
WEIGHTS = np.array([[1.0 + 1.0j, 2.0 - 1.0j, 0.5j], [-1.0, 0.25 - 2.0j, 1.5 + 0.5j]])


def function(name: str) -> Callable[[Any], Any]:
    """Return the function of one tensor with this name."""
    return lambda z: getattr(tf, name)(z)


OF_ONE: dict[str, Callable[[Any], Any]] = {
    **{
        name: function(name)
        for name in (
            *("abs", "angle", "conj", "imag", "real", "negative", "square", "exp"),
            *("log", "sqrt", "rsqrt", "sin", "cos", "tanh", "reciprocal", "log1p"),
            *("expm1", "reduce_sum", "reduce_mean", "transpose", "identity", "sign"),
        )
    },
    "length_squared": lambda z: tf.real(z * tf.conj(z)),
    "conjugate_transpose": lambda z: tf.transpose(z, conjugate=True),
    "product_of_rows": lambda z: tf.reduce_prod(z, 1),
    "power_of_a_number": lambda z: z**3.0,
    "quotient_by_it": lambda z: 1.0 / z,
    "adjoint_times_itself": lambda z: tf.matmul(z, z, adjoint_a=True),
    "cast_to_a_real_number": lambda z: tf.cast(z, tf.float32),
    "loop": lambda z: tf.while_loop(
        lambda i, _: i < 3, lambda i, item: (i + 1, item * z), [0, z]
    )[1],
    "branch": lambda z: tf.cond(tf.constant(True), lambda: z * z, lambda: z),
}
OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: x - y,
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "squared_difference": lambda x, y: tf.squared_difference(x, y),
    "product_with_an_adjoint": lambda x, y: tf.matmul(x, y, adjoint_b=True),
    "product_with_an_adjoint_on_the_left": lambda x, y: tf.matmul(x, y, adjoint_a=True),
    "products_of_a_batch": lambda x, y: tf.matmul(
        tf.stack([x, y]), tf.stack([y, x]), adjoint_a=True
    ),
}
# In half precision: x, and a function of it; the upstream gradient is 0 in the first.
HALF: dict[str, tuple[list[float], Callable[[Any], Any]]] = {
    "power_to_a_tensor": (
        [200.0, 20.0],
        lambda x: x ** tf.constant([2, 3], x.dtype),
    ),
    "power_by_the_exponent": (
        [200.0, 2.0],
        lambda x: tf.constant([60000, 2], x.dtype) ** (x / 100),
    ),
    "power_of_a_number": ([250.0, 150.0], lambda x: x**3),
    "square": ([40000.0, 50000.0], lambda x: tf.square(x)),
    "rsqrt": ([1e-6, 1e-4], lambda x: tf.rsqrt(x)),
    "reciprocal": ([1e-4, 1e-2], lambda x: tf.reciprocal(x)),
    "sqrt_of_zero": ([0.0, 4.0], lambda x: tf.sqrt(x)),
    "exp": ([30.0, 1.0], lambda x: tf.exp(x)),
}
# Of a matrix in bfloat16, in which few of the original's operations compute.
BRAIN: dict[str, Callable[[Any], Any]] = {
    **{
        name: function(name)
        for name in (
            *("abs", "exp", "log", "negative", "square", "tanh"),
            *("reduce_max", "reduce_mean", "ones_like"),
        )
    },
    "sum": lambda x: x + x,
    "difference_from_a_number": lambda x: x - 1,
    "quotient_by_a_number": lambda x: x / 3,
    "power_of_a_number": lambda x: x**2,
    "product_of_matrices": lambda x: tf.matmul(x, tf.ones_like(x)),
    "gradient_of_a_product": lambda x: tf.gradients(tf.matmul(x, tf.ones_like(x)), x)[
        0
    ],
    "gradient_through_a_cast": lambda x: tf.gradients(tf.cast(x, tf.float32) ** 2, x)[
        0
    ],
    "sum_of_columns": lambda x: tf.reduce_sum(x, 0),
    "relu": lambda x: tf.nn.relu(x),
    "rows_joined": lambda x: tf.concat([x, x], 0),
    "whole_numbers": lambda x: tf.cast(x, tf.int32),
    "comparison": lambda x: x < 1,
}


def run(fetches: Any) -> Any:
    """Run in a local session; a complex array is returned as its two parts."""
    return [parts(item) for item in look.run(fetches)]


def parts(value: Any) -> Any:
    if not np.iscomplexobj(value):
        return value
    return [value.dtype.name, np.real(value), np.imag(value)]


def weighted(y: Any) -> Any:
    """Return weights of the elements of y, different ones for each."""
    size = int(np.prod(y.shape.as_list()))
    weights = np.resize(WEIGHTS, size).reshape(y.shape.as_list())
    is_real = y.dtype.base_dtype.is_floating
    dtype = y.dtype.base_dtype.as_numpy_dtype
    return tf.constant((weights.real if is_real else weights).astype(dtype))


@makes_case
def of_one(name: str) -> Any:
    z = tf.constant(Z)
    y = OF_ONE[name](z)
    (result,) = tf.gradients(y, z, grad_ys=weighted(y))
    return run([y, result])


@makes_case
def of_two(name: str, other: Any) -> Any:
    xs = tf.constant(Z), tf.constant(other)
    y = OF_TWO[name](*xs)
    return run([y, *tf.gradients(y, xs, grad_ys=weighted(y))])


@makes_case
def of_half(name: str) -> Any:
    numbers, function = HALF[name]
    x = tf.constant(np.array(numbers, np.float16))
    upstream = tf.constant(np.array([0.0, 1e-3], np.float16))
    return run(tf.gradients(function(x), x, grad_ys=upstream))


@makes_case
def of_brain(name: str) -> Any:
    x = tf.cast(tf.constant([[1.1, -2.3], [0.7, 300.1]]), tf.bfloat16)
    y = BRAIN[name](x)
    return run(tf.cast(y, tf.float32)), y.dtype.name


def case_bfloat16_is_a_type() -> Any:
    kind = tf.bfloat16
    numbers = np.array([1.5, -2.0]).astype(kind.as_numpy_dtype)
    message = tf.make_tensor_proto(numbers)
    result = tf.make_ndarray(message).astype(np.float32)
    limits = [float(kind.min), float(kind.max)]
    return [kind.name, kind.is_floating, kind.size, int(kind)], limits, result


def case_joined() -> Any:
    re, im = tf.constant([[1.0], [2.0]]), tf.constant([3.0, 4.0])
    z = tf.complex(re, im)
    weights = tf.constant(WEIGHTS[:, :2].astype(np.complex64))
    return run([z, *tf.gradients(z, [re, im], grad_ys=weights)])


def case_joined_of_different_types() -> Any:
    return tf.complex(np.zeros(1), np.zeros(1, np.float32))


def case_parts_of_real_numbers() -> Any:
    x = tf.constant([1.0, -2.0])
    return run([tf.real(x), tf.imag(x), tf.conj(x), tf.angle(x)])


def case_the_absolute_value_of_single_precision() -> Any:
    z = tf.constant(Z.astype(np.complex64))
    return [run([abs(z), tf.real(z), tf.angle(z)]), tf.abs(z).op.type]


def case_at_zero_an_absolute_value_has_the_gradient_0() -> Any:
    z = tf.constant([0j, 3 + 4j])
    return run(tf.gradients(tf.abs(z), z))


def case_a_complex_number_has_no_gradient_without_weights() -> Any:
    z = tf.constant(Z)
    return tf.gradients(z * z, z)


def case_a_complex_variable_descends_a_slope() -> Any:
    z = tf.Variable(Z.astype(np.complex64))
    loss = tf.reduce_sum(tf.abs(z - (1 + 2j)) ** 2)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with initialized() as session:
        session.run(step)
        return [parts(item) for item in session.run([z, loss])]


CASES: dict[str, Case] = {
    **{f"value_and_gradient_of_{name}": of_one(name) for name in OF_ONE},
    **{f"value_and_gradients_of_a_{name}": of_two(name, W) for name in OF_TWO},
    **{
        f"value_and_gradients_of_a_{name}_with_a_row": of_two(name, ROW)
        for name in (*("sum", "difference", "product", "quotient"), "power")
    },
    **{f"gradient_in_half_precision_of_{name}": of_half(name) for name in HALF},
    **{f"bfloat16_{name}": of_brain(name) for name in BRAIN},
    "texts_have_no_conjugate": lambda: tf.conj(tf.constant("a")),
}
