"""Pairs of recorded trainings with one known difference, which `kit.diff` must name.

    python -m tests.recording.seeded_differences FIRST COUNT

A number makes the pair: one changed element of the data, another seed, one flipped bit
of an initial value, one flipped bit of one gradient, or one changed line of the step
function. Gradients are compressed in some of them. Where it must show first is found
without a replay: from the rows that each worker reads in each step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kit
from tests.recording.toy_training import begin, try_numbers
from tests.training.toy import DATA, Array, X, Y, fit, initial, quick_cluster, rows

STEPS = 40
COMPRESSORS = (None, None, "float16", "int8", kit.TopK(0.25))
KINDS = ("data", "seed", "initial", "gradient", "line")


class Expected(NamedTuple):
    """What must be found."""

    step: int
    task: str
    what: str


class Arguments(NamedTuple):
    """What a training of the pair is given."""

    step: Callable[..., Any]
    params: dict[str, Array]
    data: tuple[Array, Array]
    seed: int


def flipping(step: int, mark: float) -> Callable[..., Any]:
    """Return a step function that flips one bit of one gradient, in one step.

    It is that of the worker whose rows have the `mark`; with step -1 none is.
    """

    def function(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", 0) + 1
        loss, result = fit(params, batch)
        if state["n"] - 1 == step and mark in batch[0][:, 0]:
            # Weighing by the number of examples may round the lowest bits away.
            result["w"].view(np.uint32)[0] ^= np.uint32(8)
        return loss, result

    return function


def with_another_line(params: Any, batch: Any) -> Any:
    """Do what `fit` does, but for one number in one line."""
    x, y = batch
    inner = (x * params["w"]).sum(axis=1)
    error = params["scale"] * inner + params["b"].sum() - y
    slope = 2.0001 * error / len(y)
    return float((error**2).mean()), {
        "w": (slope[:, None] * params["scale"] * x).sum(axis=0).astype(np.float32),
        "none": np.zeros((0, 2), np.float32),
        "b": np.full(2, slope.sum()),
        "scale": np.array((slope * inner).sum()),
    }


def reader_of(row: int, step: int, n_workers: int) -> int | None:
    """Return the worker that reads an example in a step, if one does."""
    for worker, part in enumerate(np.array_split(rows(step), n_workers)):
        if row in part:
            return worker
    return None


def pair(number: int, n_workers: int) -> tuple[Arguments, Arguments, Expected]:
    """Return what two trainings are given, and where they must differ first."""
    dice = np.random.default_rng(number)
    first = second = Arguments(fit, initial(), DATA, 0)
    kind = KINDS[number % len(KINDS)]
    if kind == "data":
        row, x = int(dice.integers(len(X))), X.copy()
        x[row, int(dice.integers(3))] += 1
        second = second._replace(data=(x, Y))
        reads = ((s, reader_of(row, s, n_workers)) for s in range(STEPS))
        step, worker = next((s, w) for s, w in reads if w is not None)
        return first, second, Expected(step, f"worker:{worker}", "gradient")
    if kind == "seed":
        seed = int(dice.integers(1, 100))
        parts = [np.array_split(rows(0, seed=item), n_workers) for item in (0, seed)]
        worker = next(
            w for w, (a, b) in enumerate(zip(*parts, strict=True)) if (a != b).any()
        )
        return (
            first,
            second._replace(seed=seed),
            Expected(0, f"worker:{worker}", "gradient"),
        )
    if kind == "initial":
        params = initial()
        bit = np.uint32(1 << int(dice.integers(20)))
        params["w"].view(np.uint32)[int(dice.integers(3))] ^= bit
        return first, second._replace(params=params), Expected(0, "", "parameters")
    if kind == "gradient":
        step = int(dice.integers(STEPS))
        row = int(dice.choice(rows(step)))
        mark = float(X[row, 0])
        first = first._replace(step=flipping(-1, mark))
        second = second._replace(step=flipping(step, mark))
        worker = reader_of(row, step, n_workers) or 0
        return first, second, Expected(step, f"worker:{worker}", "gradient")
    second = second._replace(step=with_another_line)
    return first, second, Expected(0, "worker:0", "gradient")


def check(number: int) -> str:
    """Record a pair and compare it; return what is wrong, empty if nothing is."""
    dice = np.random.default_rng([number, 1])
    n_workers = int(dice.integers(1, 4))
    first, second, expected = pair(number, n_workers)
    compress = COMPRESSORS[int(dice.integers(len(COMPRESSORS)))]
    with tempfile.TemporaryDirectory(prefix="kit-diff-") as parent:
        folders = [Path(parent) / name for name in ("one", "other")]
        with quick_cluster(1, n_workers) as cluster:
            for folder, options in zip(folders, (first, second), strict=True):
                begin(
                    cluster,
                    kit.Recording(folder, store_data=True, store_step=True),
                    optimizer=kit.Momentum(0.01),
                    topology=str(dice.choice(["ps", "ring", "mesh"])),
                    steps=STEPS,
                    compress=compress,
                    **options._asdict(),
                ).wait(30)
        result = kit.diff(*folders, trust_step=True)
        if result != kit.diff(*folders, trust_step=True):
            return f"{number}: two comparisons say different things"
        if (result.step, result.task, result.what) != expected:
            return f"{number}: {expected} was not found: {result}"
        if not result.facts:
            return f"{number}: what was given is not said to differ: {result}"
        same = kit.diff(folders[0], folders[0], trust_step=True)
        return f"{number}: one is not itself: {same}" if same else ""


if __name__ == "__main__":
    try_numbers(check, "differences were found")
