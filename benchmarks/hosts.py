"""What a ring of hosts saves between hosts, measured and by its formulas.

    python -m benchmarks.hosts [--quick] [--json FILE]

Bare processes train, half of them on each of two hosts: they play these on one machine,
with shaped links between them (`link=`), and memory within each. The
formula is what the topology says of itself: bytes from a host over the bandwidth, and
messages in a row times the latency. It is for one or the other: with both, a ring's
many messages hide the latency.

Timed are single steps and steps in a row. A single step is begun by all workers at the
same moment of the clock, and lasts from the last worker's gradient to the last worker's
end. Steps in a row follow each other without a pause, and last from end to end. They
take a ring of tasks fewer messages each, as a worker need not wait for all others
(`hops_in_a_row`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import kit
from benchmarks.results import Table, arguments, median, report
from kit.exchange.plan import Group, Plan
from kit.exchange.topologies.counting import Traffic, counted_hops
from kit.exchange.topologies.topology import by_name
from kit.testing.processes import process_cluster
from kit.trace.trace import Trace
from kit.training.core.job import Job
from kit.wire.shaping import LinkSettings

TOPOLOGIES = ("ring", "hierarchical")
WAYS = ("single", "in a row")
EACH = (2, 4)
_WAIT_S = 580.0
WARM = 3  # steps that are not counted
_MIB = 1 << 20


class Link(NamedTuple):
    """Links between the hosts, the bytes of parameters to send over them, a pause.

    Single steps begin every so many seconds.
    """

    speed: str
    n_bytes: int
    every_s: float


LINKS = (
    Link("1gbit", 8 * _MIB, 0.25),
    Link("5ms", 16 * 1024, 0.05),
)


def step_every(seconds: float) -> Callable[[Any, Any, Any], float]:
    """Return a step that computes next to nothing: what is timed is the exchange.

    It begins at a multiple of some seconds of the clock that all workers see, or, for
    0, at once.
    """

    def step(params: Any, batch: Any, grads: Any) -> float:
        if seconds:
            time.sleep(seconds - time.monotonic() % seconds)
        grads["w"][:1] = 1.0
        return 0.0

    return step


def lasted_s(way: str, trace: Trace) -> list[float]:
    """Return the seconds of each single step, or of each step of a row."""
    worked = trace.steps[trace.steps["examples"] > 0]
    steps = [worked[worked["step"] == number] for number in np.unique(worked["step"])]
    ends = np.array([step["end"].max() for step in steps])
    begins = np.array([(step["start"] + step["compute"]).max() for step in steps])
    if way == "in a row":
        begins[1:] = ends[:-1]
    return list((ends - begins)[WARM:] * 1e-9)


def between_hosts(traffic: Traffic, group: Group) -> dict[tuple[int, int], int]:
    """Return the bytes of a step from host to host."""
    result: dict[tuple[int, int], int] = {}
    for (source, target, _), size in traffic.items():
        link = group.host(source), group.host(target)
        if size and link[0] != link[1]:
            result[link] = result.get(link, 0) + size
    return result


def hops_in_a_row(plans: Mapping[int, Plan], group: Group) -> float:
    """Return how many messages between hosts each step adds, in many steps in a row.

    A ring of n workers on H hosts has 2(n-1)H/n: each of the 2(n-1) rounds goes on from
    where the last one came to, and H in n of them lead to another host.
    """
    n = len(group.workers)
    more = [counted_hops(plans, group, n_steps) for n_steps in (n, 2 * n)]
    return (more[1] - more[0]) / n


def formula_s(way: str, job: Job) -> float:
    """Return what the topology says that a step takes between the hosts."""
    topology, link = by_name(job.topology), LinkSettings.parse(job.link)
    moved = between_hosts(topology.traffic(job.layout, job.group), job.group)
    hops: float = topology.hops(job.layout, job.group)
    if way == "in a row":
        hops = hops_in_a_row(topology.plans(job.layout, job.group), job.group)
    return max(moved.values()) * link.ns_per_byte * 1e-9 + hops * link.latency


def measure(
    topology: str, way: str, each: int, link: Link, steps: int
) -> dict[str, Any]:
    """Train on two hosts of so many tasks; returns seconds, measured and by formula."""
    with process_cluster(0, 2 * each) as cluster:
        cluster.hosts = ["a"] * each + ["b"] * each
        run = kit.train(
            step_every(link.every_s if way == "single" else 0.0),
            {"w": np.zeros(link.n_bytes // 4, np.float32)},
            (np.zeros((2 * each, 1), np.float32),),
            topology=topology,
            link=link.speed,
            steps=steps + WARM,
            batch=2 * each,
            cluster=cluster,
        )
        run.wait(_WAIT_S)
        return {
            "measured": lasted_s(way, run.trace),
            "formula": formula_s(way, run.job),
        }


def main() -> None:
    """Measure both topologies on each link, print the table, write the figures."""
    parser = arguments(__doc__ or "")
    options = parser.parse_args()
    result = {
        f"2 x {each}, {link.speed}, {way}": {
            topology: measure(topology, way, each, link, 10 if options.quick else 50)
            for topology in TOPOLOGIES
        }
        for each in EACH
        for link in LINKS
        for way in WAYS
    }
    report(_table(result), result, options.json)


def _table(result: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for name, both in result.items():
        cells, gains = [], []
        for value in both.values():
            seconds = median(value["measured"]), value["formula"]
            cells += [f"{s * 1e3:.1f}" for s in seconds]
            gains.append(seconds)
        (ring, ring_says), (ours, ours_says) = gains
        rows.append(
            (name, *cells, f"{ring / ours:.2f}", f"{ring_says / ours_says:.2f}")
        )
    head = ["tasks, link, steps"]
    head += [f"{item}{what}" for item in TOPOLOGIES for what in ("", ", formula")]
    note = "Milliseconds of a step on two hosts: 8 MiB at 1gbit, 16 KiB at 5ms."
    return Table(
        "Two hosts: a ring of tasks, a ring of hosts",
        (note,),
        (*head, "gain", "gain, formula"),
        tuple(rows),
    )


if __name__ == "__main__":
    main()
