"""Calls the hooks of a training, in the order of TensorFlow, and names who fails.

    begin                    before any task has begun
    after_create_session     when the first epoch holds, so there are parameters
    before_run  after_run    around each step of the coordinator
    end                      when the training has ended well

With hooks that may ask for the end all members meet after each step, so that none is
made too many; that costs a question and an answer. Hooks that only look on cost their
own time alone.

In an elastic training each of these moments comes once, and each step is reported once:
a step that is done again after a loss was reported already. When the coordinator's own
process is the one that is lost, its hooks are lost with it. Their moments go on in
another process, with hooks as they were given to `kit.train`: what a hook had gathered
or counted is gone. There `begin` comes again, and `after_create_session`, in which the
global step is that before which the training began; then the steps go on. The step
that had been done last is reported there too, because nobody knows whether it was.
"""

from __future__ import annotations

import copy
import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from kit.arrays import copy_into, to_numpy
from kit.errors import (
    CheckpointFailed,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    StepFailed,
    UnimplementedError,
    shortened,
)
from kit.exchange.plan import Owned
from kit.exchange.ports.memory import Array
from kit.hooks import SessionRunArgs, SessionRunContext, SessionRunHook
from kit.hooks.environment import inside
from kit.hooks.hook import after as call_after
from kit.hooks.hook import before as call_before
from kit.training.core.context import MemberContext
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job
from kit.training.core.part import StepCallback
from kit.training.features.hooks.adapters import LOSS, STEP, HookList

# --------------------------------------------------------------------------------------
# Where the hooks of a training run: what they can fetch, save and report there.
#
# They run in the coordinator's task, in its step loop. They see that worker's own loss,
# the number of steps that are done, and the parameters. What they log goes to the
# notebook with the news of the training.


_KEPT_LINES, _LONGEST_LINE = 50, 2_000
# Lines of hooks in a later process have greater numbers than all before: the notebook
# shows what has a greater number than the last line it has shown.
_LINES_OF_A_GENERATION = 2**32
_LOG = logging.getLogger("kit.training")


class Fetch(NamedTuple):
    """What a hook gets for a name: a value of the training."""

    name: str


class Notes:
    """The newest lines that hooks logged; the notebook takes them with the news."""

    def __init__(self, first: int = 0) -> None:
        """Count the lines from `first`."""
        self._lines: deque[tuple[int, str, str]] = deque(maxlen=_KEPT_LINES)
        self._guard = threading.Lock()
        self._count = first

    def add(self, kind: str, text: str) -> None:
        """Keep a line; `progress` lines replace each other where they are shown."""
        with self._guard:
            self._count += 1
            self._lines.append((self._count, kind, shortened(text, _LONGEST_LINE)))

    def to_plain(self) -> list[list[Any]]:
        """Return them as data that JSON can carry."""
        with self._guard:
            return [list(line) for line in self._lines]


