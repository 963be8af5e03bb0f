"""How much memory a training takes, and whether it grows with the steps.

    python -m benchmarks.memory [--quick] [--json FILE]

Two workers (and a server for ps) train; every task is a bare process with a real
server, and its news are read ten times a second, as a notebook does. What counts is a
process's proportional share of the machine's memory. The first table is what a worker
takes beyond the same training without any exchange, which holds parameters, gradients
and data; the second one is the resident size along many steps.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import mlp
from benchmarks.problem import load, stored
from benchmarks.rank_group import RankGroup
from benchmarks.results import Table, arguments, median, report
from benchmarks.tasks import Training, alone_memory, begin, memory, tasks

_EVERY_S = 0.1
_MIB = 2**20
OURS = {
    "ring": Training("ring"),
    "ring, written": Training("ring", writes=True),
    "mesh": Training("mesh"),
    "ring-whole": Training("ring-whole"),
    "ps": Training("ps"),
    "ps-async": Training("ps", synchronous=False),
}
_STEPS = {"small": 400, "large": 40}
Sizes = list[list[int]]  # of each look, of each task


def extra(problem: Path, steps: int) -> dict[str, list[float]]:
    """Return what each worker takes beyond a training of its own, in parameter bytes.

    The largest of all looks counts.
    """
    n_bytes = load(problem).n_bytes
    with tasks() as on:  # of its own: what it frees would serve what comes later
        alone = alone_memory(on, problem)
    result = {}
    for name, how in OURS.items():
        with tasks() as on:
            looks = watch(on, how, problem, steps, "pss")
        most = [max(item) for item in zip(*looks, strict=True)][1:]
        result[name] = [(a - b) / n_bytes for a, b in zip(most, alone[1:], strict=True)]
    return result


def growth(problem: Path, steps: int) -> dict[str, Sizes]:
    """Return the resident sizes of all tasks, in bytes, along a training."""
    result = {}
    for name in ("ring", "ps"):
        with tasks() as on:
            result[name] = watch(on, OURS[name], problem, steps, "rss")
    return result


def watch(on: RankGroup, how: Training, problem: Path, steps: int, what: str) -> Sizes:
    """Train, and measure the memory of all tasks until the training is over."""
    begin(on, how, problem, steps)
    looks, over = [], False
    while not over:
        time.sleep(_EVERY_S)
        sizes, over = memory(on, what)
        looks.append(sizes)
    on.order(do="finish")
    return looks


def grown(looks: Sizes) -> list[float]:
    """Return by how much each task's size grew from the first tenth to the last.

    >>> grown([[100, 10]] * 10 + [[101, 20]] * 10)
    [0.01, 1.0]
    """
    tenth = max(1, len(looks) // 10)
    early, late = looks[:tenth], looks[-tenth:]
    pairs = zip(zip(*early, strict=True), zip(*late, strict=True), strict=True)
    return [median(list(last)) / median(list(first)) - 1 for first, last in pairs]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, help="steps of the long training")
    parser.add_argument("--models", nargs="+", choices=mlp.SIZES)
    options = parser.parse_args()
    models = options.models or (["large"] if options.quick else [*mlp.SIZES])
    steps = options.steps or (2_000 if options.quick else 10_000)
    beyond = {}
    for name in models:
        with stored(name) as problem:
            beyond[name] = extra(problem, _STEPS[name])
    with stored("small") as problem:
        along = growth(problem, steps)
    rows = [
        (f"{system}, {model}", f"{max(of[system]):.2f}", "", "")
        for model, of in beyond.items()
        for system in OURS
    ]
    for system, looks in along.items():
        size = f"{max(looks[-1]) / _MIB:.0f}"
        rows.append((f"{system}, long", "", size, f"{100 * max(grown(looks)):.1f} %"))
    table = Table(
        "Memory of a training with two workers",
        (
            "beyond: what the worker with the most takes beyond a training without "
            "exchange (its parameters, gradients and data), in bytes of the "
            f"parameters. grown: the resident size of the task that grows most, from "
            f"the first tenth of {steps} steps of the small model to the last.",
        ),
        ("training", "beyond", "resident MiB", "grown"),
        tuple(rows),
    )
    report(table, {"beyond": beyond, "along": along}, options.json)


if __name__ == "__main__":
    main()
