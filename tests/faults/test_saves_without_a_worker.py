"""A training with backup workers is saved on although one of them was killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.settings import settings
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from tests.faults import model
from tests.faults.backups import BACKUP, LONG, N, R, endless, replayed
from tests.training.backups import ranks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(90),
    pytest.mark.lasting("process", "descriptor"),
]

EVERY = 10


@pytest.fixture(scope="module")
def cluster() -> Iterator[ProcessCluster]:
    with process_cluster(ps=2, worker=N) as running:
        yield running


def begin(cluster: ProcessCluster, folder: Path, steps: int, crash: str) -> kit.Run:
    with settings(heartbeat_s=0.1, crash=crash):
        return kit.train(
            model.step,
            model.initial(),
            endless,
            optimizer=kit.Momentum(model.RATE, model.DECAY),
            aggregate=R,
            steps=steps,
            batch=N,
            cluster=cluster,
            checkpoint=kit.Checkpoints(str(folder), every_steps=EVERY, keep=100),
        )


def test_lost_worker_keeps_nobody_from_saving_what_the_others_do(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    run = begin(cluster, tmp_path, LONG, f"{BACKUP}@20+:compute.done:SIGKILL")
    assert cluster[BACKUP].wait_for_death(30) == -signal.SIGKILL
    until(lambda: bool(run.lost), 30)
    lost_at = run.step

    saved = run.save().wait(30)
    until(lambda: (run.checkpoints.last or saved).step >= saved.step + EVERY, 30)
    run.stop()
    run.wait(30)

    assert saved.step >= lost_at
    made_of = ranks(run)
    values = kit.load_checkpoint(tmp_path)
    assert values.step == run.step
    assert model.same_bits(run.params, replayed(made_of))
    for step in {saved.step, values.step}:
        result = kit.load_checkpoint(tmp_path / f"step-{step}")
        want = replayed(made_of[:step])
        assert model.same_bits({name: result[name] for name in want}, want)

    cluster.restart_dead()
    again = begin(cluster, tmp_path, run.step + 5, "").wait(30)
    assert again.resumed_from is not None
    assert (again.resumed_from.step, again.step) == (run.step, run.step + 5)