class HookEnvironment:
    """The `Environment` of hooks in a training."""

    def __init__(self, job: Job, hooks: HookList) -> None:
        """Begin before there is a part in anything: only names can be looked up."""
        self.notes = Notes(job.generation.n_changes * _LINES_OF_A_GENERATION)
        self.loss = float("nan")
        self._job, self._hooks = job, hooks
        self._context: MemberContext | None = None
        self._coordinator: TrainingCoordinator | None = None
        self.step: int | None = None  # shown to hooks in place of the steps done
        self._leaves = {leaf.spec.name: leaf for leaf in job.layout.leaves}

    def enter(self, context: MemberContext, coordinator: TrainingCoordinator) -> None:
        """Allow hooks to fetch values and to steer the training from now on."""
        self._context, self._coordinator = context, coordinator

    def leave(self) -> None:
        """Give up the training's memory."""
        self._context = None

    def value(self, fetches: Any, step: int | None = None) -> Any:
        """Return values in the structure of what was asked for.

        `step` is what the global step should be; by default the steps that are done.
        """
        return _of_each(fetches, lambda asked: self._one(self.fetch(asked).name, step))

    def check(self, fetches: Any) -> None:
        """Raise `ValueError` for what cannot be fetched, before the step is made."""
        _of_each(fetches, self.fetch)

    def stop(self) -> None:
        """Let the training end."""
        assert self._coordinator is not None
        self._coordinator.command("stop")

    # -- what hooks ask; see `kit.hooks.environment` -----------------------------

    def global_step(self) -> Fetch:
        """Return the fetch of the number of steps."""
        return Fetch(STEP)

    def fetch(self, asked: Any) -> Fetch:
        """Return the fetch of the loss, the step or a parameter; else `ValueError`."""
        if isinstance(asked, Fetch):
            return asked
        name = self._hooks.name_of(asked)
        if name in self._leaves or name in (LOSS, STEP):
            return Fetch(str(name))
        names = ", ".join(map(repr, (LOSS, STEP, *self._leaves)))
        raise ValueError(
            f"{asked!r} cannot be fetched in a training; there are {names}."
        )

    def checkpoint_backend(
        self, folder: str, basename: str, saver: Any, scaffold: Any
    ) -> Any:
        """Return what saves; the files are those of the training's checkpoints."""
        if saver is not None or scaffold is not None:
            raise UnimplementedError(
                "a training saves its parameters and slots; it takes neither a saver "
                "nor a scaffold."
            )
        wanted = self._job.checkpoints
        if wanted is None:  # `with_savers` has seen to it that there is one folder
            raise FailedPreconditionError(
                f"this training has no checkpoints in {folder}; give the hook, or "
                f"checkpoint={folder!r}, to kit.train."
            )
        return HookCheckpoints(wanted.folder, self._coordinating)

    def tracing(self) -> NoReturn:
        """Refuse: a training's trace is `run.trace`."""
        raise UnimplementedError("a training is traced anyway: see run.trace.")

    def timeline(self, run_metadata: Any) -> Sequence[dict[str, Any]]:
        """Return nothing; see `tracing`."""
        return ()

    def summary_writer(self, folder: str) -> None:
        """Return None: what a training measures is in its trace."""

    def measuring(self) -> HookEnvironment:
        """See `Environment`: this records measures, too."""
        return self

    def parameters(self) -> dict[str, Array]:
        """See `Measuring`."""
        context = self._inside()
        held = context.workplace.held.leaves(context.now)
        return {name: np.array(to_numpy(value)) for name, value in held.items()}

    def state(self) -> dict[str, Any]:
        """See `Measuring`."""
        return copy.deepcopy(self._inside().state)

    def restore(self, values: Mapping[str, Array]) -> None:
        """See `Measuring`."""
        context = self._inside()
        for name, target in context.workplace.held.leaves(context.now).items():
            copy_into(target, values[name], what=name)

    def is_last(self, step: int) -> bool:
        """See `Measuring`."""
        return step + 1 >= self._job.steps

    def measured(self, step: int, values: Mapping[str, float]) -> None:
        """See `Measuring`."""
        encoded = {name.encode(): value for name, value in values.items()}
        self._inside().measured(step, encoded, examples=1)

    def progress(self, text: str) -> None:
        """See `Environment`."""
        self.notes.add("progress", text)

    def info(self, text: str) -> None:
        """See `Environment`."""
        self.notes.add("info", text)
        _LOG.info("%s", text)

    def warning(self, text: str) -> None:
        """See `Environment`."""
        self.notes.add("warning", text)
        _LOG.warning("%s", text)

    def error(self, text: str) -> None:
        """See `Environment`."""
        self.notes.add("error", text)
        _LOG.error("%s", text)

    def _one(self, name: str, step: int | None) -> Any:
        # A parameter called "loss" hides the loss: the user chose that name.
        if name in self._leaves:
            context = self._inside()
            held = context.workplace.held
            return np.array(to_numpy(held.leaf(context.now, self._leaves[name])))
        if name == LOSS:
            return self.loss
        if step is None:
            step = self.step
        return self._inside().step if step is None else step

    def _inside(self) -> MemberContext:
        if self._context is None:
            raise FailedPreconditionError("the training has no values yet.")
        return self._context

    def _coordinating(self) -> TrainingCoordinator:
        assert self._coordinator is not None
        return self._coordinator


