"""The meter's bytes beside the kernel's own, over TCP on this machine."""

from __future__ import annotations

import numpy as np
import pytest

import kit
from benchmarks.kernel_count import kernel_count
from kit.errors import InvalidArgumentError
from kit.settings import Settings
from kit.testing.cluster import local_cluster
from kit.testing.streams import memory_pair
from tests.net.models import Array
from tests.wire.counted import count_data_links

HEADER = 64
HELLO = 4_000  # our own handshake, on one link
SIZE = 20_000
STEPS = 3


def step(params: dict[str, Array], batch: object) -> tuple[float, dict[str, Array]]:
    return 1.0, {"w": params["w"] + 1}


@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_kernel_sees_the_payload_and_the_frames_and_no_more(topology: str) -> None:
    settings = Settings(transport="tcp", insecure=True)
    with local_cluster(ps=1, worker=2, settings=settings) as cluster:
        counts = [count_data_links(server) for server in cluster.servers]
        with kit.settings(**settings.as_plain()):
            run = kit.train(
                step,
                {"w": np.zeros(SIZE, np.float32)},
                np.zeros((8, 1), np.float32),
                topology=topology,
                steps=STEPS,
                batch=4,
                cluster=cluster,
            ).wait(20)
        for server in cluster.servers:
            assert server.trainings.find(run.job.run).join(5)

        totals = run.trace.totals
        for number, count in enumerate(counts):
            mine = totals[totals["destination"] == number]
            framed = int(mine["bytes"].sum() + HEADER * mine["messages"].sum())
            assert framed <= count.received <= framed + 2 * HELLO
        # Those of the plan, and each task's to the coordinator, the first worker.
        n_links = {"ps": [2, 2, 2], "ring": [1, 2, 1]}[topology]
        assert [len(count.links) for count in counts] == n_links
        sent = sum(count.acked for count in counts)
        # The opening and the closing of each direction count as a byte.
        assert 0 <= sent - sum(count.received for count in counts) <= 2 * 2 * 3
        assert all(entry.agrees for entry in run.traffic)


def test_stream_that_is_no_tcp_has_no_kernel_account() -> None:
    near, far = memory_pair()
    try:
        with pytest.raises(InvalidArgumentError, match="transport='tcp'"):
            kernel_count(near)
    finally:
        near.close()
        far.close()
