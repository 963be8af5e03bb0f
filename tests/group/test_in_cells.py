"""Groups in cells and calls of a real cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.cluster.cells.failures import rendered
from kit.cluster.cells.on import CellFailed, TaskLostInCell
from kit.errors import PeerLost
from kit.testing.task_process import until

pytestmark = [pytest.mark.slow, pytest.mark.engines]

BEGIN = """
import kit, numpy as np
group = kit.group()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    with kit.Cluster(ps=1, worker=3) as running:
        yield running


def said(cluster: kit.Cluster, code: str) -> list[str]:
    return [output.stdout.strip() for output in cluster.on("worker", code)]


def failed(cluster: kit.Cluster, code: str) -> str:
    with pytest.raises(CellFailed) as caught:
        cluster.on("worker", code, timeout_s=30)
    shown = "\n".join(rendered(caught.value.failures))
    assert "/kit/groups/" not in shown, shown  # no frame of ours
    assert "contextlib" not in shown, shown
    return "\n".join(failure.line for failure in caught.value.failures)


def answers(cluster: kit.Cluster) -> bool:
    """Whether cells run again: an engine refuses them for a moment after an error."""
    try:
        return bool(cluster.on("worker", "1"))
    except CellFailed:
        return False


@pytest.mark.lasting("descriptor", "thread")
def test_tasks_of_a_cell_find_each_other_and_go_on_in_the_next(
    cluster: kit.Cluster,
) -> None:
    cluster.on("worker", BEGIN)

    sums = said(cluster, "print(group.all_reduce(np.arange(4.0)))")
    ranks = said(cluster, "print(group.rank, group.size, group.all_gather(group.rank))")
    counted = said(cluster, "print(group.traffic.measured, group.traffic.formula)")

    assert sums == ["[0. 3. 6. 9.]"] * 3
    assert ranks == [f"{rank} 3 [0, 1, 2]" for rank in range(3)]
    assert len({*counted}) == 1
    assert counted[0].split()[0] == counted[0].split()[1]


@pytest.mark.lasting("descriptor", "thread")
def test_function_of_a_call_has_the_group_of_its_tasks(cluster: kit.Cluster) -> None:
    def mean(seed: int) -> Any:
        import kit

        with kit.group() as group:
            return group.size, group.all_reduce(float(group.rank + seed), op="mean")

    assert cluster.call("worker", mean, 1) == [(3, 2.0)] * 3
    assert cluster.call(["ps:0", "worker:0"], mean, 2) == [(2, 2.5)] * 2


@pytest.mark.lasting("descriptor", "thread")
def test_bits_are_those_of_a_training(cluster: kit.Cluster) -> None:
    def total() -> Any:
        import numpy as np

        import kit

        with kit.group() as group:
            rng = np.random.default_rng(group.rank)
            return group.all_reduce(rng.standard_normal(1001).astype(np.float32))

    def step(params: Any, batch: Any) -> Any:
        rng = np.random.default_rng(kit.this_server().task.index)
        return 0.0, {"w": rng.standard_normal(1001).astype(np.float32)}

    run = kit.train(
        step,
        {"w": np.zeros(1001, np.float32)},
        (np.arange(3),),
        batch=3,
        steps=1,
        optimizer=kit.GradientDescent(1.0),
        topology="ring",
        cluster=cluster,
    ).wait(60)
    result = cluster.call("worker", total)[0]

    weight = np.float32(1 / 3)
    assert np.array_equal(run.params["w"], -(result * weight) * np.float32(1.0))


@pytest.mark.lasting("descriptor", "thread")
def test_calls_that_differ_are_named_with_their_lines(cluster: kit.Cluster) -> None:
    cluster.on("worker", BEGIN)
    code = (
        "if group.rank == 1:\n    group.broadcast(np.ones(3), root=1)\n"
        "group.all_reduce(np.ones(3, np.float32))"
    )

    text = failed(cluster, code)

    assert "call 1: worker:0, worker:2 are in all_reduce(float32[3]) at line 3" in text
    assert "worker:1 is in broadcast(float64[3], root=1) at line 2 of the cell" in text
    assert said(cluster, "print(group.all_reduce(2))") == ["6"] * 3


