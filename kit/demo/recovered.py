"""The fourth part of the demonstration: a server is killed, and the program goes on.

A program for TensorFlow 1.x, of which only the import was changed, trains the digits
in four processes. One of its servers is killed and started again, empty; the program's
monitored session restores its last checkpoint, and what is lost are the steps since.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.demo.shells import Shells, python
from kit.errors import DeadlineExceededError, FailedPreconditionError

PROGRAM = "kit.demo.trainer"
VICTIM = "ps:1"
_CHIEF = "worker:0"
_TOLD = re.compile(
    r"(?m)was lost; restored \S*model\.ckpt-(\d+); goes on at step (\d+)"
    r"; (\d+) steps are lost"
)
_SAVED = re.compile(r"(?m)^model_checkpoint_path: .*-(\d+)")
_LOSS = re.compile(r"loss = ([\d.e+-]+), step = (\d+)")
_GOOD_LOSS = 0.5
_MOMENT_S = 100.0


@dataclass(frozen=True)
class Recovered:
    """How the training went.

    `saved` is the newest checkpoint's step when the server was killed, `restored` the
    one it went on from, `lost` the steps made since; `reached` is the last
    checkpoint's step, `losses` what the workers reported now and then, by step.
    """

    pid: int
    saved: int
    restored: int
    lost: int
    wanted: int
    reached: int
    losses: Sequence[float]
    seconds: float

    @property
    def killed_at(self) -> int:
        """The step that the cluster was at when its server was killed."""
        return self.restored + self.lost

    def to_plain(self) -> dict[str, Any]:
        """Return the figures, for the table and the JSON."""
        return {
            "killed": VICTIM,
            "at step": self.killed_at,
            "went on from": self.restored,
            "steps lost": self.lost,
            "last step": self.reached,
            "loss": round(self.losses[-1], 4),
            "seconds": round(self.seconds, 1),
        }

    @property
    def lines(self) -> list[str]:
        """What happened, in lines for the terminal."""
        return [
            f"{VICTIM} was killed at step {self.killed_at:,} and started again, empty",
            f"{_CHIEF} restored the checkpoint of step {self.restored:,}: "
            f"{self.lost:,} steps were lost",
            f"done at step {self.reached:,}: loss {self.losses[-1]:.4f}, "
            f"{self.seconds:.1f} s in all",
        ]

    @property
    def sentence(self) -> str:
        """What happened, in one sentence for the report."""
        return (
            f"A program of four processes lost its server {VICTIM} at step "
            f"{self.killed_at:,}: it went on from its checkpoint of step "
            f"{self.restored:,}, {self.lost:,} steps were lost, and it reached step "
            f"{self.reached:,}."
        )


def train(folder: Path, steps: int, save_every: int) -> Recovered:
    """Train with two ps and two workers, kill one ps on the way, start it again.

    Logs and checkpoints are in `folder`. Blocks some 8 s for 1,000 steps. Raises
    `UnavailableError` when a task fails by itself, `DeadlineExceededError` when it does
    not come to an end, both with what the tasks printed last.
    """
    _make_empty(folder)
    began = time.perf_counter()
    options = (
        *(f"--checkpoint_dir={folder / 'checkpoints'}", f"--steps={steps}"),
        *(f"--save_every={save_every}", "--log_every=10"),
    )
    with Shells(python(PROGRAM), folder) as shells:
        for task in shells.tasks:
            shells.start(task.short, *options)
        saved = _wait_for_the_moment(shells, folder, save_every)
        shells.kill(VICTIM)
        # It may have saved again between the decision to kill and the kill.
        saved = max(saved, _saved(folder))
        pid = shells.start(VICTIM, *options)
        match = shells.wait_for_words(_CHIEF, _TOLD.pattern)
        shells.wait_for_ends("worker")
        told_losses = [
            (int(step), float(loss))
            for worker in ("worker:0", "worker:1")
            for loss, step in _LOSS.findall(shells.words(worker))
        ]
    return Recovered(
        pid=pid,
        saved=saved,
        restored=int(match[1]),
        lost=int(match[3]),
        wanted=steps,
        reached=_saved(folder),
        losses=[loss for _, loss in sorted(told_losses)],
        seconds=time.perf_counter() - began,
    )


def problems(found: Recovered) -> list[str]:
    """Return the promises that were not kept, a sentence for each."""
    wrong = []
    if found.restored < found.saved:
        wrong.append(
            f"the trainer went on from step {found.restored}, although the checkpoint "
            f"of step {found.saved} was complete."
        )
    if found.reached < found.wanted:
        wrong.append(
            f"the trainer ended at step {found.reached}, before {found.wanted}."
        )
    if not found.losses[-1] < _GOOD_LOSS:
        wrong.append(
            f"the trainer's loss is {found.losses[-1]} at the end, not below "
            f"{_GOOD_LOSS}."
        )
    return wrong


def _wait_for_the_moment(shells: Shells, folder: Path, save_every: int) -> int:
    """Wait until a kill costs some steps, not none; returns the newest checkpoint."""
    end = time.monotonic() + _MOMENT_S
    while time.monotonic() < end:
        shells.check(VICTIM)
        if not shells.check(_CHIEF):
            raise FailedPreconditionError(
                "the training was over before its server was killed: this process had "
                "no time to look. Run it again when the machine is less busy."
            )
        saved, losses = _saved(folder), _LOSS.findall(shells.words(_CHIEF))
        seen = int(losses[-1][1]) if losses else 0
        # Right after a checkpoint a kill would cost nothing. But if this process seldom
        # gets to look, it may never see a later moment: then four checkpoints will do.
        is_between = seen >= saved + save_every // 4
        if saved >= 2 * save_every and (is_between or saved >= 4 * save_every):
            return saved
        time.sleep(0.005)
    raise DeadlineExceededError(
        f"the training has not saved twice within {_MOMENT_S:g} s; {_CHIEF} says:\n"
        f"{shells.words(_CHIEF)}"
    )


def _saved(folder: Path) -> int:
    """Return the step of the newest complete checkpoint, -1 before the first."""
    text = ""
    with suppress(OSError):
        text = (folder / "checkpoints" / "checkpoint").read_text("utf-8")
    match = _SAVED.search(text)
    return int(match[1]) if match else -1


def _make_empty(folder: Path) -> None:
    """Make the folder, without the files of an earlier demonstration.

    Only what such a run writes is removed: the user may have chosen any folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = folder / "checkpoints"
    if checkpoints.is_symlink():  # what is removed next must not be elsewhere
        checkpoints.unlink()
    for pattern in ("checkpoint", "graph.pbtxt", "model.ckpt-*"):
        for path in checkpoints.glob(pattern):
            path.unlink()
    for job, index in itertools.product(("ps", "worker"), range(2)):
        (folder / f"{job}{index}.log").unlink(missing_ok=True)
