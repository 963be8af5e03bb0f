"""The hooks of a training, on their way from `kit.train` to the coordinator's task.

What means nothing in a training is refused here, before any task is asked. A tensor
does not travel to another process: there, a hook that names the loss or a parameter by
its tensor names it by a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kit.errors import InvalidArgumentError, UnimplementedError
from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.hooks import (
    CheckpointSaverHook,
    FeedFnHook,
    GlobalStepWaiterHook,
    LoggerHook,
    LoggingTensorHook,
    NanTensorHook,
    ProfilerHook,
    SessionRunHook,
    StepCounterHook,
    SummarySaverHook,
    ValidationHook,
)
from kit.training.features.checkpointing.policy import Checkpoints
from kit.training.features.graph_step.step import GraphStep

LOSS, STEP = "loss", "global_step"

REFUSED: Mapping[type[SessionRunHook], str] = {
    FeedFnHook: "each worker feeds its own split of the data; give data instead",
    GlobalStepWaiterHook: "its task coordinates the training, which would never begin",
    ProfilerHook: "a training records what it does anyway: see run.trace.save()",
    SummarySaverHook: "there are no summaries; use TensorBoardHook(folder)",
}
# Hooks that never ask for the end, so that members need not meet after each step; the
# first two also report progress.
LOOKING_ON = (LoggingTensorHook, StepCounterHook)
QUIET = (*LOOKING_ON, ValidationHook)


class HookList:
    """Hooks, and the names by which they may ask for tensors."""

    def __init__(
        self, hooks: Iterable[SessionRunHook], names: Mapping[Any, str] | None = None
    ) -> None:
        """`names` are those of the loss and the parameters, by op name and index."""
        called = tuple(hooks)
        #: Called where the training was begun; they do not travel.
        self.loggers = tuple(hook for hook in called if isinstance(hook, LoggerHook))
        self._hooks = tuple(hook for hook in called if hook not in self.loggers)
        self._names = dict(names or {})
        #: Who calls them in this process, through all generations of a training.
        self.runner: Any = None

    def __iter__(self) -> Iterator[SessionRunHook]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)

    def __reduce__(self) -> tuple[Any, ...]:
        return HookList, (self._hooks,)

    def reducer(self) -> Callable[[Any], Any]:
        """Return what puts names in place of the tensors of hooks while they travel.

        Each hook arrives whole: what it refers to itself, a function of its own or a
        list that it shares with another hook, refers to it there too.
        """
        owner = ""

        def reduced(part: Any) -> Any:
            nonlocal owner
            if isinstance(part, SessionRunHook):
                owner = type(part).__name__
            if not (owner and isinstance(part, ArrayProtocol)):
                return NotImplemented
            name = self.name_of(part)
            if name is None:
                raise InvalidArgumentError(
                    f"{owner} names {part!r}; a hook of a training can look at 'loss', "
                    f"'global_step' and the parameters."
                )
            return str, (name,)

        return reduced

    @property
    def may_stop(self) -> bool:
        """Whether one of them may ask for the end after any step."""
        return any(type(hook) not in QUIET for hook in self._hooks)

    @property
    def look_for_nan(self) -> bool:
        """Whether one of them decides what becomes of a loss that is NaN."""
        return any(isinstance(hook, NanTensorHook) for hook in self._hooks)

    @property
    def want_last(self) -> bool:
        """Whether one of them looks at the parameters with which it ends."""
        return any(isinstance(hook, ValidationHook) for hook in self._hooks)

    @property
    def tell(self) -> bool:
        """Whether one of them reports progress."""
        return any(isinstance(hook, LOOKING_ON) for hook in self._hooks)

    def name_of(self, asked: Any) -> str | None:
        """Return what a tensor is called in a training, None if it has no value.

        Texts are names already, with or without the `:0` of a tensor.
        """
        if isinstance(asked, str):
            return asked.removesuffix(":0")
        if not isinstance(asked, ArrayProtocol):
            return None
        tensor = tensor_of(asked)
        name: str | None = self._names.get((tensor.op.name, tensor.index))
        if name is not None:
            return name
        if tensor.op.type != "Identity":
            return None
        return self.name_of(tensor.op.inputs[0])  # a variable is read by such an op


def hooks_of(items: Iterable[Any], step: Any) -> HookList:
    """Return what `hooks=` of `kit.train` means; `step` is what is trained.

    Raises `InvalidArgumentError` for anything that is not a hook, `UnimplementedError`
    for a hook that means nothing in a training.
    """
    if not isinstance(items, Iterable):
        raise InvalidArgumentError(
            f"hooks is {items!r}; give a list, also for a single hook: hooks=[...]."
        )
    hooks = tuple(items)
    for hook in hooks:
        if isinstance(hook, type):
            raise InvalidArgumentError(
                f"hooks holds the class {hook.__name__}; give an object of it: "
                f"{hook.__name__}(...)."
            )
        if not isinstance(hook, SessionRunHook):
            raise InvalidArgumentError(
                f"{hook!r} is not a hook; derive its class from "
                f"kit.hooks.SessionRunHook, or tf.train.SessionRunHook."
            )
        for kind, why in REFUSED.items():
            if isinstance(hook, kind):
                raise UnimplementedError(
                    f"{type(hook).__name__} has no meaning in kit.train: {why}."
                )
    return HookList(hooks, _names(step) if isinstance(step, GraphStep) else {})


def with_savers(checkpoints: Checkpoints | None, hooks: HookList) -> Checkpoints | None:
    """Return where to save when hooks do it too: into one folder.

    Raises `InvalidArgumentError` for a second folder.
    """
    for hook in hooks:
        if not isinstance(hook, CheckpointSaverHook):
            continue
        wanted = Checkpoints(hook._folder, every_steps=0)
        if checkpoints is None:
            checkpoints = wanted
        elif checkpoints.folder != wanted.folder:
            raise InvalidArgumentError(
                f"a CheckpointSaverHook saves into {wanted.folder}, and the training "
                f"into {checkpoints.folder}; a training has one folder."
            )
    return checkpoints


def _names(step: GraphStep) -> dict[Any, str]:
    return {tuple(goal.variable): goal.name for goal in step.goals} | {
        tuple(step.loss): LOSS
    }
