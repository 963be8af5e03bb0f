"""What cannot be right is refused with a typed error, and the tasks stay well."""

from __future__ import annotations

from typing import Any

import pytest

from kit.errors import (
    AbortedError,
    InvalidArgumentError,
    KitError,
    ProtocolError,
    from_plain,
)
from kit.graph.node import Node
from kit.session.client.options import SessionOptions
from kit.session.client.session import Session
from kit.session.client.targets import connect
from kit.session.master.plan import RunSignature
from kit.session.transport.message import Act, Message, ask, recv, send
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.wire.frame import FrameKind
from kit.wire.handshake.messages import Role
from tests.session.scene import PS, W0, works

CLIENT = Task("client", 0)


def dial(cluster: LocalCluster) -> Any:
    return cluster.servers[0].directory.dial(cluster.tasks[1], CLIENT, Role.SESSION)


BAD = {
    "an unknown question": {"op": "moon"},
    "no question": {},
    "a question without its fields": {"op": "prepare", "session": 1},
    "an unknown session": {"op": "extend", "session": 1, "version": 0, "nodes": []},
    "a graph of nonsense": {"op": "register", "incarnation": 1, "segment": 3},
    "options of nonsense": {"op": "create", "options": 3},
}


@pytest.mark.parametrize("meta", BAD.values(), ids=BAD)
def test_a_bad_question_is_answered_and_the_link_stays_good(
    cluster: LocalCluster, meta: dict[str, Any]
) -> None:
    with dial(cluster) as link:
        answer = ask(link, meta, 5.0)
        assert answer.act == Act.FAILED
        assert isinstance(from_plain(answer.meta["error"]), KitError)
        assert ask(link, {"op": "status"}, 5.0).act == Act.DONE
    with Session(cluster.servers[1]) as session:
        assert works(session, W0, PS)


BAD_ACTS = {
    "a run of nobody's": (Act.RUN, AbortedError),
    "a segment of nobody's": (Act.SEGMENT, AbortedError),
    "an answer unasked": (Act.DONE, ProtocolError),
}


@pytest.mark.parametrize(("act", "expected"), BAD_ACTS.values(), ids=BAD_ACTS)
def test_a_bad_message_is_refused(
    cluster: LocalCluster, act: Act, expected: type[KitError]
) -> None:
    with dial(cluster) as link:
        send(link, act, deadline_s=5.0, number=7, step=9, limit_s=1.0)
        answer: Message = recv(link, 5.0)

    assert answer.act == Act.FAILED
    assert isinstance(from_plain(answer.meta["error"]), expected)


def test_a_frame_of_garbage_ends_its_link_and_nothing_else(
    cluster: LocalCluster,
) -> None:
    with dial(cluster) as link:
        link.send(b"\xff" * 100, deadline_s=5.0, kind=FrameKind.DATA, epoch=1)
        with pytest.raises(KitError):
            link.recv(deadline_s=5.0)
    with Session(cluster.servers[1]) as session:
        assert works(session, W0, PS)


def node(name: str, kind: str = "NoOp", *inputs: tuple[str, int]) -> Node:
    return Node(name, kind, inputs, (), {}, "", (), "", "")


BAD_NODES = {
    "an op that nobody knows": [node("a", "Moon")],
    "a name twice": [node("a"), node("a")],
    "an input that is not there": [node("a", "Identity", ("b", 0))],
    "an output that is not there": [node("b"), node("a", "Identity", ("b", 0))],
}


@pytest.mark.parametrize("nodes", BAD_NODES.values(), ids=BAD_NODES)
def test_nodes_that_cannot_be_are_refused(
    cluster: LocalCluster, target: Any, nodes: list[Node]
) -> None:
    connection = connect(target, SessionOptions())
    try:
        with pytest.raises(InvalidArgumentError):
            connection.extend(0, nodes, 5.0)
        connection.extend(0, [node("a")], 5.0)
        with pytest.raises(InvalidArgumentError, match="moon"):
            connection.prepare(RunSignature((), (("moon", 0),), ()), 5.0)
        plan = connection.prepare(RunSignature((), (), ("a",)), 5.0)
        assert connection.run(plan, [], 5.0, False)[0] == []
    finally:
        connection.close()
