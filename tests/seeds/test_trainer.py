"""The trainer of the guide: four processes, started by the commands of its text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kit.demo.digits import load_images
from kit.demo.recovered import Shells
from kit.errors import DeadlineExceededError
from kit.testing.task_process import until
from tests.zygote import forking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PROGRAM = Path(__file__).parent / "trainer.py"
BOUND_S = 100.0
WORKERS = ("worker:0", "worker:1")


class Trainer:
    """The program on two ps and two workers, and what it leaves in a folder."""

    def __init__(self, shells: Shells, folder: Path) -> None:
        self.shells, self._checkpoints = shells, folder / "checkpoints"

    def start(self, name: str, *options: str) -> None:
        self.shells.start(
            name, f"--checkpoint_dir={self._checkpoints}", *("--log_every=1", *options)
        )

    def start_all(self, *options: str) -> None:
        for task in self.shells.tasks:
            self.start(task.short, *options)

    def saved(self) -> int:
        """Return the step of the newest checkpoint that is complete."""
        state = self._checkpoints / "checkpoint"
        text = state.read_text("utf-8") if state.exists() else ""
        result = re.search(r"^model_checkpoint_path: .*-(\d+)", text, re.MULTILINE)
        return int(result[1]) if result else -1

    def wait_for_steps_after_a_checkpoint(self) -> None:
        """Wait for one that is not the first, until the chief has told a step, too."""
        try:
            until(lambda: 0 < self.saved() <= self.furthest() - 20, BOUND_S)
            until(lambda: self.printed("step", "worker:0"), BOUND_S)
        except DeadlineExceededError as error:
            error.add_note(self.shells.all_words())
            raise

    def printed(self, what: str, worker: str) -> list[float]:
        """Return a value that a worker has told after each of its runs."""
        words = self.shells.words(worker)
        return [float(number) for number in re.findall(rf"{what} = ([\d.e+-]+)", words)]

    def furthest(self) -> int:
        return int(max(step for name in WORKERS for step in self.printed("step", name)))


DIGITS = """
from pathlib import Path
from types import SimpleNamespace
import numpy as np

def load_digits():
    with np.load(Path(__file__).with_name("digits.npz")) as kept:
        return SimpleNamespace(**kept)
"""


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainer]:
    # The images of scikit-learn without the rest of it, which loads for 1.4 s.
    package, (images, labels) = tmp_path / "sklearn", load_images()
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "datasets.py").write_text(DIGITS)
    np.savez(package / "digits.npz", data=16 * images, target=labels)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = [sys.executable, str(PROGRAM)]
    with forking(), Shells(program, tmp_path, bound_s=BOUND_S) as shells:
        yield Trainer(shells, tmp_path)


def test_trainer_learns_and_goes_on_where_it_was(
    trainer: Trainer, tmp_path: Path
) -> None:
    trainer.start_all("--steps=250")
    trainer.shells.wait_for_ends("worker")
    first = trainer.saved()
    learned = [trainer.printed("loss", worker) for worker in WORKERS]
    for task in ("ps:0", "ps:1"):
        trainer.shells.kill(task)

    trainer.start_all("--steps=280")
    trainer.shells.wait_for_ends("worker")

    # Each worker may make one more step than the last.
    assert 250 <= first <= 252
    assert max(row[0] for row in learned) > 2.0  # of the first that came
    assert max(row[-1] for row in learned) < 0.7
    assert f"Restored {tmp_path}/checkpoints/model.ckpt-{first}." in (
        trainer.shells.words("worker:0")
    )
    assert 280 <= trainer.saved() <= 282
    assert trainer.shells.words("worker:1").count("worker 1 is done") == 2


# The global step is on ps:0. When that one is lost, the chief knows the last step only
# from its own last run.
@pytest.mark.parametrize(
    ("sync", "victim", "every", "steps"),
    [("false", "ps:1", 40, 600), ("true", "ps:0", 40, 240)],
)
def test_killed_server_costs_no_more_than_the_steps_since_the_last_checkpoint(
    sync: str, victim: str, every: int, steps: int, trainer: Trainer
) -> None:
    options = f"--sync={sync}", f"--save_every={every}", f"--steps={steps}"
    trainer.start_all(*options)
    trainer.wait_for_steps_after_a_checkpoint()
    trainer.shells.kill(victim)
    before, furthest = trainer.saved(), trainer.furthest()
    of_the_chief = trainer.printed("step", "worker:0")[-1]
    trainer.start(victim, *options)
    reply = trainer.shells.wait_for_words(
        "worker:0",
        r"was lost; restored \S*model.ckpt-(\d+); goes on at step (\d+); (\d+) steps",
    )
    trainer.shells.wait_for_ends("worker")

    restored, begun, lost = map(int, reply.groups())
    assert before < furthest < steps  # it was killed on the way
    assert restored >= before
    # A run that was under way when the server was killed has told no step.
    assert restored + lost <= furthest + 4
    # At least its own: those of others are known if a server could be asked. What it
    # has told was read a moment after what its recovery counts by, in the same run.
    assert restored + lost >= of_the_chief - 2 or sync == "true"
    assert restored <= begun <= restored + 4
    # Those that are synchronous make their steps together.
    assert steps <= trainer.saved() <= steps + (1 if sync == "true" else 3)
    assert trainer.printed("loss", "worker:1")[-1] < 1.0
    assert "worker 1 is done" in trainer.shells.words("worker:1")
