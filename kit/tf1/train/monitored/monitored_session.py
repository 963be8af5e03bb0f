"""`tf.train.MonitoredSession`: a session with hooks that survives the loss of tasks.

begin of each hook, the graph is closed, a session is made ready, threads start,
after_create_session of each hook, runs, end of each hook, threads stop
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar

from kit.errors import OutOfRangeError
from kit.hooks.checkpoint_saver import CheckpointSaverHook
from kit.hooks.hook import SessionRunHook
from kit.tf1 import logging
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.train.monitored.coordinated import CoordinatedCreator
from kit.tf1.train.monitored.recovery import Recovery
from kit.tf1.train.monitored.scaffold import Scaffold
from kit.tf1.train.monitored.session_creators import ChiefSessionCreator, SessionCreator
from kit.tf1.train.monitored.session_layers import (
    CoordinatedSession,
    RecoverableSession,
)
from kit.tf1.train.monitored.step_context import StepContext

_ENDS = (OutOfRangeError, StopIteration)
_STEP_FN = (("step_context",), ("self", "step_context"))


class _Monitored:
    """What both kinds of monitored sessions do."""

    StepContext: ClassVar[type[StepContext]] = StepContext

    def __init__(
        self,
        session_creator: SessionCreator,
        hooks: Sequence[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._hooks = list(hooks or [])
        self._graph = get_default_graph()
        self._graph_was_finalized = self._graph.finalized
        recovery = Recovery(session_creator)
        self._creator = CoordinatedCreator(
            session_creator, self._hooks, stop_grace_period_secs, recovery
        )
        self._sess: RecoverableSession | CoordinatedSession | None = None
        try:
            for hook in self._hooks:
                hook.begin()
            self._sess = (
                RecoverableSession(self._creator.create_session, recovery)
                if should_recover
                else self._creator.create_session()
            )
        except BaseException:
            self._reopen_graph()
            raise

    @property
    def graph(self) -> Any:
        """The graph that it runs; None when it is closed."""
        session = self._tf_sess()
        return None if session is None else session.graph

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Run `fetches` with what the hooks add; see `tf.Session.run`.

        Raises `RuntimeError` after a stop was asked for, and when something is fed
        twice; `AttributeError` when it is closed.
        """
        return self._open().run(
            fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata
        )

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Call `step_fn(step_context)` and return what it returns.

        `step_context.session` runs without hooks, `step_context.run_with_hooks` with
        them, `step_context.request_stop()` ends the loop. It is called again if a task
        was lost meanwhile. Raises `ValueError` for a function of other arguments.
        """
        found = _arguments(step_fn)
        if found not in _STEP_FN:
            raise ValueError(
                f"step_fn may either have one `step_context` argument, or be a method "
                f"with `self` and `step_context`; this one has {found}."
            )
        return self._open().run_step_fn(step_fn)

    def should_stop(self) -> bool:
        """Return whether the loop should end; True when it is closed."""
        return self._sess is None or self._sess.should_stop()

    def close(self) -> None:
        """Call the hooks' `end`, stop the threads, and end the session.

        Raises `RuntimeError` if it is closed, and what a thread has failed with.
        """
        self._close(is_good=True)

    def _open(self) -> RecoverableSession | CoordinatedSession:
        if self._sess is None:
            raise AttributeError(
                "the monitored session is closed and can run nothing; make a new one."
            )
        return self._sess

    def _close(self, *, is_good: bool) -> None:
        try:
            if is_good and self._sess is not None:
                self._end_hooks()
        finally:
            session, self._sess = self._sess, None
            try:
                if session is None:
                    raise RuntimeError("Session is already closed.")
                session.close()
            finally:
                self._creator.forget()
                self._reopen_graph()

    def _end_hooks(self) -> None:
        """Call each hook's `end`; after an error only what saves is called."""
        session, waiting = self._tf_sess(), list(self._hooks)
        while waiting:
            try:
                waiting.pop(0).end(session)
            except BaseException:
                for hook in waiting:
                    if isinstance(hook, CheckpointSaverHook):
                        _save_all_the_same(hook, session)
                raise

    def _reopen_graph(self) -> None:
        if not self._graph_was_finalized:
            self._graph._unsafe_unfinalize()

    def _is_closed(self) -> bool:
        return self._creator.session is None

    def _tf_sess(self) -> Any:
        return self._creator.session

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        is_good = kind is None or kind in _ENDS
        self._close(is_good=is_good)
        return is_good


class MonitoredSession(_Monitored):
    """A session with hooks, which is made anew when a task was lost.

        with tf.train.MonitoredSession(hooks=[...]) as sess:
            while not sess.should_stop():
                sess.run(train_op)

    `AbortedError` and `UnavailableError` of a run do not come out: a new session is
    made and the run made again. The block may be left by `OutOfRangeError`, which is
    the end of the input. After any other error the hooks' `end` is not called.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        """Make sessions by `session_creator`, by default as a chief without a cluster.

        Raises what hooks raise in `begin` and `after_create_session`, and what making a
        session raises.
        """
        super().__init__(
            session_creator or ChiefSessionCreator(),
            hooks,
            should_recover=True,
            stop_grace_period_secs=stop_grace_period_secs,
        )


class SingularMonitoredSession(_Monitored):
    """A session with hooks that ends when a task was lost."""

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: Any = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """Make one session, as a `ChiefSessionCreator` with these arguments does."""
        creator = ChiefSessionCreator(
            scaffold=scaffold,
            master=master,
            config=config,
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
        )
        super().__init__(
            creator,
            hooks,
            should_recover=False,
            stop_grace_period_secs=stop_grace_period_secs,
        )

    def raw_session(self) -> Any:
        """Return the session, which calls no hooks."""
        return self._tf_sess()


def _save_all_the_same(hook: CheckpointSaverHook, session: Any) -> None:
    """Save what was trained although another hook has failed."""
    try:
        hook.end(session)
    except Exception as error:
        logging.error("The last checkpoint could not be saved: %s", error)


def _arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's arguments, `self` included."""
    code = inspect.unwrap(function)
    return tuple(inspect.getfullargspec(code).args)
