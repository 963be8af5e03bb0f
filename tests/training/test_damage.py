"""One bit of a member's parameters that is flipped in memory ends the training."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.errors import DataLossError
from kit.exchange.layout import Range
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.core.context import MemberContext
from tests.training.saved import names, train
from tests.training.toy import Params, fit, quick_cluster

MANY = 1_000_000
BEFORE = 7  # the step whose parameters are damaged while it is computed


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as result:
        yield result


def context_of(cluster: LocalCluster, task: str) -> MemberContext:
    """Return a member's context in the training under way."""
    for server in cluster.servers:
        member = server.trainings.member
        if (
            server.task.short == task
            and member is not None
            and member.context is not None
        ):
            return member.context
    raise AssertionError(f"{task} takes no part")


class Flip:
    """A step that flips one bit of a member's parameters while step `BEFORE` is done.

    The first worker to come there does it, when all members have come there too: none
    of them is ready before this worker is, so the parameters are in use everywhere.
    """

    def __init__(self, cluster: LocalCluster, task: str) -> None:
        self._cluster, self._task = cluster, task
        self._guard = threading.Lock()
        self.is_done = False

    def __call__(self, params: Params, batch: Any) -> Any:
        own = context_of(
            self._cluster, threading.current_thread().name[-len("worker:0") :]
        )
        with self._guard:
            if own.step == BEFORE and not self.is_done:
                until(self._all_are_there, 10)
                self._flip(context_of(self._cluster, self._task))
        return fit(params, batch)

    def _all_are_there(self) -> bool:
        contexts = [
            context_of(self._cluster, server.task.short)
            for server in self._cluster.servers
        ]
        return all(
            context.step == BEFORE for context in contexts if context.digests._shares
        )

    def _flip(self, context: MemberContext) -> None:
        shares = context.digests._shares
        ranges = shares[min(shares)]  # of a server its own, of a worker the first one's
        position = next(item.lo for item in ranges if item.size)
        context.memory.raw(context.now, Range(position, position + 1))[0] ^= 1
        self.is_done = True


ROLES = {
    "ps": ["ps:0", "ps:1", "worker:0", "worker:2"],
    "ring": ["worker:0", "worker:2"],
    "mesh": ["worker:0", "worker:2"],
    "ring-whole": ["worker:0", "worker:2"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "task"),
    [(topology, task) for topology, tasks in ROLES.items() for task in tasks],
)
def test_bit_that_flips_in_memory_ends_the_training_before_a_save(
    cluster: LocalCluster, tmp_path: Path, topology: str, task: str
) -> None:
    flip = Flip(cluster, task)

    run = train(cluster, tmp_path, MANY, step=flip, topology=topology, every=1)
    with pytest.raises(DataLossError) as caught:
        run.wait(20)

    assert flip.is_done
    assert caught.value.task == f"/job:{task.replace(':', '/task:')}"
    assert caught.value.step == BEFORE
    # They were saved when the step began, and differ since.
    assert re.search("All were the same before step [67][.]", caught.value.message)
    committed = [name for name in names(tmp_path) if ".tmp-" not in name]
    assert all(int(name.removeprefix("step-")) <= BEFORE for name in committed)
