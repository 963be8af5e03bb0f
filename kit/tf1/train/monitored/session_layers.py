"""The three layers around a session that make it a monitored one.

RecoverableSession    makes a new session when a task is lost
  CoordinatedSession  ends threads with the session, and raises their errors
    HookedSession     calls the hooks around each run
      Session
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from kit.errors import AbortedError, KitError, UnavailableError
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.op import Op
from kit.hooks import hook
from kit.hooks.hook import SessionRunArgs, SessionRunContext, SessionRunHook
from kit.task import Task
from kit.tf1 import logging
from kit.tf1.session.config import RunOptions
from kit.tf1.session.run_metadata import RunMetadata, wants_metadata
from kit.tf1.session.session import Session
from kit.tf1.train.monitored.backoff import Backoff
from kit.tf1.train.queues.coordinator import Coordinator


class StepContext:
    """The session of a step: with hooks and without, and a way to end the loop."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        """Use `run_with_hooks_fn` to run with hooks, `session` to run without."""
        self.session, self._run_with_hooks = session, run_with_hooks_fn

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the monitored session does."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> NoReturn:
        """End the loop: the `with` block of the session is left, without an error."""
        raise StopIteration("step_fn has requested the iterations to stop.")


# --------------------------------------------------------------------------------------
# What the caller and the hooks fetch in one run: joined in a list, and split again.


_SIMPLE = (ArrayProtocol, Op)


class FetchBundle:
    """Several structures of fetches, run as one.

    Lists and tuples of plain tensors are flattened; other structures are kept.

    >>> FetchBundle([["a", "b"], "c"]).parts([[1, 2], 3])
    [[1, 2], 3]
    """

    def __init__(self, structures: Sequence[Any]) -> None:
        self.fetches: list[Any] = []
        self._kinds: list[tuple[type | None, int]] = []
        for structure in structures:
            kind = type(structure)
            if kind in (list, tuple) and all(isinstance(x, _SIMPLE) for x in structure):
                self._kinds.append((kind, len(structure)))
                self.fetches += structure
            else:
                self._kinds.append((None, 1))
                self.fetches.append(structure)

    def parts(self, values: Sequence[Any]) -> list[Any]:
        """Return the values in their structures."""
        parts_made: list[Any] = []
        at = 0
        for kind, length in self._kinds:
            some = values[at : at + length]
            parts_made.append(some[0] if kind is None else kind(some))
            at += length
        return parts_made


def merged(first: RunOptions | None, more: Sequence[RunOptions]) -> RunOptions:
    """Return run options that include everything that each of these asks for.

    The largest number counts; a switch is on if it is on in one of them.
    """
    options = RunOptions()
    for other in [*([] if first is None else [first]), *more]:
        for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
            setattr(options, name, max(getattr(options, name), getattr(other, name)))
        for name in ("output_partition_graphs", "report_tensor_allocations_upon_oom"):
            setattr(options, name, getattr(options, name) or getattr(other, name))
    return options


# --------------------------------------------------------------------------------------
# What a recovery has cost, logged in one line.


_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")


class Recovery:
    """Keeps track of the global step, so that the steps a recovery loses are known."""

    def __init__(self, creator: Any) -> None:
        """Ask `creator`, which makes the sessions, how the last one was made ready.

        A program's own creator may not have the attributes for that.
        """
        self._creator = creator
        self._tensor: Any = None
        self._session: Any = None
        self._seen: int | None = None

    def watch(self, session: Any, tensor: Any) -> None:
        """Watch `tensor`, the global step, in the runs of a new session."""
        self._session, self._tensor = session, tensor

    def note(self, fetches: Sequence[Any], values: Sequence[Any]) -> None:
        """Note the global step, if some hook has fetched it."""
        for fetch, value in zip(fetches, values, strict=True):
            if fetch is self._tensor and fetch is not None:
                self._seen = int(value)
                return

    def tell(self, error: KitError) -> None:
        """Log which task was lost, what was done about it, and the steps it cost."""
        done = str(getattr(self._creator, "what_it_did", ""))
        parts = [what_happened(error), done or "made a new session"]
        now = getattr(self._creator, "began_at", None)
        now = self._step() if now is None else now
        if now is not None:
            parts.append(f"goes on at step {now}")
            furthest = self._furthest()
            # A worker that only waited cannot know what its chief has undone.
            if furthest is not None and getattr(self._creator, "gives_values", True):
                parts.append(f"{max(0, furthest - now)} steps are lost")
            self._seen = now
        logging.warning("%s.", "; ".join(parts))

    def _furthest(self) -> int | None:
        """Return the last step that was made, as far as that is known.

        What a hook has seen may be some steps old, and the cluster's own step is gone
        if the task that holds it was lost.
        """
        steps_seen = (self._seen, getattr(self._creator, "was_at", None))
        return max((step for step in steps_seen if step is not None), default=None)

    def _step(self) -> int | None:
        if self._tensor is None:
            return None
        try:
            return int(self._session.run(self._tensor))
        except KitError:
            return None  # lost again: the next run will notice


def what_happened(error: KitError) -> str:
    """Return which task was lost, and how; otherwise what the error says."""
    match = _TASK.search(error.task or error.message)
    if match is None:
        return error.message.rstrip(".")
    task = Task(match[1], int(match[2])).short
    came_back = isinstance(error, AbortedError) and "restarted" in error.message
    return f"{task} came back empty" if came_back else f"{task} was lost"


# --------------------------------------------------------------------------------------
# The layers, from the innermost to the outermost.


# What a lost task raises; it may come back, so all is done again.
PREEMPTION = (AbortedError, UnavailableError)

StepFn = Callable[[StepContext], Any]


class HookedSession:
    """Calls hooks around each run."""

    def __init__(
        self,
        session: Session,
        hooks: Sequence[SessionRunHook],
        recovery: Recovery,
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
        """Run `fetches`, together with what the hooks fetch."""
        if self._wants_end:
            raise RuntimeError(
                "Run called even after should_stop requested: end the loop when "
                "should_stop() is true."
            )
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._session)
        asked = hook.before(self._hooks, context)
        chosen = merged(options, asked.options)
        metadata = RunMetadata() if run_metadata is None else run_metadata
        # A trace slows every task of the run: only if the caller or a hook wants it.
        is_noted = run_metadata is not None or wants_metadata(chosen)
        bundle = FetchBundle([fetches, *asked.fetches.values()])
        values = self._session.run(
            bundle.fetches,
            asked.feeds or None,
            chosen,
            metadata if is_noted else None,
        )
        self._recovery.note(bundle.fetches, values)
        result, *more = bundle.parts(values)
        by_hook = dict(zip(asked.fetches, more, strict=True))
        hook.after(self._hooks, context, by_hook, chosen, metadata)
        self._wants_end = self._wants_end or context.stop_requested
        return result

    def run_step_fn(self, step_fn: StepFn, run_with_hooks: Callable[..., Any]) -> Any:
        """Call a function that runs with and without hooks as it likes."""
        return step_fn(StepContext(self._session, run_with_hooks))

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
        """Run; the error of a thread that lost a task takes precedence."""
        try:
            return self._inner.run(*args, **options)
        except PREEMPTION:
            raise
        except Exception:
            # A lost task may show in a queue's thread first. This error, such as that
            # of a closed queue, is then its consequence, and would not be recovered
            # from.
            self._raise_preemption_of_threads()
            raise

    def run_step_fn(self, step_fn: StepFn) -> Any:
        """Call a function that runs with and without hooks as it likes."""
        return self._inner.run_step_fn(step_fn, self.run)

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
            # A thread's error is the cause; a session that can no longer be closed
            # properly is its consequence.
            with suppress(Exception):
                self._inner.close()


class RecoverableSession:
    """Makes a new session when a task is lost, and repeats the run that failed.

    It tries for ever, as the original does, and says so now and then.
    """

    def __init__(
        self, create: Callable[[], CoordinatedSession], recovery: Recovery
    ) -> None:
        self._create, self._recovery = create, recovery
        self._inner: CoordinatedSession | None = self._made()

    def run(self, *args: Any, **options: Any) -> Any:
        """Run, in a new session if need be."""
        return self._done(lambda inner: inner.run(*args, **options))

    def run_step_fn(self, step_fn: StepFn) -> Any:
        """Call the function, again in a new session if a task is lost meanwhile."""
        return self._done(lambda inner: inner.run_step_fn(step_fn))

    def should_stop(self) -> bool:
        """Return whether the loop should end; a lost task is not a reason."""
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
        backoff: Backoff | None = None
        while True:
            assert self._inner is not None
            try:
                return do(self._inner)
            except PREEMPTION as error:
                # The first loss needs no pause: `_recovered` waits for the tasks. A
                # second one means that the run fails although all of them are up.
                if backoff is None:
                    backoff = Backoff()
                else:
                    backoff.pause(f"a run fails again and again: {error.message}")
                self._drop(error)
                self._inner = self._recovered(error)

    def _drop(self, error: KitError) -> None:
        # Its advice is for a plain session; this one makes itself anew.
        cause, _, _ = error.message.partition(". ")
        logging.warning(
            "%s: makes the session anew when all tasks are up. Cause: %s.",
            what_happened(error),
            cause.rstrip("."),
        )
        if self._inner is not None:
            # With its tasks gone it may not close properly; the cause is logged above.
            with suppress(Exception):
                self._inner.close()

    def _recovered(self, error: KitError) -> CoordinatedSession:
        inner = self._made()
        self._recovery.tell(error)
        return inner

    def _made(self) -> CoordinatedSession:
        backoff = Backoff()
        while True:
            try:
                return self._create()
            except PREEMPTION as error:
                backoff.pause(f"a session cannot begin: {error.message}")
