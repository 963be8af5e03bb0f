"""How an exchange grows with tasks and bytes, and how well a cost model predicts it.

    python -m benchmarks.scaling [--quick] [--json FILE] [--workers N]... [--sizes S]...

Every task goes through the steps of a training, in a separate process; its gradient
is ready, so what is measured is handing over, exchange and update. The time of an
exchange goes from the last worker's arrival to the last worker's finish. Bytes and
messages are the meters', and a step that moves others than its formula ends this. The
model (`kit.exchange.topologies.time_model`) is fitted to one half of the points and
judged by the other one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from itertools import groupby
from statistics import quantiles
from typing import Any, NamedTuple

import psutil

from benchmarks.rank_group import RankGroup, RanksFailed, rank_group
from benchmarks.results import Table, arguments, median, report, size_text
from benchmarks.scaling_rank import job
from kit.exchange.topologies.time_model import (
    Case,
    CostModel,
    Point,
    Rates,
    Regime,
    Sharing,
    fit,
)
from kit.exchange.topologies.topology import by_name, per_member

RANK = "benchmarks.scaling_rank"
BETWEEN_WORKERS = ("ring", "mesh", "ring-whole")
_WORKERS, _QUICK_WORKERS = (1, 2, 3, 4, 6, 8, 12, 16), (1, 2, 3, 4)
_SERVERS, _QUICK_SERVERS = (1, 2, 4), (1, 2)
_SIZES = tuple(1 << shift for shift in range(10, 30, 2))
_QUICK_SIZES = _SIZES[:7]
_MOST_STEPS, _LEAST_STEPS, _BUDGET_BYTES = 300, 4, 1 << 28
_WARM_STEPS = 2
# Both regions of a member, the step's own gradient, and one for the rest.
_COPIES, _SHARE_OF_MEMORY = 4, 0.6


class Measured(NamedTuple):
    """One exchange: its case, and what was found of its steps."""

    topology: str
    workers: int
    servers: int
    bytes: int
    buckets: int
    exchange_us: list[float]
    step_us: list[float]
    received: list[int]  # bytes a step, by task
    messages: list[int]  # that carry bytes, a step, by task
    memory: int  # bytes of all tasks together; what they share counts once

    @property
    def point(self) -> Point:
        """The measurement as the cost model takes it: a time that is undisturbed.

        It is the lower quartile. Other work on the machine only adds to a time, and not
        the same to each point, so a median would have the model predict that work too.
        """
        case = Case(self.topology, self.workers, self.bytes, self.servers, self.buckets)
        lower, _, _ = quantiles(self.exchange_us)
        return Point(case, lower * 1e-6)


def measure(
    on: RankGroup,
    topology: str,
    n_ps: int,
    n_bytes: int,
    n_params: int = 1,
    steps: int = 0,
) -> Measured:
    """Train on the group for some steps; `RanksFailed` if they move other bytes."""
    n_workers = on.n_ranks - n_ps
    on.order(do="prepare", topology=topology, n_bytes=n_bytes, n_params=n_params)
    on.order(do="measure", steps=_WARM_STEPS)
    wanted = steps or _steps(n_bytes * on.n_ranks)
    exchange, step = times(on.order(do="measure", steps=wanted)[n_ps:])
    result = on.order(do="account")
    on.order(do="end")
    done = wanted + _WARM_STEPS
    agreed = job(on.n_ranks, n_ps, topology, n_bytes, n_params)
    formula = by_name(topology).traffic(agreed.layout, agreed.group)
    received = [per_member(formula, rank)[1] for rank in range(on.n_ranks)]
    if [row["bytes"] for row in result] != [size * done for size in received]:
        raise RanksFailed(
            f"{topology}, {n_workers} workers, {n_bytes} bytes: {done} steps moved "
            f"{result}, where the formula says {received} a step."
        )
    return Measured(
        topology,
        n_workers,
        n_ps,
        n_bytes,
        len(agreed.layout.buckets),
        exchange,
        step,
        received,
        [row["messages"] // done for row in result],
        sum(row["memory"] for row in result),
    )


def times(workers: list[list[list[int]]]) -> tuple[list[float], list[float]]:
    """Return the microseconds of each exchange, and of each whole step.

    >>> times([[[0, 2000, 5000], [5000, 6000, 9000]], [[0, 1000, 6000]] * 2])
    ([4.0, 3.0], [6.0, 4.0])
    """
    exchange, step = [], []
    for each in zip(*workers, strict=True):
        begun, arrived, ended = (max(moments) for moments in zip(*each, strict=True))
        exchange.append((ended - arrived) / 1000)
        step.append((ended - begun) / 1000)
    return exchange, step


def _steps(n_bytes: int) -> int:
    return min(_MOST_STEPS, max(_LEAST_STEPS, _BUDGET_BYTES // max(1, n_bytes)))


def _needed_bytes(topology: str, n_tasks: int, n_bytes: int) -> int:
    spares = n_tasks if topology == "ring-whole" else 0
    return n_tasks * n_bytes * (_COPIES + spares)


def series(
    n_workers: int, servers: Iterable[int], sizes: Iterable[int]
) -> Iterator[Measured]:
    """Yield what so many workers take for each size, alone and with servers."""
    limit = psutil.virtual_memory().available * _SHARE_OF_MEMORY
    for n_ps in (0, *servers):
        n_tasks = n_workers + n_ps
        with rank_group("scaling", RANK, n_tasks, str(n_ps)) as on:
            for topology in ("ps",) if n_ps else BETWEEN_WORKERS:
                for n_bytes in sizes:
                    if _needed_bytes(topology, n_tasks, n_bytes) <= limit:
                        yield measure(on, topology, n_ps, n_bytes)


def judge(points: list[Point], cores: int) -> tuple[CostModel, dict[str, float]]:
    """Fit a model to one half; return it and its median error on the other, by name."""
    shuffled = sorted(points)
    random.Random(0).shuffle(shuffled)
    half = (len(shuffled) + 1) // 2
    expected, rest = shuffled[:half], shuffled[half:]
    model = fit(expected, cores)
    rest = [p for p in rest if model.regime(p.case) in model.rates]
    names = sorted({p.case.topology for p in rest})
    errors = {n: model.error(p for p in rest if p.case.topology == n) for n in names}
    return model, errors | {"all": model.error(rest)}


def _note(regime: Regime, rates: Rates) -> str:
    name, sharing = regime
    who = "" if sharing is Sharing.NONE else f", {sharing} share cores"
    base, alpha, beta, gamma, delta = rates
    return (
        f"{name}{who}: {base * 1e6:.1f} us + "
        f"{alpha * 1e6:.1f} us a message + {beta * 1e9:.3f} ns a byte moved + "
        f"{gamma * 1e9:.3f} ns a byte worked on + {delta * 1e9:.3f} ns if spilled."
    )


def _table(result: list[Measured], model: CostModel, errors: dict[str, float]) -> Table:
    sizes = sorted({item.bytes for item in result})
    rows = []
    for who, group in groupby(result, key=lambda item: item[:3]):
        of = {item.bytes: f"{median(item.exchange_us):.0f}" for item in group}
        rows.append((*map(str, who), *(of.get(size, "left out") for size in sizes)))
    expected = [_note(*item) for item in sorted(model.rates.items())]
    error = ", ".join(f"{name} {item:.0%}" for name, item in errors.items())
    return Table(
        "Scaling of one exchange, median microseconds",
        (
            "From the last worker's arrival to the last one's finish, update included; "
            "left out: not enough memory.",
            f"Cost model for {model.cores} cores, of lower quartiles, fitted to half "
            f"of the points. Its median errors on the other half: {error}.",
            " ".join(expected),
        ),
        ("topology", "workers", "servers", *map(size_text, sizes)),
        tuple(rows),
    )


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--workers", type=int, nargs="+")
    parser.add_argument("--servers", type=int, nargs="+")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="BYTES")
    options = parser.parse_args()
    quick = options.quick
    workers = options.workers or (_QUICK_WORKERS if quick else _WORKERS)
    servers = options.servers or (_QUICK_SERVERS if quick else _SERVERS)
    sizes = options.sizes or (_QUICK_SIZES if quick else _SIZES)
    result = [item for n in workers for item in series(n, servers, sizes)]
    cores = len(os.sched_getaffinity(0))
    model, errors = judge([item.point for item in result], cores)
    figures: dict[str, Any] = {
        "points": [item._asdict() for item in result],
        "rates": [
            {"topology": name, "sharing": sharing, **rates._asdict()}
            for (name, sharing), rates in sorted(model.rates.items())
        ],
        "cores": cores,
        "error": errors,
    }
    report(_table(result, model, errors), figures, options.json)


if __name__ == "__main__":
    main()
