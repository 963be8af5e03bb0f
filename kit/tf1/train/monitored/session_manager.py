"""`tf.train.SessionManager`: makes a session whose variables have values.

chief    prepare_session    restores the newest checkpoint, else initialises
worker   wait_for_session   waits until the chief has done so
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from kit.session.transport.message import LONGEST_S
from kit.tf1 import logging
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.session.session import Session
from kit.tf1.session.tf_errors import originals
from kit.tf1.signature import with_options
from kit.tf1.train.checkpointing.checkpoint_state import (
    get_checkpoint_state,
    is_inside,
    outside,
)
from kit.tf1.train.global_step import get_global_step
from kit.tf1.train.monitored.backoff import Backoff

# --------------------------------------------------------------------------------------
# Which variables of a session have no value.


_MARK = "uninitialized"


_WHAT = "Variables not initialized: "


def missing(session: Any, op: Any) -> str | None:
    """Return what is not ready, None if everything is.

    `op` gives the names of what is not ready; nothing, an operation, and integers mean
    that everything is. Raises what the run raises, except for a variable without a
    value, and `AttributeError` for anything that is not names.
    """
    if op is None:
        return None
    try:
        names_missing = session.run(op)
    except FailedPreconditionError as error:
        if _MARK not in str(error):
            raise
        return error.message
    if names_missing is None:
        return None
    names = np.ravel(names_missing)
    if names.dtype == np.int32 or not names.size:
        return None
    return f"{_WHAT}{', '.join(map(_text, names))}"


def located(graph: Any, lacking: str) -> str:
    """Return what `missing` returned, with the devices of the variables."""
    if not lacking.startswith(_WHAT):
        return lacking
    by_device: dict[str, list[str]] = {}
    for name in lacking.removeprefix(_WHAT).split(", "):
        try:
            device = graph.get_operation_by_name(name).device
        except (KeyError, ValueError):
            device = ""
        by_device.setdefault(device, []).append(name)
    places_named = "; ".join(
        f"variables {', '.join(names)}{f' on {device}' if device else ''} are not "
        f"initialised"
        for device, names in by_device.items()
    )
    if all("/job:" in device for device in by_device):
        return places_named
    return (
        f"{places_named}; without a job, each session has its own, to which no chief "
        f"gives a value: make them in a 'with tf.device(tf.train.replica_device_setter("
        f"cluster=cluster)):'"
    )


def _text(name: Any) -> str:
    if not isinstance(name, bytes | str):
        raise AttributeError(  # as the original, which decodes what it gets
            f"a ready_op gives the names of variables that have no value, not {name!r}."
        )
    return name.decode() if isinstance(name, bytes) else name


# --------------------------------------------------------------------------------------
# Opening a session once all tasks of its cluster are up.


_LEAST_S = 0.1  # what tasks need to answer: one look is made when time is up, too


def open_session(
    master: Any, graph: Graph | None, config: Any, most_s: float = LONGEST_S
) -> Session:
    """Return a session once all of its tasks answer.

    Raises `DeadlineExceededError`, naming a task that does not, when time is up: the
    config's `operation_timeout_in_ms`, or `most_s`.
    """
    session = Session(master, graph=graph, config=config)
    try:
        with originals():
            session._meet(min(most_s, session._limit_s(None)))
    except BaseException:
        session.close()
        raise
    return session


# --------------------------------------------------------------------------------------
# Restoring a session from the newest checkpoint of a folder, or from a given one.


@dataclass
class _Restoring:
    """What a session is restored from, and how long that may take."""

    saver: Any = None
    checkpoint_dir: str | None = None
    checkpoint_filename_with_path: str | None = None
    wait_for_checkpoint: bool = False
    max_wait_secs: float | None = 7200
    config: Any = None

    def restore(self, session: Any, pause_s: float) -> str | None:
        """Restore all that the saver saves; return the path, None if there is nothing.

        Raises what the saver raises, and then nothing has changed; `ValueError` for
        both places of checkpoints.
        """
        saver, folder = self.saver, self.checkpoint_dir
        path, backoff = self.checkpoint_filename_with_path, None
        if folder and path:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path."
            )
        if self.wait_for_checkpoint:
            backoff = Backoff(self.max_wait_secs, pause_s)
        if saver is None or not (folder or path):
            return None
        if path:
            saver.restore(session, path)
            return path
        assert folder is not None
        state = get_checkpoint_state(folder)
        while not (state and state.model_checkpoint_path):
            if backoff is None or not backoff.left_s:
                return None
            backoff.pause(f"there is no checkpoint in {folder!r}.")
            state = get_checkpoint_state(folder)
        if not is_inside(state.model_checkpoint_path, folder):
            raise ValueError(outside(state.model_checkpoint_path, folder))
        saver.restore(session, state.model_checkpoint_path)
        paths = state.all_model_checkpoint_paths
        saver.recover_last_checkpoints(
            [item for item in paths if is_inside(item, folder)]
        )
        return str(state.model_checkpoint_path)


@dataclass
class _Preparing(_Restoring):
    """The same, and what initialises a session that is not restored."""

    init_feed_dict: Any = None
    init_fn: Callable[[Any], Any] | None = None


def step_in(session: Any) -> int | None:
    """Return the global step of a session, None if it has none, or no value of it."""
    try:
        step = get_global_step(session.graph)
        return None if step is None else int(session.run(step))
    except (FailedPreconditionError, InvalidArgumentError, TypeError):
        return None


class SessionManager:
    """Makes sessions of one graph that are ready to be used.

    `ready_op` names the variables that have no value yet; `ready_for_local_init_op`
    those without which `local_init_op` cannot run. `recovery_wait_secs` is the longest
    pause between two checks, which are never more than a second apart.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Any = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        """Raise `ValueError` for `ready_for_local_init_op` without `local_init_op`."""
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a "
                "local_init_op."
            )
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = get_default_graph() if graph is None else graph
        self._pause_s = recovery_wait_secs
        self._local_options = local_init_run_options
        self._local_feeds = local_init_feed_dict
        self.what_it_did = ""
        # The cluster's step before and after the last preparation.
        self.was_at: int | None = None
        self.began_at: int | None = None
        self._most: int | None = None
        self._has_prepared = False

    @with_options(_Preparing)
    def prepare_session(
        self, master: Any, init_op: Any = None, *, options: Any
    ) -> Session:
        """Return a session that is ready: restored, or else initialised.

        With a checkpoint neither `init_op` nor `init_fn` runs; `local_init_op` runs in
        any case. It waits for tasks that are not up, and with `wait_for_checkpoint` for
        a checkpoint, at most `max_wait_secs`; None is no limit.

        Raises `RuntimeError` when there is nothing to initialise with, or when that was
        not enough; `ValueError` for both places of checkpoints; `DeadlineExceededError`
        naming a task that is not up; and what a run or restoring raises.
        """
        session = open_session(master, self._graph, options.config)
        with _closed_on_error(session):
            # Before restoring: afterwards nothing shows how far the cluster was.
            self._note_step(step_in(session))
            is_restored = self._restore(session, options)
            if not is_restored:
                self._initialize(session, init_op, options)
            self.began_at = step_in(session)  # before any worker goes on
            what = f"Init op: {_name(init_op)}, init fn: {options.init_fn}"
            lacking = self._try_local_init(session)
            if lacking is not None:
                raise RuntimeError(
                    f"Init operations did not make model ready for local_init. "
                    f"{what}, error: {lacking}"
                )
            lacking = missing(session, self._ready_op)
            if lacking is not None:
                raise RuntimeError(
                    f"Init operations did not make model ready. {what}, local_init_op: "
                    f"{_name(self._local_init_op)}, error: {lacking}"
                )
            self._tell_undone()
        return session

    @with_options(_Restoring)
    def recover_session(self, master: Any, options: Any) -> tuple[Session, bool]:
        """Return a session, and whether it was restored and is ready.

        Raises as `prepare_session` does, except for a session that is not ready.
        """
        session = open_session(master, self._graph, options.config)
        with _closed_on_error(session):
            is_restored = self._restore(session, options)
            lacking = self._try_local_init(session)
            if not is_restored:
                return session, False
            if lacking is None:
                lacking = missing(session, self._ready_op)
            if lacking is not None:
                logging.info("%s; not ready: %s", self.what_it_did, lacking)
        return session, lacking is None

    def wait_for_session(
        self, master: Any, config: Any = None, max_wait_secs: float | None = None
    ) -> Session:
        """Return a session as soon as another process has made the variables ready.

        Raises `DeadlineExceededError`, naming what has no value and where, after
        `max_wait_secs`, if it is not None.
        """
        backoff = Backoff(max_wait_secs, self._pause_s)
        while True:
            # A new one for each look: a session from before a task was restarted is
            # aborted for good.
            most_s = max(_LEAST_S, backoff.left_s)
            session = open_session(master, self._graph, config, most_s)
            with _closed_on_error(session):
                lacking = self._try_local_init(session)
                if lacking is None:
                    lacking = missing(session, self._ready_op)
                if lacking is None:
                    self.what_it_did = "found all variables ready"
                    return session
                lacking = located(self._graph, lacking)
            session.close()
            if not backoff.left_s:
                raise DeadlineExceededError(
                    f"no chief for {backoff.seconds:g} s: {lacking}. Start the worker "
                    f"with is_chief=True, or look into its log."
                )
            backoff.pause(f"no chief has made the model ready: {lacking}.")

    def _restore(self, session: Session, options: _Restoring) -> bool:
        restored = options.restore(session, self._pause_s)
        self.what_it_did = f"restored {restored}" if restored else ""
        if restored:
            logging.info("Restored %s.", restored)
        return restored is not None

    def _initialize(self, session: Session, init_op: Any, how: _Preparing) -> None:
        if init_op is None and how.init_fn is None and self._local_init_op is None:
            raise RuntimeError(
                "Model is not initialized and no init_op or init_fn or local_init_op "
                "was given"
            )
        if init_op is not None:
            session.run(init_op, feed_dict=how.init_feed_dict)
        if how.init_fn is not None:
            how.init_fn(session)
        self.what_it_did = "initialised all variables anew"

    def _try_local_init(self, session: Session) -> str | None:
        """Initialise local variables; return what is missing for it, or None."""
        if self._local_init_op is None:
            return None
        lacking = missing(session, self._ready_for_local_init_op)
        if lacking is None:
            session.run(
                self._local_init_op,
                feed_dict=self._local_feeds,
                options=self._local_options,
            )
        return lacking

    def _note_step(self, step: int | None) -> None:
        """Keep the furthest step seen: even an attempt that fails may undo steps."""
        if step is not None:
            self._most = step if self._most is None else max(self._most, step)

    def _tell_undone(self) -> None:
        """Warn if the cluster had made more steps than it has now.

        Only for the first session: a caller that asks for another one is recovering,
        and reports the cost itself.
        """
        before, self.was_at, self._most = self._most, self._most, None
        now = self.began_at
        is_first, self._has_prepared = not self._has_prepared, True
        if is_first and before is not None and now is not None and before > now:
            logging.warning(
                "The cluster was at step %d; this chief %s, step %d: %d steps are "
                "undone.",
                before,
                self.what_it_did,
                now,
                before - now,
            )


@contextmanager
def _closed_on_error(session: Session) -> Iterator[None]:
    try:
        yield
    except BaseException:
        session.close()
        raise


def _name(op: Any) -> Any:
    return getattr(op, "name", op)
