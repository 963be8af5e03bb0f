"""What a ring of hosts saves between hosts, measured and by its formulas.

    python -m benchmarks.hosts [--quick] [--json FILE]

Bare processes train, half of them on each of two hosts: they play these on one machine,
with links of their own speed between them (`link=`), and memory within each. Timed is
an exchange, from the last worker's gradient to the last worker's end of the step. The
formula is what the topology says of itself: bytes from a host over the bandwidth, and
messages in a row times the latency.
It is for one or the other: with both, a ring's many messages hide the latency.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kit
from benchmarks.results import Table, arguments, median, report
from kit.exchange.topologies.topology import between_hosts, by_name
from kit.testing.processes import process_cluster
from kit.trace.trace import Trace
from kit.training.job import Job
from kit.wire.shaping import LinkSettings

TOPOLOGIES = ("ring", "hierarchical")
EACH = (2, 4)
_WAIT_S = 580.0
_WARM = 3  # steps that are not counted
_MIB = 1 << 20


class Link(NamedTuple):
    """Links between the hosts, and how many bytes of parameters to send over them."""

    speed: str
    n_bytes: int


LINKS = (
    Link("1gbit", 8 * _MIB),
    Link("5ms", 16 * 1024),
)


def step(params: Any, batch: Any, grads: Any) -> float:
    """Compute next to nothing: what is timed is the exchange."""
    grads["w"][:1] = 1.0
    return 0.0


def exchanges_s(trace: Trace) -> list[float]:
    """Return the seconds of each step in which all gradients are ready."""
    worked = trace.steps[trace.steps["examples"] > 0]
    found = []
    for number in np.unique(worked["step"])[_WARM:]:
        of_step = worked[worked["step"] == number]
        ready = (of_step["start"] + of_step["compute"]).max()
        found.append(float(of_step["end"].max() - ready) * 1e-9)
    return found


def formula_s(job: Job) -> float:
    """Return what the topology says that an exchange takes between the hosts."""
    topology, link = by_name(job.topology), LinkSettings.parse(job.link)
    moved = between_hosts(topology.traffic(job.layout, job.group), job.group)
    one = topology.hops(job.layout, job.group)
    return max(moved.values()) * link.ns_per_byte * 1e-9 + one * link.latency


def measure(topology: str, each: int, link: Link, steps: int) -> dict[str, Any]:
    """Train on two hosts of so many tasks; returns seconds, measured and by formula."""
    with process_cluster(0, 2 * each) as cluster:
        cluster.hosts = ["a"] * each + ["b"] * each
        run = kit.train(
            step,
            {"w": np.zeros(link.n_bytes // 4, np.float32)},
            (np.zeros((2 * each, 1), np.float32),),
            topology=topology,
            link=link.speed,
            steps=steps + _WARM,
            batch=2 * each,
            cluster=cluster,
        )
        run.wait(_WAIT_S)
        return {"measured": exchanges_s(run.trace), "formula": formula_s(run.job)}


def main() -> None:
    """Measure both topologies on each link, print the table, write the figures."""
    parser = arguments(__doc__ or "")
    given = parser.parse_args()
    found = {
        f"2 x {each}, {link.speed}": {
            topology: measure(topology, each, link, 10 if given.quick else 50)
            for topology in TOPOLOGIES
        }
        for each in EACH
        for link in LINKS
    }
    report(_table(found), found, given.json)


def _table(found: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for name, both in found.items():
        cells, gains = [], []
        for one in both.values():
            seconds = median(one["measured"]), one["formula"]
            cells += [f"{s * 1e3:.1f}" for s in seconds]
            gains.append(seconds)
        (ring, ring_says), (ours, ours_says) = gains
        rows.append(
            (name, *cells, f"{ring / ours:.2f}", f"{ring_says / ours_says:.2f}")
        )
    head = ["tasks, link"]
    head += [f"{one}{what}" for one in TOPOLOGIES for what in ("", ", formula")]
    note = "Milliseconds of an exchange on two hosts: 8 MiB at 1gbit, 16 KiB at 5ms."
    return Table(
        "Two hosts: a ring of tasks, a ring of hosts",
        (note,),
        (*head, "gain", "gain, formula"),
        tuple(rows),
    )


if __name__ == "__main__":
    main()
