"""The hook of a `SyncReplicasOptimizer`: it begins replica and chief's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.hooks.hook import SessionRunHook

if TYPE_CHECKING:
    from kit.tf1.train.optimizers.sync_replicas import SyncReplicasOptimizer


class SyncReplicasHook(SessionRunHook):
    """Sets the local step of each replica; the chief also begins the exchange."""

    def __init__(
        self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int
    ) -> None:
        """`num_tokens` are there at the start; see `get_init_tokens_op`."""
        self._optimizer, self._is_chief = optimizer, is_chief
        self._num_tokens = num_tokens
        self._first: list[Any] = []
        self._ready_op: Any = None

    def begin(self) -> None:
        """Add what is needed to the graph; `ValueError` before `apply_gradients`."""
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
            names = ", ".join(one.decode() for one in missing)
            raise RuntimeError(
                f"Init operations did not make model ready for local_init. Variables "
                f"not initialized: {names}. The chief's init_op must do so before this "
                f"hook is told of a session."
            )
        for one in self._first:
            session.run(one)
        if self._is_chief:
            runner = self._optimizer.get_chief_queue_runner()
            runner.create_threads(session, coord=coord, daemon=True, start=True)
