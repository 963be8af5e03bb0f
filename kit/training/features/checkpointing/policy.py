"""Where and how often a training is saved, and where it goes on: what the user says.

Plain data of a `Job`, checked before any task is asked. Pure.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kit.errors import InvalidArgumentError
from kit.features import FeatureOptions
from kit.handles import handle
from kit.regular_file import user_path

DEFAULT_EVERY_S: Final = 60.0
AFRESH: Final = "afresh"  # what `restore=False` means in a job
_NAMED = re.compile(r"(?:step-)?(\d+)")


@handle
@dataclass(frozen=True)
class Checkpoints(FeatureOptions):
    """A folder for the checkpoints of a training, and how often to write one.

    A training that ends or is stopped is saved in any case, and so is one whenever
    `run.save()` asks. A save is skipped while the previous one is still being written.

    Parameters
    ----------
    folder : str or PathLike
        On the host of the coordinator, the first worker. Tasks of other hosts write
        into it where they see it under this name, and else send their shards there.
    every_steps : int, optional
        The number of steps between two checkpoints; 0 for never.
    every_s : float, optional
        About how many seconds between two checkpoints; 0 for never. 60 if neither is
        given.
    keep : int, default 5
        How many of the newest checkpoints to keep, at least 2.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    The training stops only while the parameters are copied; they are written while
    the next steps run. It resumes from the newest checkpoint that is whole, with the
    mini-batches that would have come next.

    Examples
    --------
    >>> Checkpoints("digits", every_steps=100).every_s
    0.0
    """

    folder: str
    every_steps: int | None = None
    every_s: float | None = None
    keep: int = 5

    def __post_init__(self) -> None:
        """Fill in the defaults; `InvalidArgumentError` for what is out of range."""
        folder = str(user_path(self.folder, "a folder for checkpoints"))
        is_bare = self.every_steps is None and self.every_s is None
        steps = 0 if self.every_steps is None else self.every_steps
        seconds = DEFAULT_EVERY_S if is_bare else float(self.every_s or 0.0)
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
            raise InvalidArgumentError(
                f"every_steps is {self.every_steps!r}; give a whole number of steps, 0 "
                f"for never."
            )
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InvalidArgumentError(
                f"every_s is {self.every_s!r}; give seconds, 0 for never."
            )
        if not isinstance(self.keep, int) or self.keep < 2:
            raise InvalidArgumentError(
                f"keep is {self.keep!r}; give at least 2: a damaged checkpoint must "
                f"have one before it."
            )
        for name, value in (
            ("folder", str(Path(folder).absolute())),
            ("every_steps", steps),
            ("every_s", seconds),
        ):
            object.__setattr__(self, name, value)

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Checkpoints:
        """Rebuild it from `to_plain`."""
        return cls(**plain)


def checkpoints_of(value: Any) -> Checkpoints | None:
    """Return what `checkpoint=` of `kit.train` means: a folder's name, or all of it.

    >>> checkpoints_of("/tmp/digits").every_s
    60.0
    """
    if value is None or isinstance(value, Checkpoints):
        return value
    if isinstance(value, str | os.PathLike):
        return Checkpoints(os.fspath(value))
    raise InvalidArgumentError(
        f"checkpoint is {value!r}; give the name of a folder, or "
        f"kit.Checkpoints(folder, every_steps=100)."
    )


def restore_of(value: Any, checkpoints: Checkpoints | None) -> str:
    """Return what `restore=` means as a text: the newest "", "afresh" or "step-400".

    >>> restore_of("step-400", Checkpoints("/tmp/digits"))
    'step-400'
    """
    if checkpoints is None:
        if value not in (None, False):
            raise InvalidArgumentError(
                f"restore is {value!r} but there is no folder to read from; give "
                f"checkpoint=folder as well."
            )
        return ""
    if value is None or value is True:
        return ""
    if value is False:
        return AFRESH
    match = _NAMED.fullmatch(str(value))
    if match is None:
        raise InvalidArgumentError(
            f"restore is {value!r}; give the name of a checkpoint such as 'step-400', "
            f"False to start afresh, or nothing to go on from the newest."
        )
    return f"step-{int(match[1])}"
