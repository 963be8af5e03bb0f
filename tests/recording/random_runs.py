"""Random trainings, recorded and computed again: each must have the same bits.

    python -m tests.recording.random_runs FIRST COUNT

A number makes the training: how many tasks, optimizer, steps, buckets, what is asked
for on the way (another topology, link, pace; pauses; checkpoints), and how often states
are kept. The last parameters of the replay, from the first state and from a random one,
are compared with those of the training.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError, KitError
from kit.testing.cluster import LocalCluster
from tests.training.toy import BATCH, DATA, fit, initial, quick_cluster, same_bits

OPTIMIZERS = (
    kit.GradientDescent(0.002),
    kit.Momentum(0.002),
    kit.Adagrad(0.05),
    kit.Adam(0.01),
)
TOPOLOGIES = ("ps", "ring", "mesh", "ring-whole")
LINKS = ("", "1gbit", "100mbit,0.1ms")


def with_chance(
    params: Mapping[str, Any], batch: Any, rng: np.random.Generator, state: Any
) -> Any:
    """Do what `fit` does, with noise and a running mean in it."""
    loss, found = fit(dict(params), batch)
    state["mean"] = 0.9 * state.get("mean", 0.0) + 0.1 * loss
    noise = rng.standard_normal(3).astype(np.float32)
    found["w"] = found["w"] + noise * np.float32(0.01 * state["mean"])
    return loss, found


def record(number: int, folder: Path) -> tuple[kit.Run, Any]:
    """Record the training that a number makes; return it, and its step function."""
    dice = np.random.default_rng(number)
    n_ps, n_workers = int(dice.integers(1, 3)), int(dice.integers(1, 4))
    steps = int(dice.integers(30, 150))
    step = (fit, with_chance)[int(dice.integers(2))]
    with quick_cluster(
        n_ps, n_workers, bucket_bytes=int(dice.choice([0, 16]))
    ) as cluster:
        run = _begin(dice, cluster, steps, step, folder)
        for _ in range(int(dice.integers(0, 5))):
            _change(dice, run, steps)
        with suppress(FailedPreconditionError):  # it may be over already
            run.resume()
        run.wait(60)
        assert run.params
    return run, step


def _begin(
    dice: np.random.Generator,
    cluster: LocalCluster,
    steps: int,
    step: Any,
    folder: Path,
) -> kit.Run:
    synchronous = bool(dice.random() < 0.7)
    saves = kit.Checkpoints(str(folder / "saved")) if dice.random() < 0.4 else None
    folder.mkdir(exist_ok=True)
    return kit.train(
        step,
        initial(),
        DATA,
        optimizer=OPTIMIZERS[int(dice.integers(len(OPTIMIZERS)))],
        topology=str(dice.choice(TOPOLOGIES)) if synchronous else "ps",
        sync=synchronous,
        steps=steps,
        seed=int(dice.integers(5)),
        batch=BATCH,
        checkpoint=saves,
        record=kit.Recording(
            folder / "run",
            state_every_s=float(dice.choice([0.02, 0.1])),
            digest_every=int(dice.choice([1, 5])),
        ),
        cluster=cluster,
    )


def _change(dice: np.random.Generator, run: kit.Run, steps: int) -> None:
    """Ask for something; what comes too late, or does not go together, is refused."""
    at = int(dice.integers(steps))
    with suppress(FailedPreconditionError, InvalidArgumentError):
        match int(dice.integers(6)):
            case 0:
                run.switch(str(dice.choice(TOPOLOGIES)), at=at)
            case 1:
                run.switch("ps", synchronous=False, at=at)
            case 2:
                run.switch(synchronous=True, at=at)
            case 3:
                run.switch(link=str(dice.choice(LINKS)), at=at)
            case 4:
                run.advance(int(dice.integers(1, 20)))
                run.resume()
            case 5:
                run.save()


def check(number: int) -> str:
    """Record and replay one training; return what is wrong, empty if nothing is."""
    with tempfile.TemporaryDirectory(prefix="kit-run-") as parent:
        folder = Path(parent) / "one"
        run, step = record(number, folder)
        try:
            found = kit.replay(folder / "run", step=step, data=DATA)
        except KitError as error:
            return f"{number}: {type(error).__name__}: {error.message}"
        if not same_bits(found.params, run.params):
            return f"{number}: the replay has other parameters"
        later = kit.replay(folder / "run", run.step, step=step, data=DATA)
        if not same_bits(later.params, run.params):
            return f"{number}: the replay from a later state has other parameters"
    return ""


def main() -> None:
    """Try the trainings that the command line names; the status tells how many fail."""
    first, count = (int(one) for one in sys.argv[1:3])
    warnings.simplefilter("error")
    wrong = [text for n in range(first, first + count) if (text := check(n))]
    print(f"{count - len(wrong)} of {count} trainings were replayed bit for bit")
    for text in wrong:
        print(text)
    sys.exit(min(len(wrong), 100))


if __name__ == "__main__":
    main()
