"""Options of variables: reads, copies, training; initializers and what they write."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case, names_of, started, static, tf

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


CASES = {
    **{f"defaults_of_{name}": defaults(name) for name in DEFAULTS},
    **{
        f"defaults_of_{name}_in_the_package": of_package(name)
        for name in ("random_uniform", "random_normal", "truncated_normal")
    },
    "slots_of_adagrad_begin_at": slots(lambda: tf.train.AdagradOptimizer(0.1)),
    "slots_of_adam_begin_at": slots(lambda: tf.train.AdamOptimizer(0.1)),
    "slots_of_rmsprop_begin_at": slots(lambda: tf.train.RMSPropOptimizer(0.1)),
    "slots_of_momentum_begin_at": slots(lambda: tf.train.MomentumOptimizer(0.1, 0.9)),
}
