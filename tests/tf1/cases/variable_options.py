"""Options of variables: where reads are kept, how copies agree, what is trained."""

from __future__ import annotations

from typing import Any

PS, WORKER = "/job:ps/task:0", "/job:worker/task:1"


def devices(variable: Any) -> list[str]:
    """Tell where the variable, its initializer and its value are."""
    ops = [variable.op, variable.initializer, variable.value().op]
    return [tensor.device for tensor in ops]


def names(variables: Any) -> list[str]:
    return [variable.name for variable in variables]


def case_a_caching_device_of_get_variable(tf: Any) -> Any:
    with tf.device(PS):
        return devices(tf.get_variable("v", [1], caching_device=WORKER))


def case_a_caching_device_that_is_a_function(tf: Any) -> Any:
    with tf.device(PS):
        return devices(tf.Variable(1.0, caching_device=lambda op: WORKER))


def case_a_caching_device_by_the_scope_itself(tf: Any) -> Any:
    with tf.variable_scope("a") as scope:
        scope.set_caching_device(WORKER)
        return devices(tf.get_variable("v", [1]))


def case_a_custom_getter_is_given_all_options(tf: Any) -> Any:
    seen = []

    def custom(getter: Any, name: str, *args: Any, **how: Any) -> Any:
        seen.append([name, len(args), sorted(how)])
        return getter(name, *args, **how)

    with tf.variable_scope("a", custom_getter=custom, caching_device=WORKER):
        result = tf.get_variable("v", [1])
    return seen, devices(result)


def case_what_is_read_on_demand_is_not_trained(tf: Any) -> Any:
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


def case_read_on_demand_and_trained(tf: Any) -> Any:
    on_read = tf.VariableSynchronization.ON_READ
    return tf.get_variable("b", [], synchronization=on_read, trainable=True).trainable


def case_a_layer_weight_that_is_read_on_demand(tf: Any) -> Any:
    layer = tf.layers.Dense(1)
    layer.add_weight(
        "w", [1], synchronization=tf.VariableSynchronization.ON_READ, trainable=None
    )
    return names(layer.trainable_weights), names(layer.non_trainable_weights)


def case_a_synchronization_that_is_none_of_these(tf: Any) -> Any:
    return tf.Variable(1.0, synchronization=17).name


def case_an_aggregation_that_is_none_of_these(tf: Any) -> Any:
    return tf.get_variable("v", [], aggregation="sum").name


def case_no_synchronization_is_the_usual_one(tf: Any) -> Any:
    result = tf.Variable(1.0, synchronization=None, aggregation=None)
    return result.synchronization.name, result.aggregation.name, result.trainable


def case_a_local_copy_of_a_global_variable(tf: Any) -> Any:
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    copy = tf.get_local_variable("copy", initializer=v * 1.0)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        return session.run(copy)
