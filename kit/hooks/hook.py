"""What a hook of a training loop is: five methods, and what it may ask for in a run.

Pure. `before` and `after` call them, in the right order.

    begin()                                once, before there is a session
    after_create_session(session, coord)   each time that there is a new session
    before_run(context)                    before each run: what should run along
    after_run(context, values)             after each run: what came out
    end(session)                           once, when all went well
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kit.handles import handle

# --------------------------------------------------------------------------------------
# One run with its hooks: what they ask for is merged with what the caller asked for.
#
# Pure: the caller makes the run itself.
#
#     asked = before(hooks, context)            each hook's before_run, in order
#     ... one run of context's fetches and asked.fetches, with asked.feeds ...
#     after(hooks, context, results, ...)       each hook's after_run, in the same order


@dataclass(frozen=True)
class HookedRun:
    """What is to be run, hooks included.

    `fetches` are those of the hooks, by the hook; `feeds` are everybody's; `options`
    those that hooks gave, in their order.
    """

    fetches: dict[SessionRunHook, Any]
    feeds: dict[Any, Any]
    options: list[Any]


def before(hooks: Sequence[SessionRunHook], context: SessionRunContext) -> HookedRun:
    """Ask each hook what should run along.

    Raises `RuntimeError` when two feed the same tensor, or a hook and the caller.
    """
    asked = HookedRun({}, {}, [])
    for hook in hooks:
        request = hook.before_run(context)
        if request is None:
            continue
        if request.fetches is not None:
            asked.fetches[hook] = request.fetches
        if request.feed_dict:
            _refuse_common(asked.feeds, request.feed_dict, "by two hooks")
            asked.feeds.update(request.feed_dict)
        if request.options is not None:
            asked.options.append(request.options)
    own = context.original_args.feed_dict
    if own:
        _refuse_common(asked.feeds, own, "by a SessionRunHook and user")
        asked.feeds.update(own)
    return asked


def after(
    hooks: Sequence[SessionRunHook],
    context: SessionRunContext,
    results: Mapping[SessionRunHook, Any],
    options: Any = None,
    run_metadata: Any = None,
) -> None:
    """Give each hook the values of its fetches, None if it had none."""
    for hook in hooks:
        values = SessionRunValues(results.get(hook), options, run_metadata)
        hook.after_run(context, values)


def _refuse_common(first: Iterable[Any], other: Iterable[Any], by: str) -> None:
    common = {_mark(key) for key in first} & {_mark(key) for key in other}
    if common:
        twice = [key for key in other if _mark(key) in common]
        names = sorted(str(getattr(key, "name", key)) for key in twice)
        raise RuntimeError(
            f"Same tensor is fed {by}: {', '.join(names)}. Let one of them feed it."
        )


def _mark(key: Any) -> Any:
    # Tensors may compare element by element: what counts is which one it is.
    return key if isinstance(key, str | bytes) else id(key)


# --------------------------------------------------------------------------------------
# What hooks are told, and what they are.


class SessionRunArgs(NamedTuple):
    """What should be run: by the caller, or along with it by a hook.

    Parameters
    ----------
    fetches : object
        Any structure that a session takes; None fetches nothing.
    feed_dict : dict, optional
        Values for tensors.
    options : optional
        Those of a run.

    Examples
    --------
    >>> SessionRunArgs("loss").feed_dict is None
    True
    """

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What came out of a run.

    Parameters
    ----------
    results : object
        In the structure of what the hook fetched.
    options : optional
        Those of the run as it was made.
    run_metadata : optional
        What it noted.
    """

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """One run, as its hooks see it: what the caller asked for, and a way to say stop.

    Parameters
    ----------
    original_args : SessionRunArgs
        What the caller asked for.
    session : object
        Runs things without calling hooks.

    Examples
    --------
    >>> context = SessionRunContext(SessionRunArgs("loss"), None)
    >>> context.request_stop()
    >>> context.stop_requested
    True
    """

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self.original_args, self.session = original_args, session
        self.stop_requested = False

    def request_stop(self) -> None:
        """Ask for the end of the loop: this run is finished, and no other begins."""
        self.stop_requested = True


@handle
class SessionRunHook:
    """Base of all hooks: a derived class overrides the moments that it needs."""

    def begin(self) -> None:
        """Do what is needed before there is a session; operations may be added now."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Use a new session, at the start and after each recovery.

        The graph cannot be changed any more.

        Parameters
        ----------
        session : object
            The session.
        coord : Coordinator
            Of the session's threads.
        """

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Say what should be run along with the next run.

        Parameters
        ----------
        run_context : SessionRunContext
            What the caller asked for, and a way to ask for the end.

        Returns
        -------
        SessionRunArgs or None
            None for nothing.
        """
        return None

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Use what came out; not called if the run failed.

        Parameters
        ----------
        run_context : SessionRunContext
            The same as for `before_run`.
        run_values : SessionRunValues
            Its `results` have the structure of what `before_run` fetched.
        """

    def end(self, session: Any) -> None:
        """Do what is left at the end; not called after an error."""
