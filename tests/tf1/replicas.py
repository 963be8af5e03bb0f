"""Replicas that train one variable together: sessions in threads, servers beside them.

The loss is v times what is fed, so the gradient is what is fed; the learning rate is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from kit import tf1 as tf
from kit.testing.task_process import until
from tests.session.scene import in_thread

Loss = Callable[[Any, Any], Any]
END_S = 10.0


def product(variable: Any, fed: Any) -> Any:
    """Return the loss whose gradient is what is fed."""
    return variable * fed


class Replica:
    """One worker with its graph and session; task 0 is the chief."""

    def __init__(
        self,
        spec: Any,
        index: int,
        target: str,
        n_required: int,
        n_replicas: int,
        *,
        shape: Sequence[int] = (),
        loss: Loss = product,
        wrapped: Callable[[], Any] = lambda: tf.train.GradientDescentOptimizer(1.0),
        num_tokens: int = -1,
        **options: Any,
    ) -> None:
        self.is_chief = index == 0
        self.coord = tf.train.Coordinator()
        worker = f"/job:worker/task:{index}"
        scope = tf.train.replica_device_setter(cluster=spec, worker_device=worker)
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(scope):
            self.fed = tf.placeholder(tf.float32, None)
            self.v = tf.get_variable("v", shape, initializer=tf.zeros_initializer())
            self.step = tf.train.create_global_step()
            self.optimizer = tf.train.SyncReplicasOptimizer(
                wrapped(), n_required, n_replicas, **options
            )
            self.train_op = self.optimizer.minimize(loss(self.v, self.fed), self.step)
            self.hook = self.optimizer.make_session_run_hook(self.is_chief, num_tokens)
            self.hook.begin()
            (self.local_step,) = tf.local_variables()
            queue = tf.FIFOQueue(-1, tf.int64, shapes=(), shared_name="sync_token_q")
            # Beside the queue of that name.
            with tf.colocate_with(self.step.op):
                self.n_tokens = queue.size()
            self.init = tf.global_variables_initializer()
        self.session = tf.Session(target, graph=self.graph)

    def begin(self) -> None:
        """Do what a monitored session does: initialise, if chief, and tell the hook."""
        if self.is_chief:
            self.session.run(self.init)
        self.hook.after_create_session(self.session, self.coord)

    def train(self, number: Any, within_s: float = END_S) -> int:
        """Run one step with a gradient; returns the token that it got."""
        options = tf.RunOptions(timeout_in_ms=int(within_s * 1000))
        return int(self.session.run(self.train_op, {self.fed: number}, options))

    def end(self) -> None:
        """Stop the chief's thread, which must be soon, and close the session."""
        self.coord.request_stop()
        self.coord.join(stop_grace_period_secs=END_S)
        self.session.close()


@contextmanager
def replicas(
    spec: Any, targets: Sequence[str], n_required: int, **options: Any
) -> Iterator[list[Replica]]:
    """Give a replica for each target, begun, and end them after the block."""
    n = len(targets)
    with ExitStack() as stack:
        made = []
        for index, target in enumerate(targets):
            first = Replica(spec, index, target, n_required, n, **options)
            stack.callback(first.end)
            first.begin()
            made.append(first)
        yield made


def all_train(pairs: Sequence[tuple[Replica, Any]]) -> list[int]:
    """Run one step of each replica at the same time; returns their tokens."""
    begun = [in_thread(partial(item.train, x)) for item, x in pairs]
    return [future.result(END_S) for future in begun]


def state(all_replicas: Sequence[Replica]) -> tuple[Any, int, int, list[int]]:
    """Return v, the global step, how many tokens are left, and the local steps."""
    first = all_replicas[0]
    v, step, n = first.session.run([first.v, first.step, first.n_tokens])
    local = [
        int(all_replica.session.run(all_replica.local_step))
        for all_replica in all_replicas
    ]
    return v.tolist(), int(step), int(n), local


def becomes(all_replicas: Sequence[Replica], expected: Any) -> Any:
    """Return the state, which is to be `expected` soon: the chief has its own pace."""
    with suppress(AssertionError):
        until(lambda: state(all_replicas) == expected)
    return state(all_replicas)
