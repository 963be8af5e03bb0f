"""Calls the hooks of a training, in the order of the original, and names who fails.

    begin                    before any task has begun
    after_create_session     when the first epoch holds, so there are parameters
    before_run  after_run    around each step of the coordinator
    end                      when the training has ended well

With hooks that may ask for the end all members meet after each step, so that none is
made too many; that costs a question and an answer. Hooks that only look on cost their
own time alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from kit.errors import InvalidArgumentError, KitError, StepFailed
from kit.hooks import SessionRunArgs, SessionRunContext, SessionRunHook
from kit.hooks.calls import after as call_after
from kit.hooks.calls import before as call_before
from kit.hooks.environment import inside
from kit.training.coordination.coordinator import Authority
from kit.training.hooks.adapters import LOSS, HookList
from kit.training.hooks.bridge import HookCoordinator, HookPlace, HookSession
from kit.training.job import Job
from kit.training.member.context import Part


class Hooked:
    """The hooks of one training, called by its coordinator's thread."""

    def __init__(self, job: Job, hooks: HookList) -> None:
        """Call `begin` of each; raises what that raises, with the hook's name."""
        self._task, self._hooks = str(job.tasks[job.coordinator]), hooks
        self._place = HookPlace(job, hooks)
        self._session = HookSession(self._place)
        self._context = SessionRunContext(SessionRunArgs(LOSS), self._session)
        self._fetches: dict[SessionRunHook, Any] = {}
        self._step = 0
        self._is_created = False
        for hook in hooks:
            self._call(hook, "begin", hook.begin)

    @property
    def may_stop(self) -> bool:
        """Whether members must meet after each step."""
        return self._hooks.may_stop

    def said(self) -> list[list[Any]]:
        """Return the newest lines that hooks have told."""
        return self._place.notes.to_plain()

    def enter(self, part: Part, authority: Authority) -> None:
        """Take part in a training that is about to begin."""
        self._place.enter(part, authority)

    def created(self, step: int) -> None:
        """Call `after_create_session`, once, when there are parameters."""
        if self._is_created:
            return
        self._is_created, self._step = True, step
        coordinator = HookCoordinator(self._place)
        for hook in self._hooks:
            call = partial(hook.after_create_session, self._session, coordinator)
            self._call(hook, "after_create_session", call)

    def before(self, step: int) -> None:
        """Call `before_run`; raises `InvalidArgumentError` for a hook that feeds."""
        self._step = step
        self._context = SessionRunContext(SessionRunArgs(LOSS), self._session)
        self._fetches = {}
        for hook in self._hooks:
            self._call(hook, "before_run", partial(self._ask, hook))

    def after(self, step: int, loss: float) -> None:
        """Call `after_run` of a step that is done, and end the training if asked to."""
        self._place.loss = loss
        for hook in self._hooks:
            self._call(hook, "after_run", partial(self._tell, hook, step))
        if self._context.stop_requested:
            self._place.stop()

    def end(self) -> None:
        """Call `end`."""
        for hook in self._hooks:
            self._call(hook, "end", partial(hook.end, self._session))

    def leave(self) -> None:
        """Give up the training's memory."""
        self._place.leave()

    def _ask(self, hook: SessionRunHook) -> None:
        asked = call_before([hook], self._context)
        if asked.feeds or asked.options:
            raise InvalidArgumentError(
                "it gives feeds or options; in a training the workers feed their data, "
                "and there are no options of a run."
            )
        for fetches in asked.fetches.values():
            self._place.check(fetches)
        self._fetches |= asked.fetches

    def _tell(self, hook: SessionRunHook, step: int) -> None:
        found = {}
        if hook in self._fetches:
            found[hook] = self._place.value(self._fetches[hook], step)
        call_after([hook], self._context, found)

    def _call(self, hook: SessionRunHook, method: str, call: Callable[[], Any]) -> None:
        try:
            with inside(self._place):
                call()
        except Exception as error:
            what = f"{self._task}: hook {type(hook).__name__}.{method}()"
            raise self._named(what, error) from error

    def _named(self, what: str, error: Exception) -> KitError:
        if isinstance(error, KitError):
            text = f"{what}: {error.message}"
            return type(error)(text, task=self._task, step=self._step)
        return StepFailed(
            f"{what} raised {type(error).__name__}: {error} at step {self._step}; all "
            f"members were stopped, and the parameters are those of the last step.",
            task=self._task,
            step=self._step,
            remote_traceback="".join(traceback.format_exception(error)),
        )
