"""A server that is stopped while a training begins lets go of everything, for good."""

from __future__ import annotations

import threading

import pytest

from kit.errors import ClusterBusy, FailedPreconditionError
from kit.server.directory import Directory
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.training.core.job import Job, Work
from kit.training.core.member import Member
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from tests.training.toy import DATA, begin, fit, initial, quick_cluster

SOON_S = 10.0


def next_job(cluster: LocalCluster) -> tuple[Job, Work]:
    """Return a training like the last one on the cluster, not yet begun anywhere."""
    run = begin(cluster, topology="ring", steps=1).wait(SOON_S)
    plain = {**run.job.to_plain(), "run": "ab" * 16}
    return Job.from_plain(plain), Work(fit, DATA, initial())


@pytest.mark.slow
def test_server_that_is_stopped_while_a_training_begins_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: list[BaseException] = []
    with quick_cluster(0, 2) as cluster:
        job, work = next_job(cluster)
        server = cluster.servers[0]

        def stop() -> None:
            try:
                server.stop()
            except BaseException as error:
                errors.append(error)

        stopping, start = threading.Thread(target=stop), Member.start

        def start_late(member: Member) -> None:
            stopping.start()
            stopping.join(0.2)  # as far as it gets before the member has started
            start(member)

        monkeypatch.setattr(Member, "start", start_late)

        member = server.trainings.begin(job, work)

        stopping.join(SOON_S)
        assert errors == []
        assert not stopping.is_alive()
        assert member.join(SOON_S)
        assert isinstance(member.error, ClusterBusy)
        assert "stopped" in repr(server)


def test_nothing_begins_on_a_server_that_was_stopped() -> None:
    with local_cluster(0, 2) as cluster:
        job, work = next_job(cluster)
        cluster.servers[0].stop()

        with pytest.raises(FailedPreconditionError, match="worker/task:0 was stopped"):
            cluster.servers[0].trainings.begin(job, work)


def test_data_link_that_comes_to_a_stopped_server_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came: list[Link] = []
    with local_cluster(0, 2) as cluster:
        server = cluster.servers[0]
        here, take = threading.Event(), server.trainings.take_data_link

        def keep(link: Link) -> None:
            came.append(link)
            here.set()

        monkeypatch.setattr(server.trainings, "take_data_link", keep)
        directory: Directory = server.directory
        mine = directory.dial(server.task, Task("worker", 1), Role.DATA, "ab" * 16)
        assert here.wait(SOON_S)
        server.stop()

        take(came[0])

        assert came[0].fileno() == -1
        mine.close()
