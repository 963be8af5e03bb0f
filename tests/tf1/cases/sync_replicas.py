"""Synchronous replicas: what is added to a graph, refused, and done at work."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tests.tf1.attempts import Later, attempt
from tests.tf1.look import Case, makes_case, names_of, tf
from tests.tf1.servers import cluster


def built(collect: int = 2, total: Any = 2, **named: Any) -> Any:
    """Make the optimizer and its train operation for one variable."""
    step = tf.train.get_or_create_global_step()
    v = tf.Variable([0.0, 0.0], name="v")
    inner = named.pop("inner", None) or tf.train.GradientDescentOptimizer(1.0)
    optimizer = tf.train.SyncReplicasOptimizer(
        inner, replicas_to_aggregate=collect, total_num_replicas=total, **named
    )
    train = optimizer.minimize(tf.reduce_sum(v * v), global_step=step)
    return optimizer, train, v, step


def case_its_accumulator_and_queue() -> Any:
    """The kinds of operations that hold state, and their shared names."""
    built()
    result = []
    for op in tf.get_default_graph().get_operations():
        if "Accumulator" in op.type and "shared_name" in op.node_def.attr:
            shared = op.node_def.attr["shared_name"].s.decode()
            result.append(["accumulator", shared])
        if op.type == "FIFOQueueV2":
            shared = op.node_def.attr["shared_name"].s.decode()
            result.append(["queue", shared])
    return sorted(result)


def case_accumulators_of_several_variables() -> Any:
    """One accumulator for each variable that is trained."""
    step = tf.train.get_or_create_global_step()
    a, b = tf.Variable(1.0, name="a"), tf.Variable([[1.0]], name="scope/b")
    table = tf.Variable(np.ones((4, 2), np.float32), name="table")
    tf.Variable(1.0, name="unused")
    loss = a * tf.reduce_sum(b) + tf.reduce_sum(tf.gather(table, [1, 2]))
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), 2, 2
    )
    optimizer.minimize(loss, global_step=step)
    result = []
    for op in tf.get_default_graph().get_operations():
        if op.type.endswith("ConditionalAccumulator"):
            shared = op.node_def.attr["shared_name"].s.decode()
            result.append([shared, "Sparse" in op.type])
    return sorted(result)


@makes_case
def tokens(*arguments: int, **shape: int) -> Any:
    """Return a case: whether so many tokens to begin with are allowed."""
    optimizer, _, _, _ = built(**shape)
    return type(optimizer.get_init_tokens_op(*arguments)).__name__


def case_slots_of_the_wrapped_one() -> Any:
    """Slots are those of the optimizer that is wrapped."""
    inner = tf.train.MomentumOptimizer(1.0, 0.9)
    optimizer, _, v, _ = built(inner=inner)
    slot = optimizer.get_slot(v, "momentum")
    return [
        *(optimizer.get_slot_names(), slot.name, inner.get_slot(v, "momentum") is slot),
        names_of(optimizer.variables()),
        type(optimizer).__name__,
    ]


def case_with_a_name() -> Any:
    _, train, _, _ = built(name="mine")
    return [
        train.name,
        names_of(tf.local_variables()),
    ]


def case_without_a_total() -> Any:
    """Without a total there are as many replicas as gradients are collected."""
    optimizer, _, _, _ = built(collect=3, total=None)
    return [
        attempt(lambda count: optimizer.get_init_tokens_op(count).type, item)
        for item in (-2, -1, 0, 3)
    ]


def optimizer(collect: int = 2, total: Any = 2) -> Any:
    return tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), collect, total_num_replicas=total
    )


def pair() -> Any:
    v = tf.Variable([0.0, 0.0], name="v")
    return tf.constant([1.0, 1.0]), v


def case_applied_to_no_gradient() -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer().apply_gradients([(None, v)], global_step=step).name


def case_a_gradient_that_is_a_number() -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer().apply_gradients([(1.5, v)], global_step=step)


def case_wrapped_around_nothing() -> Any:
    step = tf.train.get_or_create_global_step()
    first = tf.train.SyncReplicasOptimizer(None, 1)
    return attempt(first.apply_gradients, [pair()], global_step=step)


@makes_case
def made(*arguments: Any, **named: Any) -> Any:
    inner = tf.train.GradientDescentOptimizer(1.0)
    return type(tf.train.SyncReplicasOptimizer(inner, *arguments, **named)).__name__


class Replica:
    """One worker: its graph, its session, and what it can read."""

    def __init__(self, servers: Any, task: int, shape: Any, **named: Any):
        target = servers["worker"][task].target
        worker = f"/job:worker/task:{task}"
        setter = tf.train.replica_device_setter(1, worker_device=worker)
        with tf.Graph().as_default(), tf.device(setter):
            self.step = tf.train.get_or_create_global_step()
            self.v = tf.Variable(0.0, name="v")
            self.x = tf.placeholder(tf.float32, [])
            inner = named.get("make", tf.train.GradientDescentOptimizer)
            collect, total = shape
            optimizer = tf.train.SyncReplicasOptimizer(
                inner(1.0), replicas_to_aggregate=collect, total_num_replicas=total
            )
            loss = self.v * self.x
            self.train = optimizer.minimize(loss, global_step=self.step)
            n_tokens = named.get("n_tokens", -1)
            hooks = [optimizer.make_session_run_hook(task == 0, num_tokens=n_tokens)]
            self.session = tf.train.MonitoredTrainingSession(
                *(target, task == 0),
                hooks=hooks + named.get("hooks", []),
                stop_grace_period_secs=0.02,  # the chief's thread may wait for ever
            )

    def run(self, x: float) -> Any:
        return attempt(self.session.run, self.train, {self.x: x})

    def later(self, x: float) -> Later:
        return Later(self.session.run, self.train, {self.x: x})

    def state(self, step: int) -> list[Any]:
        """Tell variable and step when that step has come, or after two seconds."""

        def look(step_context: Any) -> Any:
            return step_context.session.run([self.v, self.step])

        end = time.time() + 2.0
        while True:
            v, at = self.session.run_step_fn(look)
            if at >= step or time.time() > end:
                return [float(v), int(at)]
            time.sleep(0.005)


def started(collect: int, total: int, **named: Any) -> list[Replica]:
    """Start so many workers; the first is the chief."""
    servers = cluster(ps=1, worker=total)
    shape = (collect, total)
    return [Replica(servers, task, shape, **named) for task in range(total)]


def closed(replicas: list[Replica]) -> None:
    """End the workers first, the chief last."""
    for item in reversed(replicas):
        item.session.close()


def case_both_of_two() -> Any:
    """The first step counts, the second is dropped as stale, then they wait."""
    chief, worker = both = started(2, 2)
    result = [chief.state(0), chief.run(1.0), worker.run(3.0), chief.state(1)]
    result += [chief.run(5.0), worker.run(7.0), chief.state(1)]
    waits = chief.later(2.0)
    result += [waits.is_waiting(), worker.run(4.0), waits.result(), worker.state(2)]
    closed(both)
    return result


def case_both_of_two_without_tokens() -> Any:
    """With no token at the start nothing is wasted: all wait from the first step."""
    chief, worker = both = started(2, 2, n_tokens=0)
    result: list[Any] = []
    for step, (first, other) in enumerate([(1.0, 3.0), (2.0, 6.0), (-4.0, 0.0)], 1):
        waits = chief.later(first)
        result += [waits.is_waiting(0.05), worker.run(other), waits.result()]
        result += [worker.state(step)]
    closed(both)
    return result


@makes_case
def traced(collect: int, total: int, *moves: tuple[int, Any], **named: Any) -> Any:
    """Return a case: what comes of the moves, each of a replica.

    A fraction is fed to a run; a whole number is the step at which a state is told.
    """
    replicas = started(collect, total, **named)
    result = [
        replicas[index].run(x) if isinstance(x, float) else replicas[index].state(x)
        for index, x in moves
    ]
    closed(replicas)
    return result


def momentum(rate: Any) -> Any:
    return tf.train.MomentumOptimizer(rate, 0.5)


def case_until_a_step() -> Any:
    """A hook that stops at a step sees the step of all."""
    hook = tf.train.StopAtStepHook(last_step=3)
    (first,) = started(1, 1, n_tokens=0, hooks=[hook])
    result: list[Any] = []
    while not first.session.should_stop() and len(result) < 10:
        result.append(first.run(1.0))
    closed([first])
    return result


def case_halves_of_a_batch() -> Any:
    """Two halves of a batch, averaged, are the whole batch."""
    values = np.array([[1.0, 2.0, 3.0, 6.0], [0.5, -1.0, 2.0, 4.5]])
    chief, worker = both = started(2, 2, n_tokens=0)
    for row in values:
        waits = chief.later(float(row[:2].mean()))
        worker.run(float(row[2:].mean()))
        waits.result()
    result = [chief.state(2), float(-values.mean(1).sum())]
    closed(both)
    return result


def case_a_worker_that_waits_is_closed() -> Any:
    """A worker that waits for the others is cancelled when its session is closed."""
    chief, worker = started(2, 2, n_tokens=0)
    waits = worker.later(1.0)
    result = [waits.is_waiting()]
    closed([chief, worker])
    return [*result, waits.result() in ("CancelledError", "RuntimeError", None)]


CASES: dict[str, Case] = {
    "tokens_by_default": tokens(),
    "no_tokens": tokens(0),
    "five_tokens": tokens(5),
    "no_tokens_for_one_backup": tokens(0, collect=1, total=2),
    "too_few_tokens": tokens(1, collect=4, total=2),
    "enough_tokens": tokens(2, collect=4, total=2),
    "made_of_less_replicas_than_gradients": made(4, 2),
    "made_of_one": made(1),
    "made_without_a_count": made(),
    "made_of_none": made(0),
    "one_of_two": traced(1, 2, (0, 1.0), (0, 1), (1, 5.0), (1, 1), (1, 2.0), (1, 2)),
    "one_of_two_and_the_other_never_comes": traced(
        *(1, 2, (0, 1.0), (0, 1), (0, 1.0), (0, 1.0), (0, 2))
    ),
    "four_of_two": traced(  # each of two gives two gradients to a step
        *(4, 2, (0, 1.0), (1, 2.0), (0, 3.0), (0, 0), (1, 4.0), (0, 1))
    ),
    "four_of_two_with_more_tokens": traced(  # all that wait are averaged
        *(4, 2, (0, 1.0), (1, 2.0), (0, 3.0), (0, 0), (1, 6.0), (0, 1)), n_tokens=8
    ),
    "alone_without_tokens": traced(
        *(1, 1, (0, 1.0), (0, 1), (0, 2.0), (0, 2), (0, 4.0), (0, 3)), n_tokens=0
    ),
    "alone": traced(
        *(1, 1, (0, 1.0), (0, 1), (0, 2.0), (0, 1)),
        *((0, 4.0), (0, 2), (0, 8.0), (0, 3)),
    ),
    "alone_with_momentum": traced(
        *(1, 1, (0, 1.0), (0, 1), (0, 1.0), (0, 2), (0, 1.0), (0, 3)),
        n_tokens=0,
        make=momentum,
    ),
}
