"""The three layers around a session that make it a monitored one.

RecoverableSession    makes a new session when a task was lost
  CoordinatedSession  ends threads with it, and lets their errors out
    HookedSession     calls the hooks around each run
      Session
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from kit.errors import AbortedError, DeadlineExceededError, KitError, UnavailableError
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.op import Op
from kit.hooks import calls
from kit.hooks.hook import SessionRunArgs, SessionRunContext, SessionRunHook
from kit.tf1 import logging
from kit.tf1.session.config import RunOptions
from kit.tf1.session.run_metadata import RunMetadata, wants_metadata
from kit.tf1.session.session import Session
from kit.tf1.train.monitored.patience import Patience, limit_s
from kit.tf1.train.monitored.recovery import Recovery, what_happened
from kit.tf1.train.queues.coordinator import Coordinator


class StepContext:
    """The session of a step: with hooks and without, and a way to end the loop."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        """Let `run_with_hooks_fn` be what runs with hooks, `session` without."""
        self._session, self._run_with_hooks = session, run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The session itself: what it runs calls no hooks."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the monitored session does."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> NoReturn:
        """End the loop: the `with` block of the session is left, without an error."""
        raise StopIteration("step_fn has requested the iterations to stop.")


# --------------------------------------------------------------------------------------
# What the caller and the hooks fetch in one run, as one list and apart again.


_SIMPLE = (ArrayProtocol, Op)


class FetchBundle:
    """Several structures of fetches, run as one.

    Lists and tuples of plain tensors are laid out flat; others stay what they are.

    >>> FetchBundle([["a", "b"], "c"]).parts([[1, 2], 3])
    [[1, 2], 3]
    """

    def __init__(self, structures: Sequence[Any]) -> None:
        self.fetches: list[Any] = []
        self._kinds: list[tuple[type | None, int]] = []
        for one in structures:
            kind = type(one)
            if kind in (list, tuple) and all(isinstance(x, _SIMPLE) for x in one):
                self._kinds.append((kind, len(one)))
                self.fetches += one
            else:
                self._kinds.append((None, 1))
                self.fetches.append(one)

    def parts(self, values: Sequence[Any]) -> list[Any]:
        """Return the values in the structures."""
        found: list[Any] = []
        at = 0
        for kind, length in self._kinds:
            some = values[at : at + length]
            found.append(some[0] if kind is None else kind(some))
            at += length
        return found


def merged(given: RunOptions | None, more: Sequence[RunOptions]) -> RunOptions:
    """Return the options of a run that does all that each of these asks for.

    The largest number counts; a switch is on if it is on in one of them.
    """
    found = RunOptions()
    for one in [*([] if given is None else [given]), *more]:
        for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
            setattr(found, name, max(getattr(found, name), getattr(one, name)))
        for name in ("output_partition_graphs", "report_tensor_allocations_upon_oom"):
            setattr(found, name, getattr(found, name) or getattr(one, name))
    return found


PREEMPTION = (AbortedError, UnavailableError)

StepFn = Callable[[StepContext], Any]


class HookedSession:
    """Calls hooks around each run."""

    def __init__(
        self,
        session: Session,
        hooks: Sequence[SessionRunHook],
        recovery: Recovery | None = None,
    ) -> None:
        self._session, self._hooks = session, hooks
        self._recovery = recovery
        self._wants_end = False

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Run `fetches`, with what the hooks want to run along."""
        if self._wants_end:
            raise RuntimeError(
                "Run called even after should_stop requested: end the loop when "
                "should_stop() is true."
            )
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._session)
        asked = calls.before(self._hooks, context)
        chosen = merged(options, asked.options)
        metadata = RunMetadata() if run_metadata is None else run_metadata
        is_noted = run_metadata is not None or wants_metadata(chosen)
        bundle = FetchBundle([fetches, *asked.fetches.values()])
        values = self._session.run(
            bundle.fetches,
            asked.feeds or None,
            chosen,
            metadata if is_noted else None,
        )
        if self._recovery is not None:
            self._recovery.note(bundle.fetches, values)
        result, *more = bundle.parts(values)
        by_hook = dict(zip(asked.fetches, more, strict=True))
        calls.after(self._hooks, context, by_hook, chosen, metadata)
        self._wants_end = self._wants_end or context.stop_requested
        return result

    def run_step_fn(self, step_fn: StepFn, run_with_hooks: Any = None) -> Any:
        """Call a function that runs with and without hooks as it likes."""
        return step_fn(StepContext(self._session, run_with_hooks or self.run))

    def should_stop(self) -> bool:
        """Return whether a hook has asked for the end."""
        return self._wants_end

    def close(self) -> None:
        """End the session."""
        self._session.close()


