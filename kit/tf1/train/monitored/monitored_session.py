"""`tf.train.MonitoredSession`: a session with hooks that survives the loss of tasks.

begin of each hook, the graph is closed, a session is made ready, threads start,
after_create_session of each hook, runs, end of each hook, threads stop
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from kit.errors import OutOfRangeError
from kit.hooks.checkpoint_saver import CheckpointSaverHook
from kit.hooks.hook import SessionRunHook
from kit.hooks.steps import StepCounterHook
from kit.hooks.writers import SummarySaverHook
from kit.tf1 import logging
from kit.tf1.gfile import local_path
from kit.tf1.graph.collections import GraphKeys, get_collection
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.train.monitored.hook_environment import known_global_step_read
from kit.tf1.train.monitored.scaffold import Scaffold
from kit.tf1.train.monitored.session_layers import (
    CoordinatedSession,
    HookedSession,
    RecoverableSession,
    Recovery,
    StepContext,
)
from kit.tf1.train.monitored.session_manager import SessionManager
from kit.tf1.train.queues.coordinator import Coordinator
from kit.tf1.train.queues.queue_runner import start_queue_runners

# --------------------------------------------------------------------------------------
# What makes the sessions of a monitored one: for the chief, or for a waiting worker.
#
# To write your own, subclass `SessionCreator` and define `create_session`.


class SessionCreator(ABC):
    """Base class of session creators."""

    @abstractmethod
    def create_session(self) -> Any:
        """Return a new session that is ready to be used."""


class _Managed(SessionCreator):
    """Makes sessions by a session manager, with what a scaffold holds.

    `gives_values` is true if it restores or initialises, and so may undo steps.
    """

    gives_values = True

    def __init__(self, scaffold: Scaffold | None, master: Any, config: Any) -> None:
        self._scaffold = Scaffold() if scaffold is None else scaffold
        self._master, self._config = master, config
        self._made: SessionManager | None = None

    @property
    def what_it_did(self) -> str:
        """How the last session was made ready."""
        return "" if self._made is None else self._made.what_it_did

    @property
    def was_at(self) -> int | None:
        """The cluster's step before the last session was made ready, if known."""
        return None if self._made is None else self._made.was_at

    @property
    def began_at(self) -> int | None:
        """The step at which the last session began, if known: others go on at once."""
        return None if self._made is None else self._made.began_at

    @property
    def _manager(self) -> SessionManager:
        """The manager, made when the scaffold is finalized."""
        if self._made is None:
            self._made = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
            )
        return self._made


class ChiefSessionCreator(_Managed):
    """Restores the newest checkpoint, or initialises, and finalizes the scaffold."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: Any = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """Look for checkpoints in a folder, or use the one that is given."""
        super().__init__(scaffold, master, config)
        self._folder, self._path = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self) -> Any:
        """Return a session whose variables have values; see `prepare_session`."""
        scaffold = self._scaffold.finalize()
        return self._manager.prepare_session(
            self._master,
            saver=scaffold.saver,
            checkpoint_dir=self._folder,
            checkpoint_filename_with_path=self._path,
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


class WorkerSessionCreator(_Managed):
    """Finalizes the scaffold, and waits until the chief has made everything ready."""

    gives_values = False

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: Any = "",
        config: Any = None,
        max_wait_secs: float | None = 30 * 60,
    ) -> None:
        """Wait at most `max_wait_secs`; None is no limit."""
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Any:
        """Return a session whose variables have values; see `wait_for_session`."""
        self._scaffold.finalize()
        return self._manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )


# --------------------------------------------------------------------------------------
# The session that survives.


class CoordinatedCreator:
    """Holds the current session, and makes the next one."""

    def __init__(
        self,
        creator: SessionCreator,
        hooks: Sequence[SessionRunHook],
        stop_grace_period_secs: float,
        recovery: Recovery,
    ) -> None:
        self._creator, self._hooks = creator, hooks
        self._grace_s, self._recovery = stop_grace_period_secs, recovery
        self._graph = get_default_graph()
        self.session: Any = None

    def create_session(self) -> CoordinatedSession:
        """Make a session, start its threads, and hand it to the hooks."""
        # A task may be lost while another graph is the default.
        with self._graph.as_default():
            return self._create()

    def _create(self) -> CoordinatedSession:
        session = self._creator.create_session()
        coord = Coordinator(clean_stop_exception_types=[])
        hooked = HookedSession(session, self._hooks, self._recovery)
        made = CoordinatedSession(hooked, coord, self._grace_s)
        self.session = session
        try:
            if get_collection(GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(sess=session, coord=coord)
            self._recovery.watch(session, known_global_step_read())
            for hook in self._hooks:
                hook.after_create_session(session, coord)
        except BaseException:
            made.close()
            self.session = None
            raise
        return made


_ENDS = (OutOfRangeError, StopIteration)
_STEP_FN = (("step_context",), ("self", "step_context"))


class _Monitored:
    """What both kinds of monitored sessions have in common."""

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
        parameters_of = _arguments(step_fn)
        if parameters_of not in _STEP_FN:
            raise ValueError(
                f"step_fn may either have one `step_context` argument, or be a method "
                f"with `self` and `step_context`; this one has {parameters_of}."
            )
        return self._open().run_step_fn(step_fn)

    def should_stop(self) -> bool:
        """Return whether the loop should end; True if the session is closed."""
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
                self._creator.session = None
                self._reopen_graph()

    def _end_hooks(self) -> None:
        """Call each hook's `end`; after an error, only those that save checkpoints."""
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

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        is_good = kind is None or kind in _ENDS
        self._close(is_good=is_good)
        return is_good


