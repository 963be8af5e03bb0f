"""A port that is taken between its choice and its use costs one more start."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from traitlets.config import Config

from kit.cluster import Cluster
from kit.cluster.processes import engines, supervisor
from kit.cluster.processes.engines import Engines
from kit.errors import StartFailed
from tests.server.ports import free_ports

pytestmark = [pytest.mark.engines, pytest.mark.slow]

TAKEN = "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:33185')"


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let each of the next starts end as a controller does that logs one of these."""
    left: list[str] = []

    class Ending(Engines):
        async def launch(self, misses: int, config: Config, **more: Any) -> None:
            if not left:
                await super().launch(misses, config, **more)
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


@pytest.mark.parametrize("used_for", [5, 7, 11, 13], ids="port {}".format)
def test_controller_that_lives_on_without_one_of_its_ports_is_replaced(
    gone: Callable[[], None], monkeypatch: pytest.MonkeyPatch, used_for: int
) -> None:
    # Heart beats, and what threads bind: only the thread or the process ends of it.
    pool, arguments = free_ports(16), engines.controller_args
    pools = iter([pool, free_ports(16)])
    monkeypatch.setattr(
        engines,
        "controller_args",
        lambda misses: [*arguments(misses), _of_pool(next(pools))],
    )
    taken = socket.create_server(("127.0.0.1", pool[used_for]))
    with taken, Cluster(ps=0, worker=1, start_deadline_s=20) as cluster:
        assert cluster.call("all", int) == [0]

    assert not list(pools)  # the second one was needed
    gone()


def _of_pool(ports: list[int]) -> str:
    return f"--IPController.ports={','.join(map(str, ports))}"


@pytest.mark.parametrize(
    ("text", "tries"), [(TAKEN, 3), ("No module named 'ipyparallel'", 1)]
)
def test_taken_ports_are_tried_again_a_few_times_and_other_ends_are_not(
    ends: list[str], text: str, tries: int
) -> None:
    ends += [text] * 4

    with pytest.raises(StartFailed, match=r"already in use|No module named"):
        Cluster(ps=0, worker=1).start()

    assert len(ends) == 4 - tries
