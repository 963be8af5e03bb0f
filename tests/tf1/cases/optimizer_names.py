"""Slots, their names and devices, and what `minimize` is made of."""

from __future__ import annotations

from typing import Any

from tests.tf1.cases.optimizer_steps import OPTIMIZERS
from tests.tf1.look import Case, initialized, makes_case, names_of, tf

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
    **{f"{name}_names_its_slots": slot_names(NAMED[name]) for name in NAMED},
    **{f"{name}_starts_its_slots": initial_slots(NAMED[name]) for name in NAMED},
    **{f"{name}_puts_slots_beside_variables": devices(NAMED[name]) for name in NAMED},
}
