"""Accumulators of dense gradients: with what they are not made and not asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def scalar(tf: Any, **named: Any) -> Any:
    return tf.ConditionalAccumulator(tf.float32, shape=[], **named)


MADE: dict[str, Callable[[Any], Any]] = {
    "an_unknown_reduction": lambda tf: scalar(tf, reduction_type="MEDIAN"),
    "a_reduction_in_small_letters": lambda tf: scalar(tf, reduction_type="mean"),
    "a_gradient_of_another_shape": lambda tf: scalar(tf).apply_grad([1.0, 2.0]),
    "a_gradient_of_another_dtype": lambda tf: scalar(tf).apply_grad(
        tf.constant(1.0, tf.float64)
    ),
    "a_gradient_of_text": lambda tf: scalar(tf).apply_grad("a"),
    "whole_numbers_for_floats": lambda tf: scalar(tf).apply_grad(1),
    "floats_for_whole_numbers": lambda tf: tf.ConditionalAccumulator(
        tf.int32, shape=[]
    ).apply_grad(1.5),
    "a_step_that_is_no_number": lambda tf: scalar(tf).apply_grad(1.0, 0.5),
    "a_vector_as_step": lambda tf: scalar(tf).apply_grad(1.0, [1, 2]),
    "a_count_that_is_no_number": lambda tf: scalar(tf).take_grad(1.5),
    "a_vector_as_count": lambda tf: scalar(tf).take_grad([1]),
    "an_unknown_dtype": lambda tf: tf.ConditionalAccumulator("moon"),
    "a_dtype_of_text": lambda tf: tf.ConditionalAccumulator(tf.string),
    "a_dtype_of_bools": lambda tf: tf.ConditionalAccumulator(tf.bool),
    "nothing_as_gradient": lambda tf: scalar(tf).apply_grad(None),
    "a_vector_as_new_step": lambda tf: scalar(tf).set_global_step([1]),
    "a_step_of_float_as_new_step": lambda tf: scalar(tf).set_global_step(1.5),
}


def made(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a case that tells what kind of thing came out, if anything did."""
    return lambda tf: type(make(tf)).__name__


CASES: dict[str, Callable[[Any], Any]] = {
    f"made_of_{name}": made(make) for name, make in MADE.items()
}
