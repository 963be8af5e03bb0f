"""What the notebook sees of a training's checkpoints, and a request for one."""

from __future__ import annotations

import asyncio
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kit.checkpoint import Folder, FoundCheckpoint, load
from kit.errors import (
    CheckpointFailed,
    DataLossError,
    DeadlineExceededError,
    NotFoundError,
)
from kit.exchange.ports.memory import Array
from kit.handles import handle
from kit.regular_file import user_path
from kit.training.checkpointing.policy import Checkpoints
from kit.training.checkpointing.resume import Resumed, texts_of
from kit.training.worker import kept_state

_LOOK_S = 0.02


class Saved(NamedTuple):
    """A checkpoint: steps done, its folder, bytes on disk, seconds until it was there.

    For one that was there before this training, bytes and seconds are 0.
    """

    step: int
    path: str
    n_bytes: int = 0
    seconds: float = 0.0


@handle
class SavedCheckpoints:
    """The checkpoints of a run, as far as they are known here."""

    wanted: Checkpoints | None

    def __init__(
        self, wanted: Checkpoints | None, look: Callable[[], dict[str, Any]]
    ) -> None:
        """`look` returns what the coordinator said last."""
        self.wanted, self._look = wanted, look

    @property
    def folder(self) -> str:
        """Where they are; empty for a training that is not saved."""
        return self.wanted.folder if self.wanted else ""

    @property
    def last(self) -> Saved | None:
        """The newest one, None before the first."""
        last = self._look().get("last")
        return _saved(last) if last else None

    @property
    def saving(self) -> int | None:
        """The step of the one that is being written, None if none is."""
        found: int | None = self._look().get("saving")
        return found

    @property
    def refused(self) -> str:
        """Why the last attempt failed; empty if it did not. The training went on."""
        return str(self._look().get("refused", ""))

    @property
    def n_saved(self) -> int:
        """How many this training has written."""
        return int(self._look().get("n_saved", 0))

    @property
    def n_failed(self) -> int:
        """How many attempts failed."""
        return int(self._look().get("n_failed", 0))

    @property
    def resumed(self) -> Resumed | None:
        """Where the training went on, None if it began at step 0."""
        found = self._look().get("resumed")
        return Resumed.from_plain(found) if found else None

    def __str__(self) -> str:
        """Return one line for the notebook; empty without a folder."""
        parts = []
        if self.resumed is not None:
            parts.append(str(self.resumed))
        if self.last is not None and self.n_saved:
            parts.append(f"step {self.last.step:,} is saved")
        if self.saving is not None:
            parts.append(f"step {self.saving:,} is being written")
        if self.refused:
            parts.append(self.refused)
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"<checkpoints in {self.folder or 'no folder'}: {self or 'none yet'}>"


