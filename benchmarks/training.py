"""Steps a second of data-parallel training on one host, against peers and none at all.

    python -m benchmarks.training [--quick] [--json FILE] [--python PATH]...

Two workers with 64 examples each a step, one BLAS thread a process; every task is a
bare process with a real server. The peers are PyTorch's DDP, and TensorFlow with one
parameter server. How to read the table: see README.md beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from benchmarks import mlp
from benchmarks.conductor import Crew, CrewFailed, crew
from benchmarks.peers import TRAINERS, Peer, find_peers
from benchmarks.results import Table, arguments, median, ratio, report
from benchmarks.tasks import N_WORKERS, RANK, Outcome, Training, alone, outcome, tasks
from benchmarks.tasks import train as train

OURS = {
    "ring": Training("ring"),
    "ring, written": Training("ring", writes=True),
    "mesh, written": Training("mesh", writes=True),
    "ps": Training("ps"),
    "ps-async": Training("ps", synchronous=False),
}
DDP, TF_SYNC, TF_ASYNC = "ddp", "tf ps sync", "tf ps async"
THEIRS = (DDP, TF_SYNC, TF_ASYNC)
SYSTEMS = ("no exchange", *OURS, *THEIRS)
WITHOUT_COMMON_STEP = ("ps-async", TF_ASYNC)
_RATIOS = (
    *(("ring", "no exchange"), ("ring, written", "no exchange")),
    *(("ps", "no exchange"), ("ring", DDP), ("ring, written", DDP), ("ps", DDP)),
    *(("ring", TF_SYNC), ("ps", TF_SYNC), ("ps-async", TF_ASYNC)),
)
_STEPS = {"small": 300, "large": 12}


def compare(
    model: tuple[int, ...], steps: int, rounds: int, peers: dict[str, Peer]
) -> dict[str, list[float]]:
    """Return the rates of all rounds by system; the systems' turns alternate."""
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        ours = stack.enter_context(tasks())
        theirs = {
            name: stack.enter_context(_START[name](peer.python))
            for name, peer in peers.items()
        }
        for turn in range(rounds + 1):
            outcomes = _turn(ours, theirs, model, steps)
            _check(outcomes)
            for name, outcome in outcomes.items():
                if turn:  # the first one warms up
                    found.setdefault(name, []).append(outcome.rate)
    return found


def _turn(
    ours: Crew, theirs: dict[str, Crew], model: tuple[int, ...], steps: int
) -> dict[str, Outcome]:
    found = {"no exchange": alone(ours, model, steps)}
    for name, how in OURS.items():
        found[name] = train(ours, how, model, steps)
    if "gloo" in theirs:
        times = theirs["gloo"].order(do="train", model=model, steps=steps)
        found[DDP] = outcome(times, synchronous=True)
    if "tensorflow" in theirs:
        for name, synchronous in ((TF_SYNC, True), (TF_ASYNC, False)):
            on = theirs["tensorflow"]
            on.order(do="build", model=model, synchronous=synchronous)
            on.order(do="join")
            found[name] = outcome(on.order(do="train", steps=steps)[1:], synchronous)
            on.order(do="end")
    return found


def _ddp(python: str) -> AbstractContextManager[Crew]:
    return crew("ddp", RANK, N_WORKERS, "ddp", python=python)


@contextmanager
def _tensorflow(python: str) -> Iterator[Crew]:
    """Give a parameter server and the workers, whose servers know each other."""
    module = "benchmarks.tensorflow_rank"
    with crew("tensorflow", module, 1 + N_WORKERS, python=python) as started:
        started.order(do="listen", ports=started.order(do="find_port"))
        yield started


_START: dict[str, Callable[[str], AbstractContextManager[Crew]]]
_START = {"gloo": _ddp, "tensorflow": _tensorflow}


def _check(outcomes: dict[str, Outcome]) -> None:
    for name in OURS:
        synchronous = name not in WITHOUT_COMMON_STEP and name in outcomes
        if synchronous and outcomes[name].losses != outcomes["ring"].losses:
            raise CrewFailed(
                f"ring and {name} did not give the same losses, bit for bit."
            )
    for name, (_, losses) in outcomes.items():
        every = [loss for one in losses for loss in one]
        if not every or not all(map(math.isfinite, every)):
            raise CrewFailed(f"{name} computes no losses: {losses}")
        # Without a common step, a worker's few examples say too little of the course.
        if name not in WITHOUT_COMMON_STEP and not _falls(losses):
            raise CrewFailed(f"{name} does not learn: losses {losses}")


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
    rates = [f"{of[s]:.1f}" if s in of else "missing" for s in SYSTEMS]
    nothing = float("nan")
    return (name, *rates, *(ratio(of[a], of.get(b, nothing)) for a, b in _RATIOS))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--models", nargs="+", choices=mlp.SIZES, default=[*mlp.SIZES])
    parser.add_argument("--steps", type=int, help="steps of each training")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.quick else 9)
    peers = find_peers(options.python, TRAINERS)
    found = {
        name: compare(mlp.SIZES[name], options.steps or _STEPS[name], rounds, peers)
        for name in options.models
    }
    versions = ", ".join(f"{one.name} {one.version}" for one in peers.values())
    table = Table(
        "Training with two workers, median steps a second",
        (
            f"small is {mlp.SIZES['small']}, large {mlp.SIZES['large']}; batch "
            f"{mlp.BATCH} a worker. The asynchronous ones count the updates of both "
            f"workers. written: the step writes its gradients into the memory that is "
            f"exchanged. no exchange: each worker trains by itself.",
            f"Peers found: {versions or 'none'} (gloo: PyTorch's ddp).",
        ),
        ("model", *SYSTEMS, *(f"{a} / {b}" for a, b in _RATIOS)),
        tuple(_row(name, rates) for name, rates in found.items()),
    )
    report(table, {"steps_per_second": found}, options.json)


if __name__ == "__main__":
    main()
