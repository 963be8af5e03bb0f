"""Random trainings, recorded and computed again: each must have the same bits.

    python -m tests.recording.random_runs FIRST COUNT

A number makes the training: how many tasks, optimizer, steps, buckets, how gradients
are made and travel (compressed, after local steps, in pieces, the first of them alone,
an optimizer of one's own), what is asked for on the way (another topology, link, pace;
pauses; checkpoints), and how often states are kept. The last parameters of the replay,
from the first state and from a random one, are compared with those of the training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError, KitError
from kit.testing.cluster import LocalCluster
from kit.training.optimizers.rule import Slot
from tests.recording.toy_training import begin, try_numbers
from tests.training import compressed, toy
from tests.training.toy import quick_cluster, same_bits

OPTIMIZERS = (
    kit.GradientDescent(0.002),
    kit.Momentum(0.002),
    kit.Adagrad(0.05),
    kit.Adam(0.01),
)
TOPOLOGIES = ("ps", "ring", "mesh", "ring-whole")
LINKS = ("", "1gbit", "100mbit,0.1ms")


COMPRESSORS = "float16", "int8", kit.TopK(0.05), kit.PowerSGD(2)


class Scaled(kit.Momentum):
    """A user's rule: gradients count by a factor."""

    factor = 0.5

    def apply(
        self, parameter: Any, gradient: Any, slots: Any, out: Any, step: int
    ) -> None:
        mine = gradient * gradient.dtype.type(self.factor)
        super().apply(parameter, mine, slots, out, step)


@dataclass(frozen=True)
class Averaged:
    """An optimizer that is derived from nothing: a step along the mean gradient."""

    rate: float
    keeps: float

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("mean", 0.5),)

    def apply(
        self, parameter: Any, gradient: Any, slots: Any, out: Any, step: int
    ) -> None:
        number, (mean,) = parameter.dtype.type, slots
        mean[:] = mean * number(self.keeps) + gradient * number(1 - self.keeps)
        np.subtract(parameter, mean * number(self.rate), out=out)


class Scene(NamedTuple):
    """What a training is given."""

    model: ModuleType
    step: Callable[..., Any]
    more: dict[str, Any]
    may_be_asynchronous: bool
    topologies: tuple[str, ...] = TOPOLOGIES


def scene(number: int) -> Scene:
    """Return what the training of a number is given beside its cluster."""
    dice = np.random.default_rng([number, 1])
    model: ModuleType = toy
    kind, more = int(dice.integers(8)), dict[str, Any]()
    if kind == 0:
        model, more = compressed, {"compress": dice.choice(np.array(COMPRESSORS, "O"))}
    elif kind == 1:
        outer = (None, kit.Momentum(0.1))[int(dice.integers(2))]
        more = {"local_steps": int(dice.integers(1, 5)), "outer": outer}
    elif kind == 2:
        more = {"optimizer": (Scaled(0.002), Averaged(0.002, 0.9))[number % 2]}
    elif kind == 3:
        more = {"accumulate": int(dice.integers(1, 4))}
    elif kind == 4:
        more = {"aggregate": int(dice.integers(1, 3))}
    with_chance = dice.random() < 0.5
    step = _noisy(model) if with_chance else model.fit
    topologies = (*TOPOLOGIES, "gossip") if kind == 1 else TOPOLOGIES
    return Scene(model, step, more, kind not in (0, 1, 4), topologies)


def _noisy(model: ModuleType) -> Callable[..., Any]:
    def with_chance(
        params: Mapping[str, Any], batch: Any, rng: np.random.Generator, state: Any
    ) -> Any:
        """Do what `fit` does, with noise and a running mean in it."""
        loss, result = model.fit(dict(params), batch)
        state["mean"] = 0.9 * state.get("mean", 0.0) + 0.1 * loss
        noise = rng.standard_normal(result["w"].shape).astype(np.float32)
        result["w"] = result["w"] + noise * np.float32(0.01 * state["mean"])
        return loss, result

    return with_chance


def record(number: int, folder: Path) -> tuple[kit.Run, Scene]:
    """Record the training that a number makes; return it, and what it was given."""
    dice, inputs = np.random.default_rng(number), scene(number)
    n_ps, n_workers = int(dice.integers(1, 3)), int(dice.integers(1, 4))
    steps = int(dice.integers(30, 150))
    with quick_cluster(
        n_ps, n_workers, bucket_bytes=int(dice.choice([0, 16]))
    ) as cluster:
        run = _begin(dice, cluster, steps, inputs, folder)
        for _ in range(int(dice.integers(0, 5))):
            _change(dice, run, steps, inputs.topologies)
        with suppress(FailedPreconditionError):  # it may be over already
            run.resume()
        run.wait(60)
        assert run.params
    return run, inputs


def _begin(
    dice: np.random.Generator,
    cluster: LocalCluster,
    steps: int,
    scene: Scene,
    folder: Path,
) -> kit.Run:
    synchronous = bool(dice.random() < 0.7) or not scene.may_be_asynchronous
    saves = kit.Checkpoints(str(folder / "saved")) if dice.random() < 0.4 else None
    folder.mkdir(exist_ok=True)
    how: dict[str, Any] = {
        "optimizer": OPTIMIZERS[int(dice.integers(len(OPTIMIZERS)))],
        "topology": str(dice.choice(scene.topologies)) if synchronous else "ps",
    }
    how |= scene.more
    if "aggregate" in how:
        n_workers = sum(task.job == "worker" for task in cluster.tasks)
        how |= {"aggregate": min(how["aggregate"], n_workers), "topology": "ps"}
    seed = int(dice.integers(5))
    wanted = kit.Recording(
        folder / "run",
        state_every_s=float(dice.choice([0.02, 0.1])),
        digest_every=int(dice.choice([1, 5])),
    )
    how |= {"model": scene.model, "step": scene.step, "sync": synchronous}
    return begin(cluster, wanted, steps=steps, seed=seed, checkpoint=saves, **how)


def _change(
    dice: np.random.Generator, run: kit.Run, steps: int, topologies: tuple[str, ...]
) -> None:
    """Ask for something; what comes too late, or does not go together, is refused."""
    at = int(dice.integers(steps))
    with suppress(FailedPreconditionError, InvalidArgumentError):
        match int(dice.integers(6)):
            case 0:
                run.switch(str(dice.choice(topologies)), at=at)
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
        run, values = record(number, folder)
        inputs = {"step": values.step, "data": values.model.DATA, "trust_step": True}
        try:
            result = kit.replay(folder / "run", **inputs)
        except KitError as error:
            return f"{number}: {type(error).__name__}: {error.message}"
        if not same_bits(result.params, run.params):
            return f"{number}: the replay has other parameters"
        later = kit.replay(folder / "run", run.step, **inputs)
        if not same_bits(later.params, run.params):
            return f"{number}: the replay from a later state has other parameters"
    return ""


if __name__ == "__main__":
    try_numbers(check, "trainings were replayed bit for bit")
