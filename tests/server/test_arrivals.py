"""Data links that nobody asks for are kept for a while, and never many of them."""

from __future__ import annotations

import secrets
from contextlib import closing
from uuid import NAMESPACE_URL, uuid5

import pytest

import kit
from kit.server.arrivals import Arrivals
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.streams import memory_pair
from kit.testing.task_process import until
from kit.wire.frame import Bounds
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.stream import Stream
from tests.training.paced import Held, begin

ME, PEER = Task("worker", 0), Task("worker", 1)


def link_from(stream: Stream) -> Link:
    bounds = Bounds(cluster=7, max_length=4096)
    return Link(stream, local=ME, peer=PEER, role=Role.DATA, bounds=bounds)


def test_the_newest_links_of_a_task_are_kept() -> None:
    pairs = [memory_pair() for _ in range(50)]
    links = [link_from(mine) for mine, _ in pairs]
    with closing(Arrivals()) as arrivals:
        for link in links:
            arrivals.put(link)

        still_open = [link for link in links if "open" in repr(link)]

        assert still_open == links[-len(still_open) :]
        assert 2 * 8 <= len(still_open) < 50  # two dials of the most streams
    for _, theirs in pairs:
        theirs.close()


def test_a_training_that_has_its_links_takes_no_more() -> None:
    with local_cluster(ps=1, worker=2) as cluster:
        step = Held()
        run = begin(cluster, step)
        assert step.reached.wait(20)
        with dial_data(cluster, run) as link:
            until(lambda: has_ended(link))
        step.go.set()
        assert run.wait(30).state == "done"


def dial_data(cluster: LocalCluster, run: kit.Run) -> Link:
    worker, other = cluster.tasks[1], cluster.tasks[2]
    directory = cluster.servers[0].directory
    return directory.dial(worker, other, Role.DATA, run.job.run)


def has_ended(link: Link) -> bool:
    try:
        link.recv(deadline_s=0.0)
    except kit.errors.DeadlineExceededError:
        return False
    except kit.errors.LinkLost:
        return True
    return False


def test_no_name_of_a_training_is_taken_for_that_of_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Names of trainings are random, and one in 64 looks like the hash of a text.
    by_chance = iter([uuid5(NAMESPACE_URL, "a group's").hex])
    real = secrets.token_hex
    monkeypatch.setattr(
        secrets, "token_hex", lambda n: next(by_chance, "") if n == 16 else real(n)
    )
    with local_cluster(ps=1, worker=2) as cluster:
        step = Held()
        run = begin(cluster, step)
        assert next(by_chance, "") == ""
        assert step.reached.wait(20)
        step.go.set()
        assert run.wait(30).state == "done"
