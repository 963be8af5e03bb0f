"""Steps a second of data-parallel training on one host, against DDP and no exchange.

    python -m benchmarks.training [--quick] [--json FILE] [--python PATH]...

Two workers with 64 examples each a step, one BLAS thread a process; every task is a
bare process with a real server. How to read the table: see README.md beside this file.
"""

from __future__ import annotations

import math
from contextlib import ExitStack

from benchmarks import mlp
from benchmarks.conductor import Crew, CrewFailed, crew
from benchmarks.peers import Peer, find_peers
from benchmarks.results import Table, arguments, median, ratio, report
from benchmarks.tasks import N_WORKERS, RANK, Outcome, Training, alone, rate, tasks
from benchmarks.tasks import train as train

OURS = {
    "ring": Training("ring"),
    "ps": Training("ps"),
    "ps-async": Training("ps", synchronous=False),
}
SYSTEMS = ("no exchange", *OURS, "ddp")
_STEPS = {"small": 300, "large": 12}


def compare(
    model: tuple[int, ...], steps: int, rounds: int, peer: Peer | None
) -> dict[str, list[float]]:
    """Return the rates of all rounds by system; the systems' turns alternate."""
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        ours = stack.enter_context(tasks())
        theirs: Crew | None = None
        if peer is not None:
            start = crew("ddp", RANK, N_WORKERS, "ddp", python=peer.python)
            theirs = stack.enter_context(start)
        for turn in range(rounds + 1):
            outcomes = _turn(ours, theirs, model, steps)
            _check(outcomes)
            for name, outcome in outcomes.items():
                if turn:  # the first one warms up
                    found.setdefault(name, []).append(outcome.rate)
    return found


def _turn(
    ours: Crew, theirs: Crew | None, model: tuple[int, ...], steps: int
) -> dict[str, Outcome]:
    found = {"no exchange": alone(ours, model, steps)}
    for name, how in OURS.items():
        found[name] = train(ours, how, model, steps)
    if theirs is not None:
        times = theirs.order(do="train", model=model, steps=steps)
        losses = [one["losses"] for one in times]
        found["ddp"] = Outcome(_slowest(times), losses)
    return found


def _slowest(times: list[dict[str, list[int]]]) -> float:
    return min(rate(one["ends"]) for one in times)


def _check(outcomes: dict[str, Outcome]) -> None:
    if outcomes["ring"].losses != outcomes["ps"].losses:
        raise CrewFailed("ring and ps did not give the same losses, bit for bit.")
    for name, outcome in outcomes.items():
        every = [loss for losses in outcome.losses for loss in losses]
        if not every or not all(map(math.isfinite, every)):
            raise CrewFailed(f"{name} computes no losses: {outcome.losses}")
        # Without a common step, a worker's few examples say too little of the course.
        if name != "ps-async" and not _falls(outcome.losses):
            raise CrewFailed(f"{name} does not learn: losses {outcome.losses}")


def _falls(losses: list[list[float]]) -> bool:
    """Tell whether the workers' mean loss is lower in the second half of the steps.

    >>> _falls([[3.0, 1.0], [1.0, 2.0]]), _falls([[1.0, 1.0]])
    (True, False)
    """
    steps: list[float] = [sum(step) for step in zip(*losses, strict=True)]
    half = len(steps) // 2
    return sum(steps[-half:]) < sum(steps[:half])


def _row(name: str, found: dict[str, list[float]]) -> tuple[str, ...]:
    of = {system: median(rates) for system, rates in found.items()}
    free, ddp = of["no exchange"], of.get("ddp", float("nan"))
    rates = [f"{of[s]:.1f}" if s in of else "missing" for s in SYSTEMS]
    ratios = [ratio(of[how], base) for base in (free, ddp) for how in ("ring", "ps")]
    return (name, *rates, *ratios)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--models", nargs="+", choices=mlp.SIZES, default=[*mlp.SIZES])
    parser.add_argument("--steps", type=int, help="steps of each training")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.quick else 9)
    peer = find_peers(options.python).get("gloo")
    found = {
        name: compare(mlp.SIZES[name], options.steps or _STEPS[name], rounds, peer)
        for name in options.models
    }
    version = f"PyTorch {peer.version}" if peer else "PyTorch is missing"
    table = Table(
        "Training with two workers, median steps a second",
        (
            f"small is {mlp.SIZES['small']}, large {mlp.SIZES['large']}; batch "
            f"{mlp.BATCH} a worker; ddp: {version}, Gloo. ps-async counts the updates "
            f"of both workers. no exchange: each worker trains by itself.",
        ),
        ("model", *SYSTEMS, "ring / none", "ps / none", "ring / ddp", "ps / ddp"),
        tuple(_row(name, rates) for name, rates in found.items()),
    )
    report(table, {"steps_per_second": found}, options.json)


if __name__ == "__main__":
    main()
