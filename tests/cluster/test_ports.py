"""A port that is taken between its choice and its use costs one more start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kit.cluster import Cluster
from kit.cluster.processes import supervisor
from kit.cluster.processes.engines import Engines
from kit.errors import StartFailed

pytestmark = [pytest.mark.engines, pytest.mark.slow]

TAKEN = "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:33185')"


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let each of the next starts end as a controller does that logs one of these."""
    left: list[str] = []

    class Ending(Engines):
        async def launch(self) -> None:
            if not left:
                await super().launch()
                return
            text = f"the controller ended with status 1.\n{left.pop(0)}"
            self.ended.set_result(text)
            await asyncio.sleep(60)  # what has ended says nothing more

    monkeypatch.setattr(supervisor, "Engines", Ending)
    return left


def test_cluster_whose_port_was_taken_starts_with_others(
    gone: Callable[[], None], ends: list[str]
) -> None:
    ends += [TAKEN]

    with Cluster(ps=0, worker=1) as cluster:
        assert cluster.call("all", int) == [0]

    assert ends == []
    gone()


def test_cluster_whose_ports_are_always_taken_says_so(ends: list[str]) -> None:
    ends += [TAKEN] * 4

    with pytest.raises(StartFailed, match="Address already in use"):
        Cluster(ps=0, worker=1).start()

    assert len(ends) == 1


def test_other_ends_of_a_controller_are_not_tried_again(ends: list[str]) -> None:
    ends += ["No module named 'ipyparallel'"] * 2

    with pytest.raises(StartFailed, match="No module named"):
        Cluster(ps=0, worker=1).start()

    assert len(ends) == 1