def _of_each(fetches: Any, call: Callable[[Any], Any]) -> Any:
    """Return what a call gives for each thing fetched, in the same structure."""
    if isinstance(fetches, dict):
        return {key: _of_each(fetch, call) for key, fetch in fetches.items()}
    if isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
        if not isinstance(fetches, Fetch):
            return type(fetches)(*(_of_each(fetch, call) for fetch in fetches))
    elif isinstance(fetches, list | tuple):
        return type(fetches)(_of_each(fetch, call) for fetch in fetches)
    return call(fetches)


class HookCheckpoints:
    """What a `CheckpointSaverHook` saves with: the training's own checkpoints."""

    def __init__(
        self, folder: str, coordinator: Callable[[], TrainingCoordinator]
    ) -> None:
        self._folder, self._coordinator = Path(folder), coordinator

    def begin(self) -> None:
        """Do nothing: the folder is claimed when the training begins."""

    def describe(self, session: Any, step: int) -> None:
        """Do nothing: each checkpoint says by itself what it is of."""

    def end(self) -> None:
        """Do nothing: the training lets go of its folder."""

    def save(self, session: Any, step: int) -> str:
        """Ask for a checkpoint; it is copied before the next step, written beside it.

        Raises `CheckpointFailed` where the training is over and could not be saved.
        """
        coordinator = self._coordinator()
        if coordinator.save_coordinator.has(step):
            return str(self._folder / f"step-{step}")
        if coordinator.is_finished:
            raise CheckpointFailed(
                f"{coordinator.save_coordinator.status()['refused']}"
            )
        coordinator.command("save", ticket="")
        return str(self._folder / f"step-{step}")

    def is_written(self, step: int) -> bool | None:
        """Whether that state, or a later one in its place, is on disk."""
        fate: bool | None = self._coordinator().save_coordinator.fate(step)
        return fate


