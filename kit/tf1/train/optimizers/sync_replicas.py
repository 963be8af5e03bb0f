"""`tf.train.SyncReplicasOptimizer`: applies the gradients of replicas together.

Each replica's train op pushes its gradients to accumulators, one beside each variable,
and then waits for a token. A thread of the chief does the rest:

    replica ──gradient, local step──► accumulator ──mean of R──► wrapped optimizer
       ▲                                                               │
       └────token: the new global step──── queue ◄──── T tokens ───────┘

R is `replicas_to_aggregate`, N `total_num_replicas`, T the larger of both. A gradient
whose local step is older than the accumulator's is dropped, so with N > R the late ones
of a step do not count. Gradients are averaged, not summed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.graph.op import IndexedSlices
from kit.graph.op import Tensor as NativeTensor
from kit.hooks.hook import SessionRunHook
from kit.tf1 import logging
from kit.tf1.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.control import group, no_op
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.creation import fill
from kit.tf1.queues import FIFOQueue
from kit.tf1.tensor.dtypes import int32
from kit.tf1.train.optimizers.optimizer import Optimizer
from kit.tf1.train.queues.queue_runner import QueueRunner
from kit.tf1.variables.assigning import assign
from kit.tf1.variables.variable_lists import (
    global_variables,
    report_uninitialized_variables,
)
from kit.tf1.variables.variables import Variable


class SyncReplicasOptimizer(Optimizer):
    """Wraps an optimizer so that it applies means of the gradients of replicas.

        opt = tf.train.SyncReplicasOptimizer(opt, replicas_to_aggregate=2)
        train_op = opt.minimize(loss, global_step=step)
        hook = opt.make_session_run_hook(is_chief)

    The value of the train op is the token that it took: a global step. It waits until
    enough gradients have come, and raises `DeadlineExceededError` if they do not.
    """

    def __init__(
        self,
        opt: Any,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
        replica_id: int | None = None,
    ) -> None:
        """Wrap `opt`; `total_num_replicas` is `replicas_to_aggregate` unless given.

        `variable_averages`, an `ExponentialMovingAverage`, follows
        `variables_to_average` after each step. Programs from before 1.0 give a
        `replica_id`, which nothing needs: each worker has a local step of its own.
        """
        super().__init__(use_locking, name)
        total = replicas_to_aggregate
        if total_num_replicas is not None:
            total = total_num_replicas
        logging.info(
            "SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s",
            replicas_to_aggregate,
            total,
        )
        self._opt = opt
        self._n_required, self._n_replicas = replicas_to_aggregate, total
        self._n_tokens = max(total, replicas_to_aggregate)
        self._averages, self._to_average = variable_averages, variables_to_average
        self._global_step: Any = None
        self._local_step: Any = None
        self._tokens: Any = None
        self._queue_runner: QueueRunner | None = None
        self._accumulators: list[tuple[Any, str]] = []
        self.local_step_init_op: Any = None
        self.ready_for_local_init_op: Any = None
        self.chief_init_op: Any = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Return the gradients of the wrapped optimizer, for example to clip them."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Return the train op of a replica: it pushes gradients and takes a token.

        Raises `ValueError` without gradients or a global step, and for a gradient that
        is neither a tensor nor `tf.IndexedSlices`.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        self._make_local_step()
        graph = get_default_graph()
        with graph.name_scope(self._name):
            pushes, means = self._accumulate(pairs)
            with graph.device(global_step.device), graph.name_scope(""):
                update = self._opt.apply_gradients(means, global_step)
            with graph.device(global_step.device), graph.name_scope(""):
                train_op = self._exchange_tokens(pushes, update)
            self._make_chief_init()
        return train_op

    def _make_local_step(self) -> None:
        # Beside an operation of the worker: a replica device setter would put the
        # variable onto a parameter server, where the replicas would share it.
        anchor = no_op()
        with get_default_graph().colocate_with(anchor):
            self._local_step = Variable(
                0,
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                dtype=self._global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self.local_step_init_op = assign(self._local_step, self._global_step)
        self.ready_for_local_init_op = report_uninitialized_variables(
            global_variables()
        )

    def _accumulate(
        self, pairs: list[tuple[Any, Any]]
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Return operations that push gradients, and the means with their variables."""
        pushes, means = [], []
        for gradient, variable in pairs:
            if gradient is None:
                means.append((None, variable))
                continue
            with get_default_graph().device(variable.device):
                push, mean = self._of_variable(gradient, variable)
            pushes.append(push)
            means.append((mean, variable))
        return pushes, means

    def _of_variable(self, gradient: Any, variable: Any) -> tuple[Any, Any]:
        if not isinstance(gradient, NativeTensor | IndexedSlices):
            raise ValueError(f"Unknown grad type! {gradient!r}")
        shared, dtype = f"{variable.name}/grad_accum", gradient.dtype
        step, n = self._local_step, self._n_required
        if isinstance(gradient, NativeTensor):
            dense = ConditionalAccumulator(dtype, variable.get_shape(), shared)
            push = dense.apply_grad(gradient, step)
            self._accumulators.append((dense, variable.device))
            return push, dense.take_grad(n)
        rows = SparseConditionalAccumulator(dtype, (), shared)
        push = rows.apply_indexed_slices_grad(gradient, step)
        self._accumulators.append((rows, variable.device))
        return push, rows.take_indexed_slices_grad(n)

    def _exchange_tokens(self, pushes: list[Any], update: Any) -> Any:
        graph, dtype = get_default_graph(), self._global_step.dtype.base_dtype
        name = "sync_token_q"
        tokens = FIFOQueue(-1, dtype, shapes=(), shared_name=name, name=name)
        self._tokens = tokens
        # A queue runner wants a queue that it can close; nothing is ever put into it.
        name = "dummy_queue"
        unused = FIFOQueue(1, int32, shapes=(), shared_name=name, name=name)
        # Push first: the token that this waits for may need that very gradient.
        with graph.control_dependencies(pushes):
            token = tokens.dequeue()
        train_op = assign(self._local_step, token)
        with graph.control_dependencies([update]):
            done = self._tokens.enqueue_many((self._filled(self._n_tokens),))
        if self._averages is not None:
            with graph.control_dependencies([done]), graph.name_scope(""):
                done = self._averages.apply(self._to_average)
        self._queue_runner = QueueRunner(unused, [done])
        return train_op

    def _filled(self, n: int) -> Any:
        # The variable itself: it is read when this runs, which is after the update.
        return fill([n], self._global_step.ref)

    def _make_chief_init(self) -> None:
        done = [self.local_step_init_op]
        for accumulator, device in self._accumulators:
            with get_default_graph().device(device):
                done.append(
                    accumulator.set_global_step(self._global_step, name="SetGlobalStep")
                )
        self.chief_init_op = group(*done)

    # -- for the chief -----------------------------------------------------------------

    def get_chief_queue_runner(self) -> QueueRunner:
        """Return what the chief runs in a thread: take means, apply them, issue tokens.

        Raises `ValueError` before `apply_gradients`.
        """
        self._check_applied("get_chief_queue_runner()")
        assert self._queue_runner is not None
        return self._queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """Return an operation that enqueues the first tokens; -1 means R of them.

        Raises `ValueError` before `apply_gradients`, and for fewer than R - N.
        """
        self._check_applied("get_init_tokens_op()")
        needed = self._n_required - self._n_replicas
        n = self._n_required if num_tokens == -1 else num_tokens
        if n < needed:
            raise ValueError(
                f"Too few tokens to finish the first step: {n} (given) vs {needed} "
                f"(needed)"
            )
        if n <= 0:
            return no_op(name="no_init_tokens")
        graph = get_default_graph()
        with graph.device(self._global_step.device), graph.name_scope(""):
            return self._tokens.enqueue_many((self._filled(n),))

    def make_session_run_hook(
        self, is_chief: bool, num_tokens: int = -1
    ) -> SyncReplicasHook:
        """Return the hook that each replica's monitored session needs."""
        return SyncReplicasHook(self, is_chief, num_tokens)

    def _check_applied(self, what: str) -> None:
        if self._queue_runner is None:
            raise ValueError(f"{what} should be called after apply_gradients().")

    # -- the slots of the wrapped optimizer --------------------------------------------

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return a slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Return the names of the slots of the wrapped optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """Return the variables of the wrapped optimizer; the local step is not one."""
        return self._opt.variables()


