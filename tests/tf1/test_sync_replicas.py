"""Synchronous replicas: rows, slots, processes, failures, what is refused."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import pytest

from kit import tf1 as tf
from kit.testing.task_process import until
from tests.cases import for_each
from tests.session.scene import in_thread
from tests.tf1.replica_processes import chief_here, line, worker_process
from tests.tf1.replicas import Replica, all_train, becomes, replicas, state
from tests.tf1.servers import cluster


@contextmanager
def pair(n_required: int, **options: Any) -> Iterator[list[Replica]]:
    """Give two replicas on servers of this process."""
    servers = cluster(ps=1, worker=2)
    spec = servers["ps"][0].server_def.cluster
    targets = [server.target for server in servers["worker"]]
    with replicas(spec, targets, n_required, **options) as made:
        yield made


@pytest.mark.slow
def test_lonely_replica_waits_for_the_other_and_its_gradient_is_not_lost() -> None:
    with pair(2, num_tokens=0) as both:
        with pytest.raises(tf.errors.DeadlineExceededError, match="sync_token_q"):
            both[0].train(6.0, within_s=0.2)
        assert state(both) == (0.0, 0, 0, [0, 0])

        token = both[1].train(2.0)

        assert token == 1
        assert becomes(both, (-4.0, 1, 1, [0, 1])) == (-4.0, 1, 1, [0, 1])


@pytest.mark.slow
def test_rows_are_averaged_over_the_replicas_that_had_them() -> None:
    """The gradient of each row that is fed is the last one of them."""

    def loss(v: Any, fed: Any) -> Any:
        return tf.reduce_sum(tf.gather(v, tf.cast(fed, tf.int32))) * fed[-1]

    with pair(2, shape=[4], loss=loss) as both:
        all_train([(both[0], [0.0, 1.0]), (both[1], [1.0, 3.0])])

        after = ([-1.0, -2.0, 0.0, -3.0], 1, 2, [0, 0])
        assert becomes(both, after) == after


@pytest.mark.slow
def test_wrapped_optimizer_gets_means_and_keeps_its_slots() -> None:
    def momentum() -> Any:
        return tf.train.MomentumOptimizer(0.5, 0.9)

    v, slot = 0.0, 0.0
    with pair(2, num_tokens=0, wrapped=momentum) as both:
        for number, (x, y) in enumerate([(1.0, 3.0), (-2.0, 6.0), (0.0, 1.0)], 1):
            all_train([(both[0], x), (both[1], y)])
            slot = 0.9 * slot + (x + y) / 2
            v -= 0.5 * slot
            until(lambda number=number: state(both)[1] == number)  # type: ignore[misc]

        chief = both[0]
        kept = chief.optimizer.get_slot(chief.v, "momentum")
        seen = chief.session.run([chief.v, kept])

    assert chief.optimizer.get_slot_names() == ["momentum"]
    assert chief.optimizer.variables() == []  # of the default graph, which is another
    np.testing.assert_allclose(seen, [v, slot], rtol=1e-6)


@pytest.mark.slow
def test_chief_thread_ends_with_its_coordinator_while_it_waits_for_gradients() -> None:
    with pair(2, num_tokens=0) as both:
        both[0].coord.request_stop()
        both[0].coord.join(stop_grace_period_secs=3600.0)  # longer than any test

        assert both[0].coord.joined


# -- processes of their own ------------------------------------------------------------


@pytest.mark.slow
def test_replicas_in_processes_of_their_own_agree_on_every_step() -> None:
    with (
        chief_here(2, 1) as (chief, ps, workers),
        worker_process(ps, workers, 1, 2) as other,
    ):
        chief.begin()
        # Whoever is late may find that the chief has taken both tokens of a step.
        seen = in_thread(lambda: [int(line(other)) for _ in range(5)])
        tokens: list[int] = []
        while not seen.done() or len(tokens) < 12:
            tokens.append(chief.train(1.0))
        theirs = seen.result()
        v, step = chief.session.run([chief.v, chief.step])

    assert tokens == sorted(tokens)
    assert theirs == sorted(theirs)
    assert step >= 5
    assert v == -step


@pytest.mark.slow
def test_stopped_backup_worker_slows_nobody() -> None:
    with (
        chief_here(1, 1) as (chief, ps, workers),
        worker_process(ps, workers, 1, 1) as other,
    ):
        chief.begin()
        while int(line(other)) < 1:
            chief.train(1.0)
        other.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(other.pid).status() == psutil.STATUS_STOPPED)
        before = int(chief.session.run(chief.step))

        for _ in range(20):
            chief.train(1.0, within_s=2.0)

        step = int(chief.session.run(chief.step))
        assert psutil.Process(other.pid).status() == psutil.STATUS_STOPPED
        # Alone it takes both tokens of a step: every second gradient may be stale.
        assert step - before >= 9
        other.send_signal(signal.SIGCONT)
        while int(line(other)) < step:
            chief.train(1.0)


# -- the graph, and misuse -------------------------------------------------------------


def made(
    n_required: int = 2, n_replicas: int | None = None, **options: Any
) -> tuple[Any, Any, Any]:
    """Return optimizer, train op and global step of a graph of one variable."""
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    step = tf.train.create_global_step()
    wrapped = tf.train.GradientDescentOptimizer(1.0)
    optimizer = tf.train.SyncReplicasOptimizer(
        wrapped, n_required, n_replicas, **options
    )
    return optimizer, optimizer.minimize(v * 2.0, step), step


def test_gradients_meet_where_their_variable_is_and_tokens_at_the_global_step() -> None:
    spec = {"ps": ["a:1", "b:1"], "worker": ["c:1"]}
    setter = tf.train.replica_device_setter(cluster=spec)
    with tf.Graph().as_default() as graph, tf.device(setter):
        optimizer, train_op, step = made()
        ops: list[Any] = graph.get_operations()

        places = {
            tensor.get_attr("shared_name").decode(): tensor.device
            for tensor in ops
            if tensor.type in ("ResourceConditionalAccumulator", "FIFOQueueV2")
        }
        assert places == {
            "v:0/grad_accum": "/job:ps/task:0",
            "sync_token_q": step.device,
            "dummy_queue": step.device,
        }
        (local,) = tf.local_variables()
        assert (local.op.name, local.device) == ("sync_rep_local_step", "/job:worker")
        assert train_op.dtype.base_dtype == tf.int64
        runner = optimizer.get_chief_queue_runner()
        assert runner.name == "dummy_queue"
        assert tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS) == []


def optimizer() -> Any:
    return tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 2)


REFUSED: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda v, step: optimizer().minimize(v * 2.0), "Global step"),
    (lambda v, step: optimizer().apply_gradients([], step), "at least one variable"),
    (
        lambda v, step: optimizer().apply_gradients([([1.0], v)], step),
        "Unknown grad type",
    ),
    (lambda v, step: optimizer().get_chief_queue_runner(), "apply_gradient"),
    (lambda v, step: optimizer().get_init_tokens_op(), "apply_gradient"),
    (lambda v, step: optimizer().make_session_run_hook(True).begin(), "apply_grad"),
    (lambda v, step: optimizer().make_session_run_hook(False).begin(), "apply_grad"),
    (lambda v, step: made(5, 2)[0].get_init_tokens_op(2), "Too few tokens"),
]


@for_each(("call", "words"), REFUSED)
def test_optimizer_refuses_what_it_cannot_synchronise(call: Any, words: str) -> None:
    with tf.Graph().as_default():
        v, step = tf.Variable(1.0), tf.Variable(0, name="step")

        with pytest.raises(ValueError, match=words):
            call(v, step)


def test_hook_names_variables_that_nobody_has_initialised(session: Any) -> None:
    optimizer, _, _ = made()
    hook = optimizer.make_session_run_hook(is_chief=True)
    hook.begin()

    with pytest.raises(RuntimeError, match="not initialized: v, global_step"):
        hook.after_create_session(session, tf.train.Coordinator())


@pytest.mark.slow
def test_averages_follow_the_variables_after_each_step(session: Any) -> None:
    average = tf.train.ExponentialMovingAverage(0.5)
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    step = tf.train.create_global_step()
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0),
        *(1, 1),
        variable_averages=average,
        variables_to_average=[v],
    )
    train_op = optimizer.minimize(v * -8.0, step)
    hook = optimizer.make_session_run_hook(is_chief=True, num_tokens=0)
    hook.begin()
    session.run(tf.global_variables_initializer())
    coord = tf.train.Coordinator()

    hook.after_create_session(session, coord)
    session.run(train_op)
    shadow = average.average(v)
    until(lambda: session.run(shadow) != 0.0)
    coord.request_stop()
    coord.join(stop_grace_period_secs=10.0)

    assert session.run([v, shadow]) == [8.0, 4.0]