class HookSession:
    """What hooks get for a session: it looks values up, and runs nothing."""

    graph = None

    def __init__(self, environment: HookEnvironment) -> None:
        self._environment = environment

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Return the values after the last step; `InvalidArgumentError` for feeds."""
        if feed_dict:
            raise InvalidArgumentError(
                "nothing can be fed here: in a training the workers feed their data."
            )
        return self._environment.value(fetches)


class HookCoordinator:
    """What hooks get for a coordinator of threads: it can end the training."""

    def __init__(self, environment: HookEnvironment) -> None:
        self._environment, self._is_stopped = environment, False

    def request_stop(self, ex: Any = None) -> None:
        """End the training after the step that is under way, with an error if given."""
        if isinstance(ex, BaseException):
            raise ex
        self._is_stopped = True
        self._environment.stop()

    def should_stop(self) -> bool:
        """Whether the end was asked for."""
        return self._is_stopped


class HookRunner(StepCallback):
    """The hooks of one training, called by its coordinator's thread.

    Attributes:
        may_stop: whether members must meet after each step.
        want_last: whether workers need the parameters with which an asynchronous one
            ends.
    """

    def __init__(self, job: Job, hooks: HookList) -> None:
        """Call `begin` of each; raises what that raises, with the hook's name."""
        self.may_stop, self.want_last = hooks.may_stop, hooks.want_last
        self._task, self._hooks = str(job.tasks[job.coordinator]), hooks
        self._environment = HookEnvironment(job, hooks)
        self._session = HookSession(self._environment)
        self._context = SessionRunContext(SessionRunArgs(LOSS), self._session)
        self._fetches: dict[SessionRunHook, Any] = {}
        self._began = self._step = 0
        self._is_created = self._has_ended = False
        # By step: a step that is repeated after a loss calls no hook a second time. An
        # earlier process began its next step only when it had reported the one before.
        self._n_asked = self._n_reported = max(job.generation.reached - 1, 0)
        for hook in hooks:
            self._call(hook, "begin", hook.begin)

    @classmethod
    def of(cls, job: Job, hooks: HookList) -> HookRunner:
        """Return the one that calls hooks in a job: that of the generation before.

        If they have not been called in this process there is none; see `__init__`.
        """
        # Kept with the hooks, which all generations of this process share.
        if hooks.runner is None or not job.generation.is_followed:
            hooks.runner = cls(job, hooks)
        runner: HookRunner = hooks.runner
        return runner

    def said(self) -> list[list[Any]]:
        """Return the newest lines that hooks have logged."""
        return self._environment.notes.to_plain()

    def enter(self, context: MemberContext, coordinator: TrainingCoordinator) -> None:
        """Take part in a training that is about to begin."""
        self._environment.enter(context, coordinator)
        self._began = coordinator.began

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """Call `after_create_session`, once, when there are parameters."""
        if self._is_created:
            return
        self._is_created = True
        # As if no step had been done since: hooks count from where the training began,
        # in whatever process they are called.
        self._environment.step = self._step = self._began
        coordinator = HookCoordinator(self._environment)
        for hook in self._hooks:
            call = partial(hook.after_create_session, self._session, coordinator)
            self._call(hook, "after_create_session", call)
        self._environment.step = None

    def before(self, step: int) -> None:
        """Call `before_run`; raises `InvalidArgumentError` for a hook that feeds."""
        if step < self._n_asked:  # it is done again
            return
        self._step, self._n_asked = step, step + 1
        self._context = SessionRunContext(SessionRunArgs(LOSS), self._session)
        self._fetches = {}
        for hook in self._hooks:
            self._call(hook, "before_run", partial(self._ask, hook))

    def after(self, step: int, loss: float) -> None:
        """Call `after_run` of a step that is done, and end the training if asked to."""
        if step < self._n_reported:
            return
        self._environment.loss, self._n_reported = loss, step + 1
        for hook in self._hooks:
            self._call(hook, "after_run", partial(self._tell, hook, step))
        if self._context.stop_requested:
            self._environment.stop()

    def end(self) -> None:
        """Call `end`, once."""
        if self._has_ended:
            return
        self._has_ended = True
        for hook in self._hooks:
            self._call(hook, "end", partial(hook.end, self._session))

    def leave(self) -> None:
        """Give up the training's memory."""
        self._environment.leave()

    def _ask(self, hook: SessionRunHook) -> None:
        asked = call_before([hook], self._context)
        if asked.feeds or asked.options:
            raise InvalidArgumentError(
                "it gives feeds or options; in a training the workers feed their data, "
                "and there are no options of a run."
            )
        for fetches in asked.fetches.values():
            self._environment.check(fetches)
        self._fetches |= asked.fetches

    def _tell(self, hook: SessionRunHook, step: int) -> None:
        values = {}
        if hook in self._fetches:
            values[hook] = self._environment.value(self._fetches[hook], step)
        call_after([hook], self._context, values)

    def _call(self, hook: SessionRunHook, method: str, call: Callable[[], Any]) -> None:
        try:
            with inside(self._environment):
                call()
        except Exception as error:
            what = f"{self._task}: hook {type(hook).__name__}.{method}()"
            about: dict[str, Any] = {"task": self._task, "step": self._step}
            if isinstance(error, KitError):
                raise type(error)(f"{what}: {error.message}", **about) from error
            raise StepFailed(
                f"{what} raised {type(error).__name__}: {error} at step {self._step}; "
                f"all members were stopped, and the parameters are those of the last "
                f"step.",
                remote_traceback="".join(traceback.format_exception(error)),
                **about,
            ) from error
