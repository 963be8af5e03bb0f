"""What a recording of a training contains, and how large it may become."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kit.errors import InvalidArgumentError
from kit.features import FeatureOptions
from kit.handles import handle
from kit.regular_file import user_path

_MIB = 1 << 20


@handle
@dataclass(frozen=True)
class Recording(FeatureOptions):
    """Where and how to record: `kit.train(..., record=kit.Recording(folder, ...))`.

    Parameters
    ----------
    folder : str or PathLike
        A folder that is empty or does not exist yet. Its parent folder must exist.
    store_data : bool, default False
        Write the training data into the recording too, if they are arrays, so that
        `kit.replay` needs no `data`.
    store_step : bool, default False
        Write the step function into the recording too, by cloudpickle. Loading it
        executes code from the file, so `kit.replay` does so only with
        ``trust_step=True``.
    digest_every : int, default 10
        Number of synchronous steps from one recorded digest of the parameters to the
        next. `settings(digest_every=...)` counts instead where it is smaller.
    state_every_s : float, default 0.5
        About how often parameters and optimizer slots are kept, in seconds. A replay
        begins at one of these states.
    state_bytes, message_bytes : int, default 24 MiB and 16 MiB
        How many bytes of states and of messages are kept. When there are more, every
        second state and the oldest messages are removed. Everything else is kept.

    Raises
    ------
    InvalidArgumentError
        A value cannot be used.

    Examples
    --------
    >>> Recording("run-1", store_data=True).digest_every
    10
    """

    folder: str | os.PathLike[str]
    store_data: bool = False
    store_step: bool = False
    digest_every: int = 10
    state_every_s: float = 0.5
    state_bytes: int = 24 * _MIB
    message_bytes: int = 16 * _MIB

    def __post_init__(self) -> None:
        user_path(self.folder, "the folder of a recording")
        for name in ("digest_every", "state_bytes", "message_bytes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidArgumentError(
                    f"{name} of a recording is {value!r}; give a whole number, 1 or "
                    f"more."
                )
        if not self.state_every_s > 0:
            raise InvalidArgumentError(
                f"state_every_s of a recording is {self.state_every_s!r}; give a "
                f"positive number of seconds."
            )

    @property
    def path(self) -> Path:
        """The folder as a `Path`, with a leading `~` expanded."""
        return user_path(self.folder, "the folder of a recording")


def recording_of(value: object) -> Recording:
    """Return what `record=` means.

    >>> recording_of("run-1").path.name
    'run-1'
    """
    if isinstance(value, Recording):
        return value
    return Recording(value)  # type: ignore[arg-type]  # it checks what it is given