@pytest.mark.lasting("descriptor", "thread")
def test_task_that_left_the_cell_is_named(cluster: kit.Cluster) -> None:
    cluster.on("worker", BEGIN)
    begun = time.monotonic()

    text = failed(
        cluster,
        "x = 1\nif group.rank == 1:\n    raise ValueError('no')\ngroup.barrier()",
    )

    assert "worker:1 raised ValueError: no" in text
    assert "worker:1 left the cell: ValueError at line 3 of the cell" in text
    assert "call 1, barrier() at line 4 of the cell waits in vain" in text
    assert time.monotonic() - begun < 10
    assert said(cluster, "print(group.all_reduce(2))") == ["6"] * 3


@pytest.mark.lasting("descriptor", "thread")
def test_interrupt_ends_a_call_everywhere_and_the_group_goes_on(
    cluster: kit.Cluster,
) -> None:
    cluster.on("worker", BEGIN)
    code = "if group.rank == 1:\n    import time; time.sleep(60)\ngroup.barrier()"

    with pytest.raises(kit.errors.DeadlineExceededError):
        cluster.on("worker", code, timeout_s=2)
    until(lambda: answers(cluster), 20)

    assert said(cluster, "print(group.all_reduce(2))") == ["6"] * 3


@pytest.mark.lasting("descriptor", "thread")
def test_training_and_group_work_at_the_same_time(cluster: kit.Cluster) -> None:
    def step(params: Any, batch: Any) -> Any:
        return 0.0, {"w": np.ones(8, np.float32)}

    run = kit.train(
        *(step, {"w": np.zeros(8, np.float32)}, (np.arange(30),)),
        batch=3,
        steps=10**6,
        topology="ring",
        cluster=cluster,
    )
    cluster.on("worker", BEGIN)
    sums = said(cluster, "print(sum(group.all_reduce(1) for _ in range(50)))")
    run.stop()

    assert sums == ["150"] * 3
    assert run.wait(30).step > 0


@pytest.mark.lasting("descriptor", "thread", "process")
def test_lost_task_ends_the_call_of_the_others(cluster: kit.Cluster) -> None:
    cluster.on("worker", BEGIN)
    begun = time.monotonic()

    with pytest.raises(TaskLostInCell) as lost:
        cluster.on(
            "worker",
            "group.barrier()\nif group.rank == 1:\n    import os; os._exit(9)\n"
            "group.all_reduce(np.ones(3))",
        )
    limit_s = kit.Settings().dead_after_s + 2

    assert time.monotonic() - begun < limit_s
    assert lost.value.failures[0].line.startswith("PeerLost: worker:1 exited")
    heard = [f for f in lost.value.failures if f.task.index != 1]
    assert [f.task.short for f in heard] == ["worker:0", "worker:2"]
    for failure in heard:
        assert failure.text.startswith("worker:1 is lost: its process has "), heard
        assert "in call 2, all_reduce(float64[3]) at line 4 of the cell" in failure.text
        assert failure.text.endswith("Restart it, and make a new group.")
    cluster.restart("worker:1")
    cluster.on("worker", BEGIN)
    assert said(cluster, "print(group.all_reduce(2))") == ["6"] * 3


def test_task_that_is_silent_is_named_in_all_others_in_time(tmp_path: Path) -> None:
    def program(folder: Path) -> None:
        import os
        import signal
        import time

        import kit

        with kit.group() as group:
            group.barrier()
            if group.rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            begun = time.monotonic()
            try:
                group.all_reduce(1.0)
            except kit.errors.PeerLost as error:
                ended = f"{time.monotonic() - begun} {error}"
                (folder / str(group.rank)).write_text(ended)
                raise

    quick = {"heartbeat_s": 0.1, "suspect_after_s": 0.5, "dead_after_s": 2.0}
    with kit.settings(**quick), kit.Cluster(worker=3) as stopping:
        with pytest.raises(PeerLost, match="worker:1"):
            stopping.call("worker", program, tmp_path)
        until(lambda: len(list(tmp_path.iterdir())) == 2, 10)
        for rank in (0, 2):
            waited_s, _, words = (tmp_path / str(rank)).read_text().partition(" ")
            assert float(waited_s) < 2.0 + 2
            assert words.startswith("worker:1 is lost: it has not answered for")
