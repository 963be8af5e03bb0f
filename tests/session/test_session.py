"""The life of a session: what it takes and gives back, and how often it asks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    PlacementError,
    UnavailableError,
)
from kit.graph.graph import Graph
from kit.graph.ops.state.source import constant
from kit.graph.variable import initialize_all
from kit.server.server import Server
from kit.session.client.options import SessionOptions
from kit.session.client.session import Session, default_session
from kit.session.client.targets import connect
from kit.session.transport.message import Act
from kit.settings import settings
from kit.testing.cluster import LocalCluster
from kit.wire.link import Link
from tests.session.scene import (
    PS,
    W0,
    W1,
    at,
    never,
    value,
    variable,
    works,
)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[Act]:
    """Count the messages on all links of this process, by their act."""
    counts: Counter[Act] = Counter()
    send = Link.send

    def counting(self: Link, *payload: Any, epoch: int = 0, **rest: Any) -> None:
        counts[Act(epoch)] += 1
        send(self, *payload, epoch=epoch, **rest)

    monkeypatch.setattr(Link, "send", counting)
    return counts


def test_the_second_run_of_a_kind_is_one_message_to_each_task(
    cluster: LocalCluster, sent: Counter[Act]
) -> None:
    with at(W0):
        total = value(PS) + value(W1)
    with Session(cluster.servers[1]) as session:
        session.run(total)
        sent.clear()

        session.run(total)

    assert sent[Act.SEGMENT] == 2
    assert sent[Act.TENSOR] == 2
    assert sent[Act.DONE] == 2 + 2  # and the session's end, told to both
    assert sent[Act.ASK] == 2


def test_a_run_on_the_target_alone_sends_nothing(
    cluster: LocalCluster, sent: Counter[Act]
) -> None:
    mine = value(W0)
    with Session(cluster.servers[1]) as session:
        session.run(mine)
        sent.clear()
        session.run(mine)
        assert not sent


def test_an_extension_of_an_older_version_is_refused(cluster: LocalCluster) -> None:
    connection = connect(cluster.servers[1].target, SessionOptions())
    try:
        with pytest.raises(AbortedError, match="0 nodes here and 3"):
            connection.extend(3, [], 5.0)
    finally:
        connection.close()


def test_an_op_that_was_sent_cannot_change(target: Any) -> None:
    tensor = value(PS)
    tensor.op.device = W1  # before the first run it may
    with Session(target) as session:
        session.run(tensor)
        with pytest.raises(FailedPreconditionError, match="sent"):
            tensor.op.device = PS
        with pytest.raises(FailedPreconditionError, match="sent"):
            tensor.op.attrs["value"] = np.float32(7)
        assert session.run(tensor) == 1.0


def test_a_session_entered_is_the_default_one(graph: Graph) -> None:
    outer = Session()
    with outer:
        with Session() as inner:
            assert default_session() is inner
        assert default_session() is outer
    assert default_session() is None


def test_devices_are_listed_with_the_targets_first(target: Any) -> None:
    value(W0)
    with Session(target) as session:
        result = session.list_devices()

    names = [str(device.task) for device, _ in result]
    assert names == ["/job:worker/task:0", "/job:ps/task:0", "/job:worker/task:1"]
    assert len({incarnation for _, incarnation in result}) == 3


def test_filters_leave_tasks_out(cluster: LocalCluster) -> None:
    there, here = value(W1), value(W0)
    with Session(cluster.servers[1], device_filters=["/job:ps"]) as session:
        tasks = [str(device.task) for device, _ in session.list_devices()]
        with pytest.raises(InvalidArgumentError, match="worker/task:1"):
            session.run(there)
        session.run(here)
    assert tasks == ["/job:worker/task:0", "/job:ps/task:0"]


@pytest.mark.parametrize("place_all", [False, True])
def test_op_without_a_place_ends_other_runs_only_if_all_are_placed(
    place_all: bool,
) -> None:
    with Graph().as_default() as graph:
        good = constant(2.0)
        with graph.device("/device:GPU:9"):
            bad = constant(1.0)

        with Session(place_all=place_all) as session:
            with pytest.raises(PlacementError, match="GPU:9"):
                session.run(bad)
            if place_all:
                with pytest.raises(PlacementError, match="GPU:9"):
                    session.run(good)
            else:
                assert session.run(good) == 2.0


def test_one_process_may_show_several_devices(graph: Graph) -> None:
    tensor = value("/device:CPU:2", 4)
    with Session(n_cpus=3) as session:
        assert session.run(tensor) == 4.0
        assert len(session.list_devices()) == 3


def test_a_run_can_be_awaited_while_the_loop_goes_on(target: Any) -> None:
    tensor = value(PS)

    async def main() -> list[Any]:
        with Session(target) as session:
            runs = [session.run_async(tensor + np.float32(i)) for i in range(3)]
            return await asyncio.gather(*runs)

    assert asyncio.run(main()) == [1.0, 2.0, 3.0]


def test_cancelling_an_awaited_run_ends_it(target: Any) -> None:
    waits, item = never(PS), value(W1)

    async def main(session: Session) -> None:
        run = asyncio.ensure_future(session.run_async(waits, deadline_s=3600))
        await session.run_async(item)  # the other one has begun before
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run_async(waits, deadline_s=3600), 0.01)

    with Session(target) as session:
        asyncio.run(main(session))  # which joins the threads: it would take an hour

        assert session.run(item) == 1.0


@pytest.mark.slow
def test_the_setting_limits_every_run(target: Any) -> None:
    waits = never(PS)
    with (
        settings(run_deadline_s=0.5),
        Session(target) as session,
        pytest.raises(DeadlineExceededError, match=r"0\.5 s"),
    ):
        session.run(waits)


@pytest.mark.slow
def test_an_error_at_a_deadline_names_what_that_call_takes(target: Any) -> None:
    waits = never(PS)
    with settings(run_deadline_s=0.1), Session(target) as session:
        handle = session.partial_run_setup(waits)
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: session.run(waits), "the run's deadline_s, or with the setting"),
            (session.callable(waits), "the setting"),
            (
                lambda: session.partial_run(handle, waits),
                "deadline_s of partial_run_setup, or with the setting",
            ),
        ]
        for call, allow in calls:
            with pytest.raises(DeadlineExceededError) as caught:
                call()

            assert f"Allow more with {allow} run_deadline_s." in str(caught.value)


def test_a_server_that_stops_ends_its_sessions(
    cluster: LocalCluster, target: Any
) -> None:
    tensor = value(W1)
    server: Server = cluster.servers[2]
    session = Session(server)
    session.run(tensor)

    server.stop()

    with pytest.raises(AbortedError):
        session.run(tensor)
    session.close()
    with Session(server) as session, pytest.raises(UnavailableError):
        session.run(tensor)
    with Graph().as_default(), Session(target, device_filters=[PS]) as other:
        assert works(other, W0, PS)


def test_a_fetch_twice_is_computed_once_and_given_twice(target: Any) -> None:
    count = variable(PS, "count")
    more = count.assign_add(np.float32(1))

    with Session(target) as session:
        session.run(initialize_all())
        assert session.run([more, more]) == [1.0, 1.0]


def test_a_fed_value_replaces_any_tensor(target: Any) -> None:
    x = value(PS, 2)
    with at(W1):
        y = x * np.float32(10)

    with Session(target) as session:
        assert session.run([x, y], {x: 3.0}) == [3.0, 30.0]
        assert session.run([x, y]) == [2.0, 20.0]


def test_changing_a_fed_variable_is_refused(target: Any) -> None:
    v = variable(PS, "v")
    more = v.assign_add(np.float32(1))

    with Session(target) as session:
        session.run(initialize_all())
        with pytest.raises(InvalidArgumentError, match="itself"):
            session.run(more, {v: 7.0})


def test_constants_of_all_dtypes_come_back_as_they_are(target: Any) -> None:
    names = ["bool", "int8", "int64", "uint16", "float16", "float64", "complex64"]
    with at(PS):
        tensors = [constant(np.ones((2, 1), name)) for name in names]
        text = constant(["a", "bc"])
    with Session(target) as session:
        *arrays, texts = session.run([*tensors, text])

    assert [str(array.dtype) for array in arrays] == names
    assert all(array.tolist() == [[1], [1]] for array in arrays)
    assert texts.tolist() == [b"a", b"bc"]
