"""Steps a second of data-parallel training on one host, against peers and none at all.

    python -m benchmarks.training [--quick] [--json FILE] [--python PATH]...

Two and three workers with 64 examples each a step, one BLAS thread a process; every
task is a bare process with a real server. The peers are PyTorch's DDP, and TensorFlow
with one parameter server. All begin with the same parameters and take the same examples
in the same order. How to read the table: see README.md beside this file; what is hidden
behind the computation on slow links: `overlap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.peers import TRAINERS, Peer, find_peers
from benchmarks.problem import NAMES, load, replay, stored
from benchmarks.rank_group import RankGroup, RanksFailed, rank_group
from benchmarks.results import Table, arguments, median, ratio, report
from benchmarks.tasks import RANK, Outcome, Training, alone, outcome, tasks
from benchmarks.tasks import train as train

OURS = {
    "ring": Training("ring"),
    "ring, written": Training("ring", writes=True),
    "mesh, written": Training("mesh", writes=True),
    "ps": Training("ps"),
    "ps, 2 servers": Training("ps", n_ps=2),
    "ps-async": Training("ps", synchronous=False),
}
DDP, TF_SYNC, TF_ASYNC = "ddp", "tf ps sync", "tf ps async"
SYSTEMS = ("no exchange", *OURS, DDP, TF_SYNC, TF_ASYNC)
WITHOUT_COMMON_STEP = ("no exchange", "ps-async", TF_SYNC, TF_ASYNC)
_RATIOS = (
    *(("ring", "no exchange"), ("ring, written", "no exchange")),
    *(("mesh, written", "no exchange"), ("ps", "no exchange")),
    *(("ring", DDP), ("ring, written", DDP), ("mesh, written", DDP), ("ps", DDP)),
    *(("ring", TF_SYNC), ("ring, written", TF_SYNC), ("mesh, written", TF_SYNC)),
    *(("ps", TF_SYNC), ("ps-async", TF_ASYNC)),
)
_STEPS = {"small": 300, "large": 12, "text": 30}
_ROUNDS = 9
# In short: a step of the small model is soon disturbed, so more and shorter turns.
_QUICK_STEPS, _QUICK_ROUNDS = {**_STEPS, "small": 120}, {"small": 4}
_WARM_UP = 50
_REPLAYED = 5  # steps that are compared with numpy alone
_CLOSE = 1e-3  # float32, summed in another order


def compare(
    name: str, steps: int, rounds: int, peers: dict[str, Peer], n_workers: int = 2
) -> dict[str, list[float]]:
    """Return the rates of all rounds by system; the systems' turns alternate.

    Raises `RanksFailed` when a system computes something else than numpy alone.
    """
    results: dict[str, list[float]] = {}
    with ExitStack() as stack:
        problem = stack.enter_context(stored(name))
        wanted = replay(load(problem), min(steps, _REPLAYED), n_workers)
        ours = stack.enter_context(tasks(n_ps=2, n_workers=n_workers))
        theirs = {
            name: stack.enter_context(_START[name](peer.python, n_workers))
            for name, peer in peers.items()
        }
        for turn in range(rounds + 1):
            enough = steps if turn else min(steps, _WARM_UP)  # the first one warms up
            outcomes = _turn(ours, theirs, problem, enough, n_workers)
            check(outcomes, wanted)
            for system, result in outcomes.items():
                if turn:
                    results.setdefault(system, []).append(result.rate)
    return results


def _turn(
    ours: RankGroup,
    theirs: dict[str, RankGroup],
    problem: Path,
    steps: int,
    n_workers: int,
) -> dict[str, Outcome]:
    path = str(problem)
    result = {"no exchange": alone(ours, problem, steps, n_workers)}
    for name, how in OURS.items():
        result[name] = train(ours, how, problem, steps, n_workers)
    if "gloo" in theirs:
        times = theirs["gloo"].order(do="train", path=path, steps=steps)
        result[DDP] = outcome(times, synchronous=True)
    if "tensorflow" in theirs:
        for name, synchronous in ((TF_SYNC, True), (TF_ASYNC, False)):
            on = theirs["tensorflow"]
            on.order(do="build", path=path, synchronous=synchronous, n_ps=1)
            on.order(do="join")
            result[name] = outcome(on.order(do="train", steps=steps)[1:], synchronous)
            on.order(do="end")
    return result


def _ddp(python: str, n_workers: int) -> AbstractContextManager[RankGroup]:
    return rank_group("ddp", RANK, n_workers, "ddp", python=python)


@contextmanager
def _tensorflow(python: str, n_workers: int) -> Iterator[RankGroup]:
    """Give a parameter server and the workers, with servers that know each other."""
    module = "benchmarks.tensorflow_rank"
    with rank_group("tensorflow", module, 1 + n_workers, "1", python=python) as started:
        started.order(do="listen", ports=started.order(do="find_port"))
        yield started


_START: dict[str, Callable[[str, int], AbstractContextManager[RankGroup]]]
_START = {"gloo": _ddp, "tensorflow": _tensorflow}


def check(outcomes: dict[str, Outcome], wanted: list[list[float]]) -> None:
    """Compare with the losses of numpy alone: of each worker, of the first steps."""
    for name, (_, losses) in outcomes.items():
        every = [loss for item in losses for loss in item]
        if not every or not all(map(math.isfinite, every)):
            raise RanksFailed(f"{name} computes no losses: {losses}")
        if name in WITHOUT_COMMON_STEP:
            # Which parameters a step sees is a matter of chance, but somebody is first.
            if name != "no exchange" and not _begins_like(losses, wanted):
                raise RanksFailed(
                    f"{name} begins with other losses: {losses}, {wanted}"
                )
            # Of an asynchronous one a worker's few examples say too little.
            if name == TF_SYNC and not _falls(losses):
                raise RanksFailed(f"{name} does not learn: losses {losses}")
            continue
        if name in OURS and losses != outcomes["ring"].losses:
            raise RanksFailed(
                f"ring and {name} did not give the same losses, bit for bit."
            )
        first = [loss[: len(wanted[0])] for loss in losses]
        if not np.allclose(first, wanted, rtol=_CLOSE):
            raise RanksFailed(f"{name} and numpy lose differently: {first}, {wanted}")


def _falls(losses: list[list[float]]) -> bool:
    """Tell whether the workers' mean loss is lower in the second half of the steps.

    >>> _falls([[3.0, 1.0], [1.0, 2.0]]), _falls([[1.0, 1.0]])
    (True, False)
    """
    steps: list[float] = [sum(step) for step in zip(*losses, strict=True)]
    half = len(steps) // 2
    return sum(steps[-half:]) < sum(steps[:half])


def _begins_like(losses: list[list[float]], wanted: list[list[float]]) -> bool:
    return any(
        bool(np.isclose(ours[0], theirs[0], rtol=_CLOSE))
        for ours, theirs in zip(losses, wanted, strict=True)
    )


def row(name: str, n_workers: int, results: dict[str, list[float]]) -> tuple[str, ...]:
    of = {system: median(rates) for system, rates in results.items()}
    rates = [f"{of[s]:.1f}" if s in of else "missing" for s in SYSTEMS]
    nothing = float("nan")
    ratios = [ratio(of[a], of.get(b, nothing)) for a, b in _RATIOS]
    return (name, str(n_workers), *rates, *ratios)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--models", nargs="+", default=[*NAMES], metavar="NAME")
    parser.add_argument("--workers", nargs="+", type=int, metavar="N")
    parser.add_argument("--steps", type=int, help="steps of each training")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    quick = options.quick
    usual_steps = _QUICK_STEPS if quick else _STEPS
    usual_rounds = _QUICK_ROUNDS if quick else {}
    workers = options.workers or ([2] if quick else [2, 3])
    peers = find_peers(options.python, TRAINERS)
    result = {
        f"{name}, {n}": compare(
            name,
            options.steps or usual_steps.get(name, 100),
            options.rounds or usual_rounds.get(name, 2 if quick else _ROUNDS),
            peers,
            n,
        )
        for n in workers
        for name in options.models
    }
    versions = ", ".join(f"{peer.name} {peer.version}" for peer in peers.values())
    table = Table(
        "Training, median steps a second",
        (
            "small is 784-256-128-10, large 784-2048-2048-10, text the demo's model; "
            "batch 64 a worker. The asynchronous ones count the updates of all "
            "workers. written: the step writes its gradients into the memory that is "
            "exchanged. no exchange: each worker trains by itself.",
            f"Peers found: {versions or 'none'} (gloo: PyTorch's ddp).",
        ),
        ("model", "workers", *SYSTEMS, *(f"{a} / {b}" for a, b in _RATIOS)),
        tuple(
            row(name, n, result[f"{name}, {n}"])
            for n in workers
            for name in options.models
        ),
    )
    report(table, {"steps_per_second": result}, options.json)


if __name__ == "__main__":
    main()