class MonitoredSession(_Monitored):
    """A session with hooks, which is made anew when a task is lost.

        with tf.train.MonitoredSession(hooks=[...]) as sess:
            while not sess.should_stop():
                sess.run(train_op)

    `AbortedError` and `UnavailableError` of a run are not raised: a new session is made
    and the run repeated. `OutOfRangeError`, the end of the input, leaves the block
    without an error. After any other error the hooks' `end` is not called.
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
    """A session with hooks that ends when a task is lost."""

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
    """Save what was trained, although another hook has failed."""
    try:
        hook.end(session)
    except Exception as error:
        logging.error("The last checkpoint could not be saved: %s", error)


def _arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's arguments, `self` included."""
    code = inspect.unwrap(function)
    return tuple(inspect.getfullargspec(code).args)


USE_DEFAULT = object()
_CHECKPOINT_SECS, _SUMMARY_STEPS = 600, 100


def MonitoredTrainingSession(
    master: Any = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float | None = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """Return the session of a training: the chief's, or that of a worker.

    The chief restores the newest checkpoint of `checkpoint_dir` or initialises, logs
    the steps per second, and saves at the start, every 600 seconds (or as the arguments
    say; two None: never) and at the end. A worker waits for it,
    at most `max_wait_secs` (None is no limit), and calls only `hooks`.

    Raises `RuntimeError` with `checkpoint_dir` but without a global step,
    `UnimplementedError` for a folder that is not of this host, such as hdfs://, and as
    `MonitoredSession` does.
    """
    scaffold = scaffold or Scaffold()
    checkpoint_dir = local_path(checkpoint_dir) if checkpoint_dir else None
    summary_dir = local_path(summary_dir) if summary_dir else None
    if not is_chief:
        waiting = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(waiting, hooks, stop_grace_period_secs)
    chosen = list(chief_only_hooks or [])
    if summary_dir or checkpoint_dir:
        folder = summary_dir or checkpoint_dir
        if log_step_count_steps and log_step_count_steps > 0:
            counter = StepCounterHook(log_step_count_steps, output_dir=folder)
            chosen.append(counter)
        steps, secs = _times(
            save_summaries_steps, save_summaries_secs, _SUMMARY_STEPS, None
        )
        if _is_on(steps) or _is_on(secs):
            chosen.append(SummarySaverHook(steps, secs, folder, scaffold=scaffold))
    if checkpoint_dir:
        steps, secs = _times(
            save_checkpoint_steps, save_checkpoint_secs, None, _CHECKPOINT_SECS
        )
        if _is_on(steps) or _is_on(secs):
            saver = CheckpointSaverHook(
                checkpoint_dir,
                save_steps=steps,
                save_secs=secs,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
            chosen.append(saver)
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(creator, [*chosen, *(hooks or [])], stop_grace_period_secs)


def _times(
    steps: Any, secs: Any, default_steps: int | None, default_secs: float | None
) -> tuple[int | None, float | None]:
    """Return both intervals: the defaults only count if neither was given."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default_steps, default_secs
    return (
        None if steps is USE_DEFAULT else steps,
        None if secs is USE_DEFAULT else secs,
    )


def _is_on(time: float | None) -> bool:
    return bool(time) and time is not None and time > 0