@handle
class Saving:
    """A checkpoint that was asked for: `wait()` for it, or await it."""

    def __init__(
        self,
        ask: Callable[[str], None],
        look: Callable[[], dict[str, Any]],
        check: Callable[[], bool],
    ) -> None:
        """Ask; `check` raises what the training failed with, or says if it is over."""
        self._ticket = secrets.token_hex(8)
        self._look, self._check = look, check
        ask(self._ticket)

    @property
    def done(self) -> bool:
        """Whether it is known how it went."""
        return self._answer() is not None

    def wait(self, timeout: float | None = None) -> Saved:
        """Block until the checkpoint is on disk, and return what it is.

        Raises `CheckpointFailed` saying why there is none, `DeadlineExceededError`
        after `timeout` seconds, and what the training failed with.
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        pause = threading.Event()
        while (saved := self._saved()) is None:
            if give_up is not None and time.monotonic() > give_up:
                raise DeadlineExceededError(
                    f"there is no checkpoint after {timeout:g} s; it is still being "
                    f"written, or a step takes longer than that."
                )
            pause.wait(_LOOK_S)
        return saved

    def __await__(self) -> Generator[Any, None, Saved]:
        # Not `wait` in a thread: nothing would end that when this is cancelled.
        while (saved := self._saved()) is None:
            yield from asyncio.sleep(_LOOK_S).__await__()
        return saved

    def _saved(self) -> Saved | None:
        """Return the checkpoint, None before it is on disk; raises as `wait` does."""
        # In this order: an answer that came just before the end is then seen.
        is_over = self._check()
        answer = self._answer()
        if answer is not None and answer["error"]:
            raise CheckpointFailed(str(answer["error"]))
        if answer is None and is_over:
            raise CheckpointFailed("the training ended before it was saved.")
        return None if answer is None else _saved(answer)

    def _answer(self) -> dict[str, Any] | None:
        for answer in self._look().get("answers", ()):
            if answer["ticket"] == self._ticket:
                return dict(answer)
        return None


def _saved(plain: dict[str, Any]) -> Saved:
    n_bytes, seconds = int(plain.get("n_bytes", 0)), float(plain.get("seconds", 0.0))
    return Saved(int(plain["step"]), str(plain["path"]), n_bytes, seconds)


# --------------------------------------------------------------------------------------
# Read a training's checkpoint without a cluster: its parameters, as arrays.


_NAME = re.compile(r"step-\d+(?:\.\d+)?")


class CheckpointValues(Mapping[str, Array]):
    """The parameters of a checkpoint by name; usable as `params` of `kit.train`.

    Attributes:
        step: how many steps were done.
        path: the checkpoint's folder.
        slots: the optimizer's state: for each slot, arrays by parameter.
        states: what the step function kept, by worker: `states["worker:1"]["mean"]`.
        extra: what else is known of the training: seed, batch, tasks, optimizer.
        passed_over: newer checkpoints that are damaged, each with what is wrong.
    """

    def __init__(self, found: FoundCheckpoint, values: dict[str, Array]) -> None:
        manifest = found.manifest
        self.step, self.path = manifest.step, found.path
        self.extra: Mapping[str, Any] = manifest.extra
        self.passed_over = found.passed_over
        self.slots: dict[str, dict[str, Array]] = {}
        for slot in texts_of(found, "slots"):
            names = [one for one in values if f"{one}/{slot}" in values]
            self.slots[slot] = {one: values[f"{one}/{slot}"] for one in names}
        taken = {f"{one}/{s}" for s, found in self.slots.items() for one in found}
        names = texts_of(found, "states")
        packed = {name: values[name] for name in names if name in values}
        try:
            kept = {name: kept_state.unpack(data) for name, data in packed.items()}
        except DataLossError as exc:
            raise CheckpointFailed(f"{self.path}: {exc.message}") from exc
        self.states = {
            name.removeprefix(kept_state.PREFIX): kept_state.parted(one)[0]
            for name, one in kept.items()
        }
        taken |= {*packed}
        self._values = {k: v for k, v in values.items() if k not in taken}

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<step {self.step} from {self.path}: {', '.join(self)}>"


def load_checkpoint(folder: str | Path) -> CheckpointValues:
    """Return the newest good checkpoint of a folder, or the one that the path names.

    All bytes are compared with their digests; there is no partial result.

    Parameters
    ----------
    folder : str or Path
        The folder of a training, "digits", or one checkpoint in it, "digits/step-400".

    Returns
    -------
    CheckpointValues
        A mapping from the names of the parameters to arrays, with its `step` and what
        else was saved.

    Raises
    ------
    NotFoundError
        There is no checkpoint.
    CheckpointFailed
        It is damaged.
    """
    path = user_path(folder, "the folder of a checkpoint")
    if _NAME.fullmatch(path.name) and not Folder(path).steps():
        if not path.is_dir():
            raise NotFoundError(
                f"there is no checkpoint {path}; {path.parent} has those of the steps "
                f"{Folder(path.parent).steps()}."
            )
        return CheckpointValues(*load(path))
    return CheckpointValues(*Folder(path).load_newest())
