"""Exchanges with the gradients of all workers at hand: medians, votes, one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kit
from kit.exchange import Compressor, Turn
from kit.exchange.topologies.topology import registered
from kit.testing import check_compressor
from tests.cases import for_each
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    begin,
    fit,
    gradients,
    initial,
    quick_cluster,
)

N, STEPS, RATE = 5, 4, 0.05
TOPOLOGIES = [topology for topology in registered() if topology.agrees]
Reduce = Callable[[list[np.ndarray[Any, Any]]], np.ndarray[Any, Any]]


class Smallest(kit.Gathered):
    """A reduction of one's own: of each element the one nearest to zero."""

    def reduce(self, gradients: Any) -> Any:
        return {name: timid([*rows]) for name, rows in gradients.items()}


def timid(rows: list[Any]) -> Any:
    stack = np.stack(rows)
    return np.take_along_axis(stack, np.abs(stack).argmin(0)[None], 0)[0]


def middle(rows: list[Any]) -> Any:
    return np.sort(np.stack(rows), axis=0)[len(rows) // 2]


def without_ends(rows: list[Any]) -> Any:
    inner = np.sort(np.stack(rows), axis=0)[1:-1]
    return sum(inner[1:], start=inner[0]) / inner.dtype.type(len(inner))


def vote(rows: list[Any]) -> Any:
    return np.sign(sum(np.sign(row) for row in rows)).astype(rows[0].dtype)


def faulty(params: Params, batch: Any) -> Any:
    """Compute the gradients, and make those of some mini-batches huge."""
    loss, own = fit(params, batch)
    if batch[1][0] > 2:
        own = {name: value * value.dtype.type(-1000) for name, value in own.items()}
    return loss, own


def replayed(reduce: Callable[[list[Params]], Params]) -> Params:
    params = initial()
    for step in range(STEPS):
        rows = gradients(params, step, N, function=faulty)
        mean = reduce(rows)
        params = {k: v - v.dtype.type(RATE) * mean[k] for k, v in params.items()}
    return params


def each(reduce: Reduce) -> Callable[[list[Params]], Params]:
    return lambda rows: {name: reduce([row[name] for row in rows]) for name in rows[0]}


def nearest(rows: list[Params]) -> Params:
    """Return Krum's choice with one faulty worker, by the paper."""
    flat = [np.concatenate([v.ravel() for v in row.values()]) for row in rows]
    scores = [
        sum(
            sorted(float(((row - other) ** 2).sum()) for other in flat)[: N - 1 - 2 + 1]
        )
        for row in flat
    ]
    return rows[int(np.argmin(scores))]


REDUCTIONS: list[tuple[Compressor, Callable[[list[Params]], Params]]] = [
    (kit.Median(), each(middle)),
    (kit.TrimmedMean(1), each(without_ends)),
    (kit.Krum(1), nearest),
    (kit.MajorityVote(), each(vote)),
    (Smallest(), each(timid)),
]


@pytest.mark.slow
@for_each(
    ("topology", "compress", "reduce"),
    [
        (topology, *REDUCTIONS[(number + more) % len(REDUCTIONS)])
        for number, topology in enumerate(TOPOLOGIES)
        for more in (0, 2)
    ],
)
def test_parameters_are_those_of_the_reduction_of_all_gradients_in_numpy(
    topology: Any, compress: Compressor, reduce: Callable[[list[Params]], Params]
) -> None:
    with quick_cluster(int(topology.needs_ps), N) as cluster:
        run = kit.train(
            *(faulty, initial(), DATA),
            compress=compress,
            optimizer=kit.GradientDescent(RATE),
            topology=topology.name,
            steps=STEPS,
            batch=10,
            cluster=cluster,
        ).wait(60)
        traffic = [str(row) for row in run.traffic]

    for name, wanted in replayed(reduce).items():
        np.testing.assert_allclose(run.params[name], wanted, rtol=1e-6, atol=1e-7)
    assert all("as by formula" in row for row in traffic)


@for_each(
    "compress",
    [
        *(kit.Median(), kit.TrimmedMean(0), kit.MajorityVote(), Smallest()),
        *(kit.ClipByNorm(0.5), kit.LossScale(1024.0)),
        kit.LossScale(8.0, growth_interval=2, dtype="float32"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_compressors_keep_their_contract(compress: Compressor) -> None:
    check_compressor(compress)


def test_krum_keeps_the_contract_of_compressors() -> None:
    check_compressor(kit.Krum(0), workers=(3, 5))


@for_each("fault", [np.nan, np.inf, -np.inf])
@for_each("robust", [kit.Median(), kit.TrimmedMean(1), kit.Krum(1), kit.MajorityVote()])
@pytest.mark.filterwarnings("error")
def test_a_worker_that_sends_no_numbers_does_not_decide(
    robust: Compressor, fault: float
) -> None:
    honest = np.array([[1.0, -2.0], [1.1, -2.1], [1.3, -2.2], [1.2, -2.3]], "f4")
    rows = np.insert(honest, 2, fault, axis=0)

    if isinstance(robust, kit.Gathered):
        result = robust.reduce({"w": rows})["w"]
    else:
        sent = [
            next(robust.exchange({"w": row}, {}, Turn(0, 0, N)))["w"] for row in rows
        ]
        result = np.sign(sum(sent))

    assert 1 <= result[0] <= 1.31
    assert -2.31 <= result[1] <= -1


@pytest.mark.parametrize(("topology", "n_ps"), [("ring", 0), ("ps", 1)])
@pytest.mark.parametrize("norm", [0.5, 1e6])
def test_the_mean_over_all_workers_is_clipped(
    topology: str, n_ps: int, norm: float
) -> None:
    def alone(params: Any, step: int) -> Any:
        _, result = fit(params, tuple(part[:BATCH] for part in DATA))
        return result

    with quick_cluster(n_ps, 2) as cluster:
        whole = tuple(part[:BATCH] for part in DATA)
        run = begin(
            cluster,
            fit,
            data=lambda: iter([whole]),
            compress=kit.ClipByNorm(norm),
            optimizer=kit.GradientDescent(0.1),
            topology=topology,
            steps=3,
        ).wait(20)

    params = initial()
    for step in range(3):
        mean = alone(params, step)
        length = np.sqrt(
            sum(float((value.astype(float) ** 2).sum()) for value in mean.values())
        )
        factor = min(1.0, norm / length)
        params = {name: params[name] - 0.1 * factor * mean[name] for name in params}
    assert norm > 1 or factor < 1
    for name, wanted in params.items():
        np.testing.assert_allclose(run.params[name], wanted, rtol=2e-6, atol=1e-6)
