"""The benchmarks of two hosts: their formulas, and a start over ssh that is timed."""

from __future__ import annotations

import pytest

import kit
from benchmarks import hosts
from benchmarks.startup_hosts import SYSTEMS
from kit.exchange.layout import Spec
from kit.task import Task
from kit.trace.log import rows
from kit.trace.trace import Trace
from kit.trace.traffic import STEP
from kit.training.core.job import Job
from tests.benchmarking import ended

MIB = 1 << 20
MS = 1_000_000


def job(topology: str, each: int, link: str, n_bytes: int) -> Job:
    """A training on two hosts of so many workers each."""
    return Job(
        run="0" * 32,
        tasks=tuple(Task("worker", number) for number in range(2 * each)),
        hosts=("a",) * each + ("b",) * each,
        specs=(Spec("w", (n_bytes // 4,), "float32"),),
        optimizer=kit.GradientDescent(0.1),
        topology=topology,
        steps=1,
        batch=2 * each,
        link=link,
    )


@pytest.mark.parametrize(
    ("topology", "each", "share"),
    [  # of S bytes from host to host: 2(n-1)/n, and 2(H-1)/H + (k-1)/2H
        ("ring", 2, 2 * 3 / 4),
        ("ring", 4, 2 * 7 / 8),
        ("hierarchical", 2, 1 + 1 / 4),
    ],
)
def test_a_step_takes_what_its_bytes_take_between_the_hosts(
    topology: str, each: int, share: float
) -> None:
    reply = job(topology, each, "1gbit", 8 * MIB)

    for way in hosts.WAYS:
        seconds = hosts.formula_s(way, reply)
        assert seconds == pytest.approx(share * 8 * MIB / 125e6, rel=1e-3)


@pytest.mark.parametrize(
    ("topology", "each", "single", "in_a_row"),
    [
        ("ring", 2, 3, 3),
        ("ring", 4, 4, 3.5),  # 2(n-1)H/n
        ("hierarchical", 2, 2, 2),
        ("hierarchical", 4, 2, 2),
    ],
)
def test_a_small_step_takes_so_many_latencies(
    topology: str, each: int, single: float, in_a_row: float
) -> None:
    lines = job(topology, each, "5ms", 16 * 1024)

    result = [hosts.formula_s(way, lines) / 5e-3 for way in ("single", "in a row")]

    assert result == pytest.approx([single, in_a_row])


def test_a_step_lasts_from_the_last_gradient_or_from_the_end_before() -> None:
    table = []
    for step in range(hosts.WARM + 2):
        begin, computed = 100 * step, 10 + step  # ms
        for task, late in ((0, 5), (1, 0)):
            times = (begin + late, begin + 50, computed)
            table.append((task, step, 1, 0.0, 1, *(MS * time for time in times), 0, 0))

    trace = Trace(("worker:0", "worker:1"), steps=rows(STEP, table))

    single, in_a_row = (hosts.lasted_s(way, trace) for way in hosts.WAYS)
    assert single == pytest.approx([0.032, 0.031])
    assert in_a_row == pytest.approx([0.1, 0.1])


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.net
@pytest.mark.timeout(300)
def test_both_starts_over_ssh_are_measured() -> None:
    options = "--launchers ssh --rounds 1 --slots 1"

    printed, figures = ended("startup_hosts", options, timeout_s=280)

    seconds = figures["seconds"]
    assert set(seconds) == {"ssh"}
    assert set(seconds["ssh"]) == set(SYSTEMS)
    assert all(took[0] > 0 for took in seconds["ssh"].values())
    assert "2 engines" in printed
