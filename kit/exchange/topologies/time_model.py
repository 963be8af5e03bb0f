"""How long a step's exchange takes: a cost model of the topologies, and its fit.

Pure arithmetic: no clock, no sockets; the caller gives the times.

Hockney's model of a message (latency, then bytes) with the computing beside it:

    seconds = base + alpha * messages + beta * moved + gamma * worked + delta * spilled

`base` is how long a step takes that exchanges nothing; `alpha` the latency of a message
in seconds; `beta` the seconds per byte that one task takes from another (one over the
bandwidth); `gamma` the seconds per byte that is added or updated, and `delta` those in
addition for a byte that has left the cache meanwhile: all but as many as a core's cache
holds. How many messages there are, and how many bytes are moved and worked on, each
topology says itself (`Topology.loads`): n workers with S bytes in b buckets make
2(n-1)b messages on a ring, move 2(n-1)/n S and work on S.

These quantities are those of what happens one after the other on the way to the end of
a step. Tasks that share `cores` processors take turns as well, so no quantity can be
less than that of all tasks together divided by the number of cores.

Each topology has its own rates, and others if tasks share cores. While every task has a
core, a wait is a read of memory, and what was read stays in the cache. If they share
cores, a wait is a switch of processes, and the next one finds the cache full of other
data. A server that shares cores with workers that have one each is a case in between:
it sleeps while they compute.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kit.errors import InvalidArgumentError
from kit.exchange.layout import CHUNK_BYTES
from kit.exchange.topologies.counting import ExchangeCost
from kit.exchange.topologies.topology import by_name

Floats = npt.NDArray[np.float64]
CACHE_BYTES = 2 << 20  # a usual size of what a core has to itself


class Case(NamedTuple):
    """An exchange: who takes part, and how many bytes in how many buckets."""

    topology: str
    n_workers: int
    n_bytes: int
    n_ps: int = 0
    n_buckets: int = 0  # 0: as many as a layout makes by itself

    @property
    def n_tasks(self) -> int:
        """The number of processes that take part."""
        has_servers = by_name(self.topology).needs_ps
        return self.n_workers + (self.n_ps if has_servers else 0)

    @property
    def buckets(self) -> int:
        """The number of buckets.

        >>> Case("ring", 2, 5 << 20).buckets
        5
        """
        wanted = CHUNK_BYTES * self.n_workers
        return self.n_buckets or max(1, -(-self.n_bytes // wanted))


class Load(NamedTuple):
    """An `ExchangeCost`, and how many of the bytes worked on are not in the cache."""

    messages: float
    moved: float
    worked: float
    spilled: float


class Point(NamedTuple):
    """A measurement: what was exchanged, and the seconds it took."""

    case: Case
    seconds: float


class Rates(NamedTuple):
    """Prices in seconds: of a step, a message, a byte moved, worked on, spilled."""

    base: float
    alpha: float
    beta: float
    gamma: float
    delta: float = 0.0


def load(case: Case, cores: int, cache_bytes: int = CACHE_BYTES) -> Load:
    """Return what a step costs in messages and bytes, where tasks share `cores`.

    Raises `InvalidArgumentError` for an unknown topology, and for numbers of workers,
    servers or cores that cannot be.

    >>> load(Case("ring", n_workers=4, n_bytes=4000), cores=4)
    Load(messages=6, moved=6000.0, worked=4000, spilled=0.0)
    >>> load(Case("ring", n_workers=4, n_bytes=4000), cores=2)
    Load(messages=12.0, moved=12000.0, worked=8000.0, spilled=0.0)
    """
    topology = by_name(case.topology)
    if min(case.n_workers, cores) < 1 or (topology.needs_ps and case.n_ps < 1):
        server = f", and topology {case.topology!r} a server" * topology.needs_ps
        raise InvalidArgumentError(
            f"{case} on {cores} cores cannot be: a step needs one worker and one core "
            f"at least{server}."
        )
    numbers = case.n_workers, case.n_ps, case.n_bytes, case.buckets
    way, whole = topology.loads(*numbers)
    work = ExchangeCost(*(max(a, b / cores) for a, b in zip(way, whole, strict=True)))
    return Load(*work, work.worked * spilled(case.n_bytes, cache_bytes))


def spilled(n_bytes: int, cache_bytes: int = CACHE_BYTES) -> float:
    """Return which share of the bytes worked on has left the cache meanwhile.

    >>> spilled(8 << 20, cache_bytes=2 << 20)
    0.75
    """
    return max(0, n_bytes - cache_bytes) / max(1, n_bytes)


class Sharing(StrEnum):
    """Which tasks share cores; NONE if each has one."""

    NONE = "none"
    SERVERS = "servers"
    WORKERS = "workers"


Regime = tuple[str, Sharing]  # the topology, and who shares cores


@dataclass(frozen=True)
class CostModel:
    """Predicts the time of an exchange; made by `fit`, or from known rates."""

    rates: dict[Regime, Rates]
    cores: int
    cache_bytes: int = CACHE_BYTES

    def regime(self, case: Case) -> Regime:
        """Return the key of a case's rates.

        >>> CostModel({}, cores=2).regime(Case("mesh", n_workers=3, n_bytes=8))
        ('mesh', <Sharing.WORKERS: 'workers'>)
        """
        if case.n_workers > self.cores:
            return case.topology, Sharing.WORKERS
        shares = case.n_tasks > self.cores
        return case.topology, Sharing.SERVERS if shares else Sharing.NONE

    def predict(self, case: Case) -> float:
        """Return the seconds that the exchange of a step takes.

        Raises `InvalidArgumentError` if no rates are known for such a case.

        >>> alone = {("ring", Sharing.NONE): Rates(1e-5, 2e-5, 1e-10, 1e-10)}
        >>> round(CostModel(alone, cores=2).predict(Case("ring", 2, 1_000_000)) * 1e6)
        250
        """
        row = (1.0, *load(case, self.cores, self.cache_bytes))
        rates = self.rates.get(self.regime(case))
        if rates is None:
            raise InvalidArgumentError(
                f"the model knows no rates of topology {case.topology!r} with "
                f"{case.n_workers} workers among {case.n_tasks} tasks on {self.cores} "
                f"cores; give `fit` points where as many share cores."
            )
        return float(np.dot(row, rates))

    def error(self, points: Iterable[Point]) -> float:
        """Return the median of |predicted - measured| / measured; NaN of no points."""
        errors = [abs(self.predict(p.case) - p.seconds) / p.seconds for p in points]
        return float(np.median(errors)) if errors else float("nan")


def fit(
    points: Iterable[Point], cores: int, cache_bytes: int = CACHE_BYTES
) -> CostModel:
    """Return the model with the least squares of relative errors.

    Rates are never negative. Each topology is fitted separately, as is each way of
    sharing cores, so each needs points of several numbers of workers and sizes. Rates
    that the points cannot tell apart are among those that explain them. Raises
    `InvalidArgumentError` if there are no points, or for a time that is not positive.

    >>> own = ("mesh", Sharing.NONE)
    >>> model = CostModel({own: Rates(0.0, 3e-5, 2e-10, 1e-10)}, cores=8)
    >>> cases = [Case("mesh", n, 4**k) for n in (1, 2, 4) for k in range(5, 13)]
    >>> fitted = fit([Point(case, model.predict(case)) for case in cases], cores=8)
    >>> round(fitted.rates[own].alpha * 1e6, 3)
    30.0
    """
    model = CostModel({}, cores, cache_bytes)
    by_regime: dict[Regime, list[Point]] = {}
    for point in points:
        if not point.seconds > 0:
            raise InvalidArgumentError(
                f"{point.case} is said to take {point.seconds} s; a time is above 0."
            )
        by_regime.setdefault(model.regime(point.case), []).append(point)
    if not by_regime:
        raise InvalidArgumentError("fit got no points; measure some exchanges first.")
    rates = {}
    for regime, own in by_regime.items():
        loads = np.array([(1.0, *load(p.case, cores, cache_bytes)) for p in own])
        seconds = np.array([point.seconds for point in own])
        # Rows divided by their seconds, to be fitted to 1: so errors are relative, and
        # a long exchange does not outweigh all short ones.
        rates[regime] = Rates(*_not_negative(loads / seconds[:, None]).tolist())
    return CostModel(rates, cores, cache_bytes)


def _not_negative(rows: Floats) -> Floats:
    """Return x >= 0 with the least |rows @ x - 1|, by trying all sets of columns.

    Where the best x is not zero, it is the plain solution for these columns alone. So
    with five columns, 31 plain solutions decide, and there is no iteration to converge.
    """
    # Columns of length 1: a step has millions of bytes and a few messages, and the
    # small column would be lost to rounding.
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0
    columns = range(rows.shape[1])
    sets = chain.from_iterable(combinations(columns, k + 1) for k in columns)
    best, least = np.zeros(len(columns)), float("inf")
    for chosen in map(list, sets):
        some = rows[:, chosen] / scale[chosen]
        solution: Any = np.linalg.lstsq(some, np.ones(len(rows)), rcond=None)[0]
        off = float(np.linalg.norm(some @ solution - 1))
        if solution.min() >= 0 and off < least:
            best, least = np.zeros(len(columns)), off
            best[chosen] = solution / scale[chosen]
    return best
