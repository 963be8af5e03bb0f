"""Large tensors between tasks of one host are lent, and given back after use."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kit.graph.op import Tensor
from kit.graph.ops.state.source import identity, placeholder
from kit.graph.variable import initialize_all
from kit.session.client.session import Session
from kit.session.transport import shared_tensors
from kit.settings import Settings
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from kit.wire.link import Link
from kit.wire.local import loan
from tests.session.scene import PS, W1, at, variable

N = 1 << 18  # of four bytes: 1 MiB


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the bytes of every frame that is sent."""
    sizes: list[int] = []
    send = Link.send

    def noting(self: Link, *payload: Any, **rest: Any) -> None:
        sizes.append(sum(memoryview(part).nbytes for part in payload))
        send(self, *payload, **rest)

    monkeypatch.setattr(Link, "send", noting)
    return sizes


def crossing() -> tuple[Tensor, Tensor]:
    """Return a fed tensor on ps:0 and what worker:1 makes of it."""
    with at(PS):
        x = placeholder("float32", (None,))
        there = x + np.float32(1)
    with at(W1):
        return x, identity(there) * np.float32(2)


def lent() -> int:
    """Return how many bytes all lenders of this process have lent."""
    return sum(lender.lent for lender, _ in list(shared_tensors.LENDING.values()))


@pytest.mark.slow
def test_large_tensors_go_through_no_frame(target: Any, sent: list[int]) -> None:
    x, y = crossing()
    inputs = np.arange(N, dtype=np.float32)
    with Session(target) as session:
        session.run(y, {x: inputs})  # what is fetched is lent from the second run on
        sent.clear()
        result = session.run(y, {x: inputs})

        np.testing.assert_array_equal(result, (inputs + 1) * 2)
        assert max(sent) < 1024
        assert lent() > 0
        del result
        gc.collect()
        until(lambda: lent() == 0)


def test_over_tls_they_are_sent(sent: list[int]) -> None:
    x, y = crossing()
    with (
        local_cluster(1, 2, settings=Settings(transport="tcp")) as cluster,
        Session(cluster) as session,
    ):
        assert session.run(y, {x: np.ones(N)})[-1] == 4.0
        assert max(sent) > 4 * N
        assert lent() == 0


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Give a cluster whose links lend 4 MiB at most."""
    real = loan.open_loans

    def small(stream: Any, deadline: float, **_: Any) -> Any:
        return real(stream, deadline, capacity=2**22)

    monkeypatch.setattr(shared_tensors, "open_loans", small)
    with local_cluster(1, 2) as cluster:
        yield cluster


def test_what_does_not_fit_any_more_is_sent(
    narrow: LocalCluster, sent: list[int]
) -> None:
    with at(PS):
        source = variable(PS, "source", np.ones(N))
    kept = [variable(W1, f"v{i}", np.zeros(N)) for i in range(6)]
    keep = [each.assign(source) for each in kept]
    with Session(narrow.servers[1]) as session:
        session.run(initialize_all())
        sent.clear()
        for item in keep:  # each keeps the memory that its tensor came in
            session.run(item.op)
        total = session.run(sum(np.sum(each.value()) for each in kept))

    assert total == 6.0 * N
    assert max(sent) > 4 * N


@pytest.mark.slow
def test_a_variable_keeps_its_value_beyond_the_link_it_came_over(
    cluster: LocalCluster,
) -> None:
    x, y = crossing()
    v = variable(W1, "v", np.zeros(N))
    keep = v.assign(y)
    with Session(cluster) as session:
        session.run(initialize_all())
        session.run(keep.op, {x: np.ones(N)})
    for server in cluster.servers:
        for link in list(server.graphs.links):
            link.close()
    gc.collect()
    with Session(cluster) as session:
        assert session.run(np.sum(v.value())) == 4.0 * N


def test_small_tensors_make_no_arena(target: Any) -> None:
    x, y = crossing()
    with Session(target) as session:
        session.run(y, {x: np.ones(100)})
        assert not shared_tensors.LENDING
