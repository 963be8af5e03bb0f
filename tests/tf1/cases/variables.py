"""Variables in one session: values, assignments, options; the global step; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, names_of, run, started, static, tf


def described(variable: Any) -> Any:
    return variable.name, variable.dtype.base_dtype.name, variable.shape.as_list()


MADE: dict[str, Case] = {
    "a_float": lambda: tf.Variable(1.5),
    "an_int": lambda: tf.Variable(3),
    "a_bool": lambda: tf.Variable(True),
    "text": lambda: tf.Variable("text"),
    "a_list": lambda: tf.Variable([1.0, 2.0]),
    "an_array": lambda: tf.Variable(np.ones((2, 3))),
    "a_float_with_a_dtype": lambda: tf.Variable(3, dtype=tf.float64),
    "a_tensor": lambda: tf.Variable(tf.zeros([2, 2], tf.int64)),
    "a_function": lambda: tf.Variable(lambda: tf.ones([3]), dtype=tf.float32),
    "a_name": lambda: tf.Variable(1.0, name="weight"),
    "a_name_in_a_scope": lambda: tf.Variable(1.0, name="scope/weight"),
    "an_empty_list": lambda: tf.Variable([], dtype=tf.float32),
    "nothing": lambda: tf.Variable(),
    "none": lambda: tf.Variable(None),
    "an_unknown_shape": lambda: tf.Variable(tf.placeholder(tf.float32)),
    "a_half_known_shape": lambda: tf.Variable(tf.placeholder(tf.float32, [None])),
    "an_unknown_shape_unchecked": lambda: (
        tf.Variable(
            tf.placeholder(tf.float32, name="p"), validate_shape=False
        ).initial_value.name
    ),
    "a_ragged_list": lambda: tf.Variable([[1.0], [2.0, 3.0]]),
    "an_object": lambda: tf.Variable(object()),
    "a_dtype_that_does_not_fit": lambda: tf.Variable("text", dtype=tf.float32),
    "a_fraction_as_an_int": lambda: tf.Variable(1.5, dtype=tf.int32),
    "collections_that_are_text": lambda: tf.Variable(1.0, collections="mine"),
}


@makes_case
def made(session: Any, make: Case) -> Any:
    variable = make()
    if isinstance(variable, str):
        return variable
    session.run(variable.initializer)
    return described(variable), session.run(variable)


@makes_case
def used(session: Any, change: Callable[[Any], Any], is_ready: bool) -> Any:
    """Return a case that runs a change of the variable [1, 2], and reads it."""
    variable = tf.Variable([1.0, 2.0], name="v")
    fetch = change(variable)
    if is_ready:
        session.run(variable.initializer)
    return session.run(fetch), session.run(variable)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda v: v.assign([5.0, 6.0]),
    "assign_add": lambda v: v.assign_add([10.0, 20.0]),
    "assign_sub": lambda v: v.assign_sub([10.0, 20.0]),
    "tf_assign": lambda v: tf.assign(v, [5.0, 6.0]),
    "tf_assign_add": lambda v: tf.assign_add(v, [10.0, 20.0]),
    "tf_assign_sub": lambda v: tf.assign_sub(v, [10.0, 20.0]),
    "assign_from_itself": lambda v: v.assign(v * 2.0 + 1.0),
    "scatter_add": lambda v: tf.scatter_add(v, [1, 1], [10.0, 20.0]),
    "scatter_sub": lambda v: tf.scatter_sub(v, [0], [10.0]),
    "scatter_update": lambda v: tf.scatter_update(v, [1], [7.0]),
    "scatter_beyond_the_end": lambda v: tf.scatter_add(v, [5], [1.0]),
    "scatter_before_the_start": lambda v: tf.scatter_update(v, [-1], [1.0]),
    "read": lambda v: v.read_value(),
    "the_value": lambda v: v.value(),
    "arithmetic": lambda v: v * 2.0 - 1.0,
    "an_element": lambda v: v[1],
    "identity": lambda v: tf.identity(v),
    "is_initialized": lambda v: tf.is_variable_initialized(v),
    "the_initial_value": lambda v: v.initial_value,
    "the_initialized_value": lambda v: v.initialized_value() + 1.0,
    "assign_of_another_shape": lambda v: v.assign([1.0, 2.0, 3.0]),
    "assign_of_a_scalar": lambda v: v.assign(1.0),
    "assign_of_another_dtype": lambda v: v.assign(tf.constant([1, 2])),
    "assign_of_text": lambda v: v.assign("text"),
    "assign_add_of_another_shape": lambda v: v.assign_add([1.0, 2.0, 3.0]),
    "assign_add_of_another_dtype": lambda v: v.assign_add(tf.constant([1, 2])),
    "assign_to_a_constant": lambda v: tf.assign(tf.constant([1.0]), [2.0]),
    "assign_of_another_shape_unchecked": lambda v: tf.assign(
        v, [1.0, 2.0, 3.0], validate_shape=False
    ),
}


@makes_case
def fetched_alone(change: Callable[[Any], Any]) -> Any:
    fetch = change(tf.Variable([1.0, 2.0], name="v"))
    return run(fetch)


EMPTY = (
    *("assign", "assign_add", "assign_sub", "scatter_add", "scatter_update", "read"),
    *("arithmetic", "an_element", "is_initialized", "the_initialized_value"),
    *("the_initial_value", "assign_from_itself"),
)


def case_initializers_are_operations(session: Any) -> Any:
    tensor = tf.Variable(1.0, name="one")
    result = [
        tensor.initializer.name,
        tf.global_variables_initializer().name,
        tf.variables_initializer([tensor], name="some").name,
        tf.local_variables_initializer().name,
    ]
    return result, session.run(tf.global_variables_initializer())


def case_variables_of_one_name_get_numbers() -> Any:
    return [tf.Variable(1.0, name="v").name for _ in range(3)]


def case_get_variable_with_reuse_of_what_is_not_there_is_refused() -> Any:
    with tf.variable_scope("s", reuse=True):
        return tf.get_variable("v", [2])


PS, WORKER = "/job:ps/task:0", "/job:worker/task:1"


def devices(variable: Any) -> list[str]:
    """Tell where the variable, its initializer and its value are."""
    ops = [variable.op, variable.initializer, variable.value().op]
    return [tensor.device for tensor in ops]


def names(variables: Any) -> list[str]:
    return names_of(variables)


def case_a_caching_device_of_get_variable() -> Any:
    with tf.device(PS):
        return devices(tf.get_variable("v", [1], caching_device=WORKER))


def case_a_caching_device_that_is_a_function() -> Any:
    with tf.device(PS):
        return devices(tf.Variable(1.0, caching_device=lambda op: WORKER))


def case_a_caching_device_by_the_scope_itself() -> Any:
    with tf.variable_scope("a") as scope:
        scope.set_caching_device(WORKER)
        return devices(tf.get_variable("v", [1]))


def case_a_custom_getter_is_given_all_options() -> Any:
    seen = []

    def custom(getter: Any, name: str, *args: Any, **how: Any) -> Any:
        seen.append([name, len(args), sorted(how)])
        return getter(name, *args, **how)

    with tf.variable_scope("a", custom_getter=custom, caching_device=WORKER):
        result = tf.get_variable("v", [1])
    return seen, devices(result)


def case_what_is_read_on_demand_is_not_trained() -> Any:
    on_read = tf.VariableSynchronization.ON_READ
    made = [
        tf.Variable(1.0, synchronization=on_read, name="a"),
        tf.get_variable("b", [], synchronization=on_read),
        tf.Variable(1.0, name="c"),
        tf.Variable(1.0, synchronization=on_read, trainable=True, name="d"),
        tf.get_variable("e", [], aggregation=tf.VariableAggregation.SUM),
    ]
    return (
        names(tf.trainable_variables()),
        [item.trainable for item in made],
        [item.synchronization.name for item in made],
        [item.aggregation.name for item in made],
    )


def case_read_on_demand_and_trained() -> Any:
    on_read = tf.VariableSynchronization.ON_READ
    return tf.get_variable("b", [], synchronization=on_read, trainable=True).trainable


def case_a_layer_weight_that_is_read_on_demand() -> Any:
    layer = tf.layers.Dense(1)
    layer.add_weight(
        "w", [1], synchronization=tf.VariableSynchronization.ON_READ, trainable=None
    )
    return names(layer.trainable_weights), names(layer.non_trainable_weights)


def case_a_synchronization_that_is_none_of_these() -> Any:
    return tf.Variable(1.0, synchronization=17).name


def case_an_aggregation_that_is_none_of_these() -> Any:
    return tf.get_variable("v", [], aggregation="sum").name


def case_no_synchronization_is_the_usual_one() -> Any:
    result = tf.Variable(1.0, synchronization=None, aggregation=None)
    return result.synchronization.name, result.aggregation.name, result.trainable


def case_a_local_copy_of_a_global_variable(session: Any) -> Any:
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    copy = tf.get_local_variable("copy", initializer=v * 1.0)
    session.run(tf.local_variables_initializer())
    return session.run(copy)


DEFAULTS = (
    *("zeros_initializer", "ones_initializer", "constant_initializer"),
    *("random_uniform_initializer", "random_normal_initializer"),
    *("truncated_normal_initializer", "variance_scaling_initializer"),
    *("glorot_uniform_initializer", "glorot_normal_initializer"),
)


def operations() -> Any:
    return [[op.name, op.type] for op in tf.get_default_graph().get_operations()]


def defaults(name: str) -> Any:
    return lambda: sorted(getattr(tf, name)().get_config().items(), key=str)


def of_package(name: str) -> Any:
    return lambda: sorted(getattr(tf.initializers, name)().get_config().items())


def case_uniform_whole_numbers_need_an_end() -> Any:
    return static(tf.random_uniform_initializer(dtype=tf.int32)([3]))


def case_function_without_arguments_makes_the_value() -> Any:
    made = tf.get_variable("w", initializer=lambda: tf.ones([2]))
    return [static(made.value()), started(made)]


def case_function_of_a_shape_needs_one() -> Any:
    return tf.get_variable("w", initializer=lambda shape, dtype: tf.ones(shape))


def case_many_zeros_are_filled_in() -> Any:
    tf.zeros([100, 100])
    return operations()


@makes_case
def slots(make: Any) -> Any:
    made = tf.Variable([1.0, 2.0], name="w")
    make().minimize(tf.reduce_sum(made))
    return [name for name, _ in operations() if "Initializer" in name]


def case_create_global_step_twice_is_refused() -> Any:
    tf.train.create_global_step()
    return tf.train.create_global_step()


@makes_case
def found_by_name(dtype: str) -> Any:
    tf.Variable(0, name="global_step", dtype=getattr(tf, dtype), trainable=False)
    return tf.train.get_global_step().name


def case_get_global_step_refuses_a_vector() -> Any:
    tf.Variable([0, 0], name="global_step", trainable=False)
    return tf.train.get_global_step()


def case_get_global_step_of_two_in_the_collection() -> Any:
    for name in ("one", "other"):
        step = tf.Variable(0, name=name, trainable=False)
        tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    return tf.train.get_global_step()


def case_get_or_create_global_step_of_contrib() -> Any:
    step = tf.contrib.framework.get_or_create_global_step()
    return [step is tf.train.get_global_step(), static(step)]


def case_get_or_create_global_step_finds_the_one_that_is() -> Any:
    step = tf.train.create_global_step()
    return tf.train.get_or_create_global_step() is step


def case_get_or_create_global_step_under_scopes() -> Any:
    with tf.name_scope("names"), tf.variable_scope("layer"):
        return tf.train.get_or_create_global_step().name


def case_global_step_that_is_uninitialised(session: Any) -> Any:
    step = tf.train.create_global_step()
    return tf.train.global_step(session, step)


CASES: dict[str, Case] = {
    **{f"a_variable_from_{name}": made(make) for name, make in MADE.items()},
    **{
        f"{name}_of_two_numbers": used(change, True) for name, change in CHANGES.items()
    },
    **{f"{name}_without_a_value": fetched_alone(CHANGES[name]) for name in EMPTY},
    "a_variable_cannot_be_iterated": lambda: [item for item in tf.Variable([1.0])],
    **{f"defaults_of_{name}": defaults(name) for name in DEFAULTS},
    **{
        f"defaults_of_{name}_in_the_package": of_package(name)
        for name in ("random_uniform", "random_normal", "truncated_normal")
    },
    "slots_of_adagrad_begin_at": slots(lambda: tf.train.AdagradOptimizer(0.1)),
    "slots_of_adam_begin_at": slots(lambda: tf.train.AdamOptimizer(0.1)),
    "slots_of_rmsprop_begin_at": slots(lambda: tf.train.RMSPropOptimizer(0.1)),
    "slots_of_momentum_begin_at": slots(lambda: tf.train.MomentumOptimizer(0.1, 0.9)),
    "get_global_step_finds_int64_by_name": found_by_name("int64"),
    "get_global_step_finds_int32_by_name": found_by_name("int32"),
    "get_global_step_refuses_floats": found_by_name("float32"),
}
