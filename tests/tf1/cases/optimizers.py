"""Steps of every optimizer, dense and sparse; slots, names and devices; misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, initialized, makes_case, names_of, tf

START = np.array([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]], np.float32)
STEPS = 4

OPTIMIZERS: dict[str, Case] = {
    "gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adagrad_from_one": lambda: tf.train.AdagradOptimizer(
        0.1, initial_accumulator_value=1.0
    ),
    "adam": lambda: tf.train.AdamOptimizer(),
    "adam_with_other_constants": lambda: tf.train.AdamOptimizer(
        0.1, beta1=0.5, beta2=0.75, epsilon=0.1
    ),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "rmsprop_with_momentum": lambda: tf.train.RMSPropOptimizer(
        0.1, decay=0.8, momentum=0.5, epsilon=0.01
    ),
    "rmsprop_centered": lambda: tf.train.RMSPropOptimizer(
        0.1, decay=0.8, momentum=0.5, centered=True
    ),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
    "proximal_that_shrinks": lambda: tf.train.ProximalGradientDescentOptimizer(
        0.1, l1_regularization_strength=0.5, l2_regularization_strength=0.2
    ),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
    "proximal_adagrad_that_shrinks": lambda: tf.train.ProximalAdagradOptimizer(
        0.1, 0.3, l1_regularization_strength=0.5, l2_regularization_strength=0.2
    ),
}


def slots(optimizer: Any, variable: Any) -> list[Any]:
    names = sorted(optimizer.get_slot_names())
    return [optimizer.get_slot(variable, name) for name in names]


def trajectory(optimizer: Any, variable: Any, train: Any, feed: Any) -> Any:
    """Run the steps; tell the variable after each, and all slots at the end."""
    with initialized() as session:
        seen = []
        for step in range(STEPS):
            session.run(train, feed(step))
            seen.append(session.run(variable))
        return [seen, session.run(slots(optimizer, variable))]


@makes_case
def dense(make: Case) -> Any:
    optimizer, variable = make(), tf.Variable(START)
    x = tf.placeholder(tf.float32, [2])
    train = optimizer.minimize(tf.reduce_sum(tf.square(variable) * x))
    return trajectory(optimizer, variable, train, lambda step: {x: [1.0 + step, 0.5]})


@makes_case
def sparse(make: Case) -> Any:
    optimizer, variable = make(), tf.Variable(START)
    rows = tf.placeholder(tf.int32, [3])
    taken = tf.gather(variable, rows)
    train = optimizer.minimize(tf.reduce_sum(tf.square(taken) * [[1.0, 2.0]]))
    which = [[0, 2, 0], [2, 2, 2], [0, 0, 2], [2, 0, 0]]
    return trajectory(optimizer, variable, train, lambda step: {rows: which[step]})


@makes_case
def float64(make: Case) -> Any:
    optimizer = make()
    variable = tf.Variable(START.astype(np.float64))
    train = optimizer.minimize(tf.reduce_sum(tf.square(variable)))
    return trajectory(optimizer, variable, train, lambda step: None)


@makes_case
def two_variables(make: Case) -> Any:
    weights = tf.get_variable("w", initializer=tf.constant([[1.0], [2.0]]))
    bias = tf.get_variable("b", initializer=tf.constant([0.5]))
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]])
    error = tf.matmul(x, weights) + bias - [[1.0], [0.0], [2.0]]
    train = make().minimize(tf.reduce_mean(tf.square(error)))
    with initialized() as session:
        for _ in range(STEPS):
            session.run(train)
        return session.run([weights, bias])


def case_updates_may_lock(session: Any) -> Any:
    variable = tf.Variable([0.0])
    optimizer = tf.train.GradientDescentOptimizer(1.0, use_locking=True)
    train = optimizer.minimize(tf.reduce_sum(variable))
    session.run(variable.initializer)
    for _ in range(10):
        session.run(train)
    return session.run(variable)


# The operations of the updates: how many variables they take, then their settings.
UPDATES: dict[str, tuple[int, Callable[[Any], list[Any]]]] = {
    "apply_gradient_descent": (1, lambda g: [0.1, g]),
    "apply_momentum": (2, lambda g: [0.1, g, 0.9]),
    "apply_adagrad": (2, lambda g: [0.1, g]),
    "apply_adadelta": (3, lambda g: [0.1, 0.9, 0.01, g]),
    "apply_ftrl": (3, lambda g: [g, 0.1, 0.2, 0.3, -0.5]),
    "apply_rms_prop": (3, lambda g: [0.1, 0.9, 0.5, 0.01, g]),
    "apply_centered_rms_prop": (4, lambda g: [0.1, 0.9, 0.5, 0.01, g]),
    "apply_adam": (3, lambda g: [0.81, 0.25, 0.1, 0.9, 0.5, 0.01, g]),
    "sparse_apply_momentum": (2, lambda g: [0.1, g[:2], [2, 0], 0.9]),
    "sparse_apply_adagrad": (2, lambda g: [0.1, g[:2], [2, 0]]),
    "sparse_apply_adadelta": (3, lambda g: [0.1, 0.9, 0.01, g[:2], [2, 0]]),
    "sparse_apply_ftrl": (3, lambda g: [g[:2], [2, 0], 0.1, 0.2, 0.3, -0.5]),
    "sparse_apply_rms_prop": (3, lambda g: [0.1, 0.9, 0.5, 0.01, g[:2], [2, 0]]),
}


@makes_case
def update(name: str) -> Any:
    n_variables, arguments = UPDATES[name]
    if tf.__name__.startswith("tensorflow"):
        from tensorflow.python.training import training_ops
    else:
        from kit.tf1.python.training import training_ops
    slots = [np.full_like(START, item) for item in (0.25, 2.0, 0.5)]
    variables = [tf.Variable(item) for item in [START, *slots][:n_variables]]
    made = getattr(training_ops, name)(*variables, *arguments(START / 2))
    with initialized() as session:
        return [made.op.type, session.run(made), *session.run(variables)]


def descent() -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


def case_minimize_of_an_unconnected_loss() -> Any:
    tf.Variable([1.0])
    return descent().minimize(tf.constant(1.0))


@makes_case
def applied(make: Callable[[Any], Any]) -> Any:
    variable = tf.Variable([1.0, 2.0])
    return descent().apply_gradients(make(variable)).name


def case_minimize_with_a_bad_gate() -> Any:
    variable = tf.Variable([1.0])
    return descent().minimize(tf.reduce_sum(variable), gate_gradients=7)


def case_compute_gradients_by_a_constant() -> Any:
    value = tf.constant([1.0])
    return len(descent().compute_gradients(tf.reduce_sum(value), [value]))


NAMED: dict[str, Case] = {
    name: OPTIMIZERS[name]
    for name in (
        *("gradient_descent", "momentum", "adagrad"),
        *("adam", "rmsprop", "rmsprop_centered"),
    )
}


@makes_case
def slot_names(make: Case) -> Any:
    optimizer = make()
    before = optimizer.get_slot_names()
    variable = tf.Variable([1.0, 2.0], name="v")
    optimizer.minimize(tf.reduce_sum(variable * 2.0))
    names = optimizer.get_slot_names()
    slots = [optimizer.get_slot(variable, name) for name in names]
    return [
        before,
        [[name, slot.name] for name, slot in sorted(pair(names, slots))],
        names_of(optimizer.variables()),
        names_of(tf.trainable_variables()),
        sorted(global_variable.name for global_variable in tf.global_variables()),
    ]


def pair(names: list[str], slots: list[Any]) -> list[tuple[str, Any]]:
    return [(name, slots[index]) for index, name in enumerate(names)]


@makes_case
def initial_slots(make: Case) -> Any:
    optimizer = make()
    variable = tf.Variable([[1.0, 2.0]], name="v")
    optimizer.minimize(tf.reduce_sum(variable * 2.0))
    with initialized() as session:
        return {var.name: session.run(var) for var in optimizer.variables()}


@makes_case
def devices(make: Case) -> Any:
    optimizer = make()
    with tf.device("/job:ps/task:1"):
        late = tf.Variable([1.0], name="z")
    with tf.device("/job:ps/task:0"):
        early = tf.Variable([1.0], name="a")
    with tf.device("/job:worker/task:2"):
        optimizer.minimize(tf.reduce_sum(late * early))
    return {variable.name: variable.device for variable in optimizer.variables()}


def case_train_ops_have_names() -> Any:
    variable = tf.Variable([1.0])
    step = tf.train.create_global_step()
    loss = tf.reduce_sum(variable * 2.0)
    train = tf.train
    made = [
        train.GradientDescentOptimizer(0.1).minimize(loss),
        train.GradientDescentOptimizer(0.1).minimize(loss),
        train.AdamOptimizer().minimize(loss),
        train.AdagradOptimizer(0.1).minimize(loss, global_step=step),
        train.MomentumOptimizer(0.1, 0.9, name="Own").minimize(loss),
        train.RMSPropOptimizer(0.1).minimize(loss, name="go"),
    ]
    return [[item.name, item.type] for item in made]


def case_train_op_is_in_its_collection() -> Any:
    variable = tf.Variable([1.0])
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(variable))
    return [item is train for item in tf.get_collection(tf.GraphKeys.TRAIN_OP)]


def case_minimize_touches_only_its_variables() -> Any:
    first, other = tf.Variable([1.0]), tf.Variable([2.0])
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    train = optimizer.minimize(tf.reduce_sum(first * other), var_list=[other])
    with initialized() as session:
        session.run(train)
        return session.run([first, other])


def case_minimize_takes_weights_of_the_loss(session: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    train = optimizer.minimize(variable * 3.0, grad_loss=tf.constant([1.0, 10.0]))
    session.run(variable.initializer)
    session.run(train)
    return session.run(variable)


def case_minimize_takes_every_gate() -> Any:
    results = []
    for gate in ("GATE_NONE", "GATE_OP", "GATE_GRAPH"):
        variable = tf.Variable([1.0, 2.0])
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        train = optimizer.minimize(
            tf.reduce_sum(tf.square(variable)), gate_gradients=getattr(optimizer, gate)
        )
        with initialized() as session:
            session.run(train)
            results.append([getattr(optimizer, gate), session.run(variable)])
    return results


def case_optimizer_tells_its_name() -> Any:
    optimizer = tf.train.AdamOptimizer(name="Own")
    kinds = [isinstance(optimizer, tf.train.Optimizer), optimizer.get_name()]
    return [*kinds, len(optimizer.variables())]


CASES: dict[str, Case] = {
    **{f"{name}_with_dense_gradients": dense(OPTIMIZERS[name]) for name in OPTIMIZERS},
    **{
        f"{name}_with_sparse_gradients": sparse(OPTIMIZERS[name]) for name in OPTIMIZERS
    },
    **{f"{name}_in_float64": float64(OPTIMIZERS[name]) for name in OPTIMIZERS},
    **{
        f"{name}_trains_two_variables": two_variables(OPTIMIZERS[name])
        for name in OPTIMIZERS
    },
    **{name: update(name) for name in UPDATES},
    "apply_gradients_of_nothing": applied(lambda v: []),
    "apply_gradients_of_none_alone": applied(lambda v: [(None, v)]),
    "apply_gradients_of_a_list": applied(lambda v: [([1.0, 2.0], v)]),
    "apply_gradients_of_an_array": applied(lambda v: [(np.ones(2, np.float32), v)]),
    "apply_gradients_of_a_word": applied(lambda v: [("word", v)]),
    "apply_gradients_of_another_shape": applied(
        lambda v: [(tf.constant([1.0, 2.0, 3.0]), v)]
    ),
    "apply_gradients_to_a_tensor": applied(
        lambda v: [(tf.constant([1.0]), tf.constant([1.0]))]
    ),
    "apply_gradients_of_an_object": applied(lambda v: [(object(), v)]),
    "optimizer_with_an_empty_name": lambda: tf.train.Optimizer(False, ""),
    "descent_with_an_empty_name": lambda: tf.train.GradientDescentOptimizer(
        0.1, name=""
    ),
    "adagrad_from_below_zero": lambda: tf.train.AdagradOptimizer(
        0.1, initial_accumulator_value=-1.0
    ),
    "momentum_without_a_momentum": lambda: tf.train.MomentumOptimizer(0.1),
    "minimize_without_variables": lambda: descent().minimize(tf.constant(1.0)),
    **{f"{name}_names_its_slots": slot_names(NAMED[name]) for name in NAMED},
    **{f"{name}_starts_its_slots": initial_slots(NAMED[name]) for name in NAMED},
    **{f"{name}_puts_slots_beside_variables": devices(NAMED[name]) for name in NAMED},
}
