"""A server is a task of clusters that sessions bring, as long as these last."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kit.errors import InvalidArgumentError
from kit.graph.ops.state.source import constant
from kit.graph.variable import Variable
from kit.server.server import Server
from kit.server.target import JoinedTarget
from kit.session.client.options import SessionCluster
from kit.session.client.session import Session
from kit.task import Task
from kit.testing.task_process import until
from tests.session.scene import at, failure, in_thread, never

A, B = Task("a", 0), Task("b", 0)


Servers = list[Server]


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Give two servers, each of which knows of no task but itself."""
    made = [Server({"local": ["localhost:0"]}) for _ in range(2)]
    yield made
    for item in made:
        item.stop()


def joined(servers: Servers) -> JoinedTarget:
    """Return the first server as task `a:0`, beside the second as `b:0`."""
    address = servers[0].address
    assert address is not None
    places = ((A, str(address)), (B, str(servers[1].address)))
    return JoinedTarget(address, SessionCluster(A, places))


def parts(servers: Servers) -> list[int]:
    return [len(server.graphs.parts) for server in servers]


def test_a_part_lasts_as_long_as_the_last_session_of_it(servers: Servers) -> None:
    with at(str(B)):
        two = constant(1.0) + 1.0
    first, other = Session(joined(servers)), Session(joined(servers))

    values = [first.run(two), other.run(two)]
    during = parts(servers)
    first.close()
    after_one = other.run(two)
    other.close()
    until(lambda: parts(servers) == [0, 0])

    assert values == [2.0, 2.0]
    assert after_one == 2.0
    assert during == [1, 1]


def test_a_failed_run_does_not_end_the_session(servers: Servers) -> None:
    with at(str(B)):
        count = Variable(np.int32(7), name="count")
        wrong = constant(1) // (count.value() - count.value())
    session = Session(joined(servers), isolate_state=True)
    session.run(count.initializer)

    with pytest.raises(InvalidArgumentError, match="/job:b/"):
        session.run(wrong)

    assert session.run(count) == 7
    session.close()


def test_a_session_that_is_closed_ends_its_run_on_the_other_task(
    servers: Servers,
) -> None:
    session = Session(joined(servers))
    element = never(str(B))
    run = in_thread(lambda: session.run(element))
    until(lambda: bool(servers[1].graphs.parts))

    session.close()

    assert "closed" in str(failure(run))
    until(lambda: parts(servers) == [0, 0])


def test_a_server_that_stops_ends_its_parts(servers: Servers) -> None:
    with at(str(B)):
        two = constant(1.0) + 1.0
    session = Session(joined(servers))
    session.run(two)

    servers[1].stop()

    assert "/job:b/task:0" in str(failure(in_thread(lambda: session.run(two))))
    session.close()


def test_a_cluster_that_names_no_task_is_refused() -> None:
    plain = SessionCluster(A, ((A, "h:1"),)).to_plain()

    with pytest.raises(InvalidArgumentError, match="does not name a task"):
        SessionCluster.from_plain({**plain, "task": "a"})
