"""Slow links: a step takes at least what its bytes take at the speed of the lines."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import kit
from kit.trace.trace import Trace
from tests.training.toy import BATCH, DATA, quick_cluster

N_ITEMS = 2500
S = 4 * N_ITEMS  # 10 000 bytes: 10 ms at 8 Mbit/s
BYTES_A_SECOND = 1e6
STEPS = 3


def even(params: Any, batch: Any) -> Any:
    return 0.0, {"w": np.ones(N_ITEMS, np.float32)}


def begin(cluster: Any, **changes: Any) -> kit.Run:
    params = {"w": np.zeros(N_ITEMS, np.float32)}
    options: dict[str, Any] = {
        "steps": STEPS,
        "batch": BATCH,
        "cluster": cluster,
    } | changes
    return kit.train(even, params, DATA, **options)


def shortest_step_s(trace: Trace, epoch: int | None = None) -> float:
    """Return the least time from any member's begin to any member's end of a step."""
    table = trace.steps
    if epoch is not None:
        table = table[table["epoch"] == epoch]
    result = []
    for step in np.unique(table["step"]):
        rows = table[table["step"] == step]
        result.append((int(rows["end"].max()) - int(rows["start"].min())) * 1e-9)
    return min(result)


@pytest.mark.parametrize(
    ("n_ps", "n_workers", "topology", "factor"),
    [
        (0, 2, "ring", 2 * 1 / 2),
        (0, 3, "ring", 2 * 2 / 3),
        (0, 3, "mesh", 2 * 2 / 3),
        # The server takes n gradients in one after the other, and hands out n times.
        (1, 2, "ps", 2 * 2),
        (1, 3, "ps", 2 * 3),
    ],
)
def test_step_takes_the_time_of_its_bytes(
    n_ps: int, n_workers: int, topology: str, factor: float
) -> None:
    with quick_cluster(n_ps, n_workers) as cluster:
        run = begin(cluster, topology=topology, link="8mbit").wait(20)

    needed = factor * S / BYTES_A_SECOND
    assert shortest_step_s(run.trace) >= 0.99 * needed


def test_latency_is_paid_on_each_way() -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, topology="ps", link="10ms").wait(20)

    assert shortest_step_s(run.trace) >= 2 * 0.010


def test_link_is_shaped_over_tcp_too() -> None:
    with quick_cluster(1, 2, transport="tcp", insecure=True) as cluster:
        run = begin(cluster, topology="ps", link="8mbit").wait(20)

    assert shortest_step_s(run.trace) >= 0.99 * 2 * 2 * S / BYTES_A_SECOND


def test_change_of_the_link_is_an_epoch_of_its_own() -> None:
    calls = itertools.count(1)
    expected = threading.Event()

    def step(params: Any, batch: Any) -> Any:
        assert expected.wait(10)
        if next(calls) == 5:  # one of two threads, in any case
            run.link = "8mbit, 1ms"
        return even(params, batch)

    with quick_cluster(0, 2) as cluster:
        run = kit.train(
            step,
            {"w": np.zeros(N_ITEMS, np.float32)},
            lambda: iter([DATA] * 12),
            topology="ring",
            link="100gbit",
            steps=12,
            cluster=cluster,
        )
        expected.set()
        run.wait(20)

    links = [epoch.link for epoch in run.trace.epochs]
    assert links == ["100gbit", "8mbit,1ms"]
    assert run.link == "8mbit,1ms"
    assert run.trace.epochs[1].first_step in range(2, 7)
    assert shortest_step_s(run.trace, 2) >= 0.99 * S / BYTES_A_SECOND
    assert all(entry.agrees for entry in run.traffic)


def test_link_at_full_speed_is_an_empty_text() -> None:
    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, topology="ring", link="none").wait(20)

    assert run.link == ""
