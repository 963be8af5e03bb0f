"""What an exception in a member's thread means for the training, as a typed error."""

from __future__ import annotations

import traceback

from kit.errors import KitError, UnknownError
from kit.task import Task


def as_failure(error: BaseException, task: Task) -> KitError:
    """Return the error with the task's name; what is none of ours is unknown."""
    if not isinstance(error, KitError):
        text = f"{task}: {type(error).__name__}: {error}"
        plain = "".join(traceback.format_exception(error))
        return UnknownError(text, task=str(task), remote_traceback=plain)
    if error.task is None:  # what is wrong with the data, for example
        return type(error)(f"{task}: {error.message}", task=str(task))
    return error


def forget_frames(error: BaseException | None) -> None:
    """Let go of the frames that an error went through: they hold on to buffers."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
