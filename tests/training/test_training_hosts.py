"""Trainings on several hosts: who computes what, in which order, over which links.

The tasks are threads of this process that play those of several hosts.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import kit
from benchmarks.hosts import between_hosts
from kit.exchange.topologies.topology import by_name
from kit.trace.traffic import TransferKind
from tests.training.toy import begin, quick_cluster

pytestmark = pytest.mark.slow

IN_TURN = ["a", "a", "b", "a", "b"]  # the server's, then the workers'
BY_HOST = ["a", "a", "a", "b", "b"]


def train(hosts: Sequence[str], topology: str, link: str = "") -> kit.Run:
    with quick_cluster(1, 4) as cluster:
        cluster.hosts = hosts
        return begin(cluster, steps=6, topology=topology, link=link).wait(20)


def test_workers_of_a_host_stand_together() -> None:
    job = train(IN_TURN, "ring").job

    assert job.workers == (1, 3, 2, 4)
    assert job.group.blocks == ((1, 3), (2, 4))
    assert job.coordinator == 1


@pytest.mark.parametrize("topology", ["ring", "hierarchical"])
@pytest.mark.parametrize("hosts", [IN_TURN, BY_HOST])
def test_links_between_hosts_carry_what_the_formulas_say(
    topology: str, hosts: Sequence[str]
) -> None:
    run = train(hosts, topology)

    group = run.job.group
    wanted = between_hosts(by_name(topology).traffic(run.job.layout, group), group)
    result: dict[tuple[int, int], int] = {}
    for row in run.trace.totals:
        link = group.host(int(row["source"])), group.host(int(row["destination"]))
        if link[0] != link[1] and row["kind"] in (
            TransferKind.REDUCE,
            TransferKind.GATHER,
        ):
            result[link] = result.get(link, 0) + int(row["bytes"])
    assert result == {link: 6 * size for link, size in wanted.items()}
    assert len(result) == 2
