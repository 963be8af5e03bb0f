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
from tests.training.toy import (
    BATCH,
    DATA,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow

IN_TURN = ["a", "a", "b", "a", "b"]  # the server's, then the workers'
BY_HOST = ["a", "a", "a", "b", "b"]
TOPOLOGIES = ["ps", "ring", "mesh", "ring-whole", "hierarchical"]


def train(hosts: Sequence[str], topology: str, link: str = "") -> kit.Run:
    with quick_cluster(1, 4) as cluster:
        cluster.hosts = hosts
        return kit.train(
            *(fit, initial(), DATA),
            steps=6,
            batch=BATCH,
            topology=topology,
            link=link,
            cluster=cluster,
        ).wait(20)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_wherever_the_tasks_are_the_bits_are_those_of_one_host(topology: str) -> None:
    run = train(IN_TURN, topology)

    assert same_bits(run.params, replayed(6, 4, kit.GradientDescent()))


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


@pytest.mark.parametrize("both", [("ps", "hierarchical"), ("hierarchical", "ring")])
def test_a_training_switches_to_it_and_from_it(both: tuple[str, str]) -> None:
    with quick_cluster(1, 4) as cluster:
        cluster.hosts = BY_HOST
        run = kit.train(
            *(fit, initial(), DATA),
            steps=40,
            batch=BATCH,
            topology=both[0],
            optimizer=kit.Adam(0.02),
            cluster=cluster,
        )
        run.switch(both[1], at=30)
        run.wait(20)

    assert [epoch.topology for epoch in run.trace.epochs] == list(both)
    assert same_bits(run.params, replayed(40, 4, kit.Adam(0.02)))