class CoordinatedSession:
    """Ends the threads of a coordinator with the session, and raises their errors."""

    def __init__(
        self, inner: HookedSession, coord: Coordinator, stop_grace_period_secs: float
    ) -> None:
        self._inner, self._coord = inner, coord
        self._grace_s = stop_grace_period_secs

    def run(self, *args: Any, **options: Any) -> Any:
        """Run; an error of a thread that a lost task has caused is raised first."""
        try:
            return self._inner.run(*args, **options)
        except PREEMPTION:
            raise
        except Exception:
            self._raise_preemption_of_threads()
            raise

    def run_step_fn(self, step_fn: StepFn, run_with_hooks: Any = None) -> Any:
        """See `HookedSession`."""
        return self._inner.run_step_fn(step_fn, run_with_hooks or self.run)

    def _raise_preemption_of_threads(self) -> None:
        try:
            self._coord.raise_requested_exception()
        except PREEMPTION:
            raise
        except Exception as error:
            logging.debug("A thread of the session has failed as well: %s", error)

    def should_stop(self) -> bool:
        """Return whether a thread or a hook has asked for the end.

        Raises what a thread has failed with.
        """
        self._coord.raise_requested_exception()
        return self._coord.should_stop() or self._inner.should_stop()

    def close(self) -> None:
        """Stop the threads, then the session; raises what a thread has failed with."""
        self._coord.request_stop()
        try:
            self._coord.join(
                stop_grace_period_secs=self._grace_s, ignore_live_threads=True
            )
        finally:
            # What the threads tell is the cause; a session that cannot be closed
            # properly any more is its consequence.
            with suppress(Exception):
                self._inner.close()


class RecoverableSession:
    """Makes a new session when a task was lost, and does once more what failed.

    The original tries for ever. Here what cannot be done for 4 times the setting
    `run_deadline_s` raises `DeadlineExceededError`.
    """

    def __init__(
        self, create: Callable[[], CoordinatedSession], recovery: Recovery
    ) -> None:
        self._create, self._recovery = create, recovery
        self._inner: CoordinatedSession | None = self._made()

    def run(self, *args: Any, **options: Any) -> Any:
        """Run, in a new session if need be."""
        return self._done(lambda inner: inner.run(*args, **options))

    def run_step_fn(self, step_fn: StepFn, run_with_hooks: Any = None) -> Any:
        """See `HookedSession`."""
        return self._done(lambda inner: inner.run_step_fn(step_fn))

    def should_stop(self) -> bool:
        """Return whether the loop should end; not if only a task was lost."""
        if self._inner is None:
            return True
        try:
            return self._inner.should_stop()
        except PREEMPTION as error:
            self._drop(error)
            self._inner = self._recovered(error)
            return False
        except Exception as error:
            # The error comes out when the session is closed.
            logging.debug("A thread of the session has failed: %s", error)
            return True

    def close(self) -> None:
        """End the session; raises what a thread has failed with."""
        inner, self._inner = self._inner, None
        if inner is not None:
            try:
                inner.close()
            except PREEMPTION as error:
                logging.warning("A thread of the session has failed: %s", error)

    def _done(self, do: Callable[[CoordinatedSession], Any]) -> Any:
        patience: Patience | None = None
        while True:
            assert self._inner is not None
            try:
                return do(self._inner)
            except PREEMPTION as error:
                if patience is None:
                    patience = Patience(limit_s())
                elif not patience.left_s:
                    raise _too_long("run", patience, error) from error
                else:
                    patience.pause(f"a run fails again and again: {error.message}")
                self._drop(error)
                self._inner = self._recovered(error)

    def _drop(self, error: KitError) -> None:
        # Its advice is for a plain session; this one makes itself anew.
        cause, _, _ = error.message.partition(". ")
        logging.warning(
            "%s: makes the session anew when all tasks are up, and waits %.0f s at "
            "most. Cause: %s.",
            *(what_happened(error), limit_s(), cause.rstrip(".")),
        )
        if self._inner is not None:
            with suppress(Exception):
                self._inner.close()

    def _recovered(self, error: KitError) -> CoordinatedSession:
        inner = self._made()
        self._recovery.tell(error)
        return inner

    def _made(self) -> CoordinatedSession:
        patience = Patience(limit_s())
        while True:
            try:
                return self._create()
            except PREEMPTION as error:
                if not patience.left_s:
                    raise _too_long("begin", patience, error) from error
                patience.pause(f"a session cannot begin: {error.message}")


def _too_long(what: str, patience: Patience, error: KitError) -> KitError:
    return DeadlineExceededError(
        f"the session could not {what} for {patience.seconds:g} s, and gives up: "
        f"{error.message}"
    )
