"""What goes wrong in a run: the error names op and task, and the next run is good."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    ResourceExhaustedError,
    UnimplementedError,
)
from kit.graph import table
from kit.graph.default import default_graph
from kit.graph.op import Tensor
from kit.graph.ops.state.source import identity, placeholder
from kit.graph.static import Static
from kit.graph.table import OpDef
from kit.graph.variable import initialize_all
from kit.server import local_sockets, server
from kit.session.client.session import Session
from kit.settings import Settings
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from tests.cases import for_each
from tests.session.scene import (
    PS,
    W0,
    W1,
    at,
    failure,
    in_thread,
    never,
    variable,
    works,
)


@pytest.fixture
def raising() -> Iterator[dict[str, Exception]]:
    """Give an op `Raise` that raises what stands here under its `key`."""
    errors: dict[str, Exception] = {}

    def forward(_: Any, *__: Any, key: str) -> Any:
        raise errors[key]

    rule = OpDef("Raise", lambda *_: [Static((), np.dtype("float32"))], forward)
    table.register(rule)
    yield errors
    table.TABLE.pop("Raise")


def raise_at(device: str, key: str, *inputs: Tensor) -> Tensor:
    with at(device):
        result: Tensor = default_graph().create("Raise", *inputs, key=key).outputs[0]
    return result


@pytest.mark.parametrize("device", [PS, W0])
def test_an_error_names_op_place_task_and_has_the_op(
    target: Any, raising: dict[str, Exception], device: str
) -> None:
    raising["bad"] = InvalidArgumentError("no such thing")
    bad = raise_at(device, "bad")
    with at(W1):
        behind = identity(bad)

    with Session(target) as session:
        with pytest.raises(InvalidArgumentError, match="no such thing") as caught:
            session.run(behind)
        assert works(session, W0, PS, W1)

    error, task = caught.value, device[5:].replace("/task", "/replica:0/task")
    assert error.op is bad.op
    assert error.node == bad.op.name
    assert f"/job:{task}" in str(error)
    assert "test_failing_runs.py" in str(error)


def test_an_error_of_another_task_says_from_where(target: Any) -> None:
    v = variable(PS, "v")
    with (
        Session(target) as session,
        pytest.raises(FailedPreconditionError) as caught,
    ):
        session.run(v)

    assert str(caught.value).startswith("From /job:ps/replica:0/task:0:\n")


@for_each(
    ("raised", "expected"),
    [
        (MemoryError("too much"), ResourceExhaustedError),
        (ValueError("shape"), InvalidArgumentError),
        (ZeroDivisionError("by zero"), InvalidArgumentError),
        (NotImplementedError("later"), UnimplementedError),
        (KeyError("k"), InvalidArgumentError),
    ],
)
def test_what_python_raises_becomes_a_code(
    target: Any,
    raising: dict[str, Exception],
    raised: Exception,
    expected: type[KitError],
) -> None:
    raising["bad"] = raised
    bad = raise_at(PS, "bad")

    with Session(target) as session:
        with pytest.raises(expected):
            session.run(bad)
        assert works(session, W0, PS)


@pytest.mark.parametrize("waiting", [PS, W0])
def test_the_first_error_is_reported_not_those_that_follow(
    cluster: LocalCluster, target: Any, raising: dict[str, Exception], waiting: str
) -> None:
    raising["bad"] = InvalidArgumentError("the first")
    bad, waits = raise_at(W1, "bad"), never(waiting)
    with at(PS):
        behind = bad + np.float32(1)

    with Session(target) as session:
        run = in_thread(lambda: session.run([waits, bad, behind]))
        assert "the first" in str(failure(run))
        until(lambda: not cluster.servers[0].graphs.worker.steps)
        assert works(session, W0, PS, W1)


def test_a_placeholder_that_was_not_fed_is_named(target: Any) -> None:
    with at(PS):
        x = placeholder("float32", (), name="x")
        y = x + np.float32(1)
    with Session(target) as session:
        with pytest.raises(InvalidArgumentError, match="'x'"):
            session.run(y)
        assert session.run(y, {x: 1}) == 2.0


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Give a cluster whose links carry at most 1 MiB in one frame."""
    for module in (local_sockets, server):
        monkeypatch.setattr(module, "MAX_BODY", 2**20)
    with local_cluster(1, 2, settings=Settings(transport="tcp")) as cluster:
        yield cluster


@pytest.mark.parametrize("how", ["fed", "fetched", "moved"])
def test_a_tensor_beyond_the_bound_of_a_frame_is_refused(
    small_frames: LocalCluster, how: str
) -> None:
    with at(PS):
        x = placeholder("int32", (None, 1))
        large = x + np.zeros((1, 1024), np.int32)
    with at(W0):
        moved = large[0] * np.int32(2)
    inputs = np.zeros((1024, 1), np.int32)
    feeds = {large: inputs + inputs.T} if how == "fed" else {x: inputs}
    with Session(small_frames.session_target) as session:
        with pytest.raises(InvalidArgumentError, match="1048576"):
            session.run(large if how == "fetched" else moved, feeds)
        assert works(session, W0, PS)


def test_runs_of_many_threads_do_not_meet(target: Any) -> None:
    with at(PS):
        x = placeholder("float32", ())
        y = x * np.float32(2)
    with at(W1):
        z = y + np.float32(1)
    result: dict[int, float] = {}

    def work(number: int) -> None:
        result[number] = session.run(z, {x: number})

    with Session(target) as session:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert result == {i: 2.0 * i + 1 for i in range(12)}


def test_a_graph_of_many_small_moves_needs_no_more_room(target: Any) -> None:
    v = variable(PS, "v", np.zeros(1000))
    ahead = []
    for i in range(150):
        with at(W0):
            a = v + np.float32(i)
        with at(PS):
            ahead.append(a * np.float32(2))
    with Session(target) as session:
        session.run(initialize_all())
        result = session.run(ahead)

    assert [row[0] for row in result] == [2.0 * i for i in range(150)]