# --------------------------------------------------------------------------------------
# The hook of a `SyncReplicasOptimizer`: it prepares replicas and the chief's thread.


class SyncReplicasHook(SessionRunHook):
    """Sets the local step of each replica; on the chief, also starts the exchange."""

    def __init__(
        self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int
    ) -> None:
        """Start with `num_tokens` tokens; see `get_init_tokens_op`."""
        self._optimizer, self._is_chief = optimizer, is_chief
        self._num_tokens = num_tokens
        self._first: list[Any] = []
        self._ready_op: Any = None

    def begin(self) -> None:
        """Add the operations it needs; raises `ValueError` before `apply_gradients`."""
        optimizer = self._optimizer
        if optimizer.local_step_init_op is None:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using "
                "the hook."
            )
        self._ready_op = optimizer.ready_for_local_init_op
        if self._is_chief:
            tokens = optimizer.get_init_tokens_op(self._num_tokens)
            self._first = [optimizer.chief_init_op, tokens]
        else:
            self._first = [optimizer.local_step_init_op]

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Set the steps, hand out the first tokens, and start the chief's thread.

        Raises `RuntimeError` while a global variable has no value.
        """
        missing = session.run(self._ready_op)
        if len(missing):
            names = ", ".join(name.decode() for name in missing)
            raise RuntimeError(
                f"Init operations did not make model ready for local_init. Variables "
                f"not initialized: {names}. The chief's init_op must do so before this "
                f"hook sees a session."
            )
        # In order: a replica with a token may push at once, and accumulators that did
        # not know the step yet would take a stale gradient for a new one.
        for op in self._first:
            session.run(op)
        if self._is_chief:
            runner = self._optimizer.get_chief_queue_runner()
            runner.create_threads(session, coord=coord, daemon=True, start=True)
