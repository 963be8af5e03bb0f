"""The error classes, their codes, and which of them meets what goes wrong in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, tf
from tests.tf1.servers import cluster

CLASSES = (
    *("CancelledError", "UnknownError", "InvalidArgumentError"),
    *("DeadlineExceededError", "NotFoundError", "AlreadyExistsError"),
    *("PermissionDeniedError", "ResourceExhaustedError", "FailedPreconditionError"),
    *("AbortedError", "OutOfRangeError", "UnimplementedError", "InternalError"),
    *("UnavailableError", "DataLossError", "UnauthenticatedError"),
)


@makes_case
def described(name: str) -> Any:
    """Return a case that makes an error of a class and reads it back."""
    error = getattr(tf.errors, name)(None, None, "what happened")
    return {
        "error_code": error.error_code,
        "message": error.message,
        "op": error.op,
        "node_def": error.node_def,
        "is_op_error": isinstance(error, tf.errors.OpError),
        "str": str(error),
    }


@makes_case
def raised(name: str) -> Any:
    raise getattr(tf.errors, name)(None, None, "what happened")


def case_codes_and_classes_are_one_to_one() -> Any:
    to_class = tf.errors.exception_type_from_error_code
    to_code = tf.errors.error_code_from_exception_type
    classes = [to_class(code) for code in range(1, 17)]
    return [item.__name__ for item in classes], [to_code(item) for item in classes]


@makes_case
def run(session: Any, make: Case) -> Any:
    fetch, feeds = make()
    return session.run(fetch, feeds)


def fed(make: Callable[..., Any], *values: Any) -> Any:
    """Return an operation on placeholders of no known shape, and the feeds."""
    arrays = [np.asarray(value) for value in values]
    holders = [tf.placeholder(tf.as_dtype(array.dtype.name)) for array in arrays]
    return make(*holders), dict(zip(holders, arrays))  # noqa: B905


FAILURES: dict[str, Case] = {
    "an_int_divided_by_zero": lambda: fed(lambda a, b: a // b, 1, 0),
    "an_int_divided_by_a_constant_zero": lambda: (
        tf.constant([1]) // tf.constant([0]),
        None,
    ),
    "a_remainder_by_zero": lambda: fed(lambda a, b: a % b, 1, 0),
    "shapes_that_clash_when_fed": lambda: fed(
        lambda a, b: a + b, [1.0, 2.0], [1.0, 2.0, 3.0]
    ),
    "matrices_that_clash_when_fed": lambda: fed(
        tf.matmul, np.ones((2, 3)), np.ones((2, 3))
    ),
    "a_reshape_that_does_not_fit": lambda: fed(
        lambda a: tf.reshape(a, [2, 2]), [1.0, 2.0, 3.0]
    ),
    "parts_that_do_not_fit": lambda: fed(
        lambda a, b: tf.concat([a, b], 0), [[1.0]], [[1.0, 2.0]]
    ),
    "an_index_beyond_the_end": lambda: fed(
        lambda a, i: tf.gather(a, i), [1.0, 2.0], np.int32(5)
    ),
    "a_slice_beyond_the_end": lambda: fed(lambda a: tf.slice(a, [1], [5]), [1.0, 2.0]),
    "a_variable_without_value": lambda: (tf.Variable(1.0) + 1.0, None),
    "an_axis_that_does_not_exist": lambda: fed(
        lambda a, i: tf.reduce_sum(a, i), [1.0], np.int32(3)
    ),
    "shapes_that_clash_when_built": lambda: (
        tf.constant([1.0, 2.0]) + tf.constant([1.0, 2.0, 3.0]),
        None,
    ),
    "a_reshape_that_does_not_fit_when_built": lambda: (
        tf.reshape(tf.constant([1.0, 2.0, 3.0]), [2, 2]),
        None,
    ),
    "dtypes_that_differ_when_built": lambda: (
        tf.add(tf.constant(1.0), tf.constant(1)),
        None,
    ),
}


def on_another_task(make: Callable[[Any, Any], Any]) -> Any:
    servers = cluster(ps=1, worker=1)
    with tf.device("/job:ps/task:0"):
        a, b = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
        fetch = make(a, b)
    with tf.device("/job:worker/task:0"):
        fetch = fetch + 1
    with tf.Session(servers["worker"][0].target) as session:
        return session.run(fetch, {a: 1, b: 0})


def case_an_error_on_another_task_keeps_its_class() -> Any:
    return on_another_task(lambda a, b: a // b)


CASES = {
    **{f"the_members_of_{name}": described(name) for name in CLASSES},
    **{f"a_raised_{name}": raised(name) for name in CLASSES},
    **{f"{name}_is_an_error": run(make) for name, make in FAILURES.items()},
}
