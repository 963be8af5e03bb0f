"""What a run shows of its checkpoints, and its request for one.

What writes and reads them is a feature: `kit.training.features.checkpointing`.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from kit.errors import CheckpointFailed, DeadlineExceededError
from kit.handles import handle

_LOOK_S = 0.02


@dataclass(frozen=True)
class Resumed:
    """Where a training went on.

    Attributes:
        step: how many steps the checkpoint has.
        path: its folder.
        lost_steps: how many steps the training before it had done after that; they are
            done again. 0 if it ended in good order.
        passed_over: newer checkpoints that are damaged, and what is wrong with each.
        threads: of BLAS, with which it computes as before, whatever is set here; 0 if
            the checkpoint does not say.
        differs: what it computes with here and not before, each with what helps.
    """

    step: int
    path: str
    lost_steps: int = 0
    passed_over: tuple[tuple[str, str], ...] = ()
    threads: int = 0
    differs: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"went on from step {self.step:,}"
        if self.lost_steps:
            text += f", {self.lost_steps:,} steps were lost and are done again"
        for path, why in self.passed_over:
            text += f"; {path} is damaged and was passed over: {why}"
        return "; ".join([text, *self.differs])

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Resumed:
        """Rebuild it from `to_plain`."""
        over = tuple((str(path), str(why)) for path, why in plain["passed_over"])
        differs = tuple(map(str, plain["differs"]))
        return cls(**{**plain, "passed_over": over, "differs": differs})


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

    wanted: Any

    def __init__(self, wanted: Any, look: Callable[[], dict[str, Any]]) -> None:
        """`wanted` are the job's. `look` returns what the coordinator said last."""
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
        step: int | None = self._look().get("saving")
        return step

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
        resumed = self._look().get("resumed")
        return Resumed.from_plain(resumed) if resumed else None

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
