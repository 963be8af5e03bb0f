"""A parameter server is killed and started again: what a monitored session makes of it.

Real processes: the server is another one than that of the worker under test.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit import tf1 as tf
from tests.tf1.monitored.counting import Told, counting
from tests.tf1.monitored.ps_process import PsProcess, ps_process
from tests.tf1.servers import addresses

pytestmark = pytest.mark.slow

Cluster = tuple[PsProcess, str]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A parameter server in a process, and the target of a worker in this one."""
    ps, worker = addresses(2)
    with ps_process([ps], [worker]) as process, tf.Graph().as_default():
        server = tf.train.Server({"ps": [ps], "worker": [worker]}, "worker", 0)
        yield process, server.target


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.message for record in caplog.records if record.levelno >= logging.WARNING
    ]


def test_chief_goes_on_at_its_last_checkpoint_and_tells_what_is_lost(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process, target = cluster
    total, count = counting()
    hook = Told()

    with tf.train.MonitoredTrainingSession(
        target, checkpoint_dir=str(tmp_path), save_checkpoint_steps=4, hooks=[hook]
    ) as session:
        before = [int(session.run(count)) for _ in range(7)]
        process.kill()
        process.start_again()
        after = [int(session.run(count)) for _ in range(2)]
        value = session.run(total)

    # Saved at step 0 and then as soon as a run has made it 4 steps since.
    assert before == [1, 2, 3, 4, 5, 6, 7]
    assert after == [5, 6]
    assert value == 106.0
    assert hook.book.count("created") == 2
    (line,) = [warning for warning in warnings(caplog) if "steps are lost" in warning]
    assert line.startswith("ps:0 came back empty; restored ")
    assert "model.ckpt-4; goes on at step 4; 3 steps are lost." in line


def test_without_checkpoints_everything_begins_anew(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    process, target = cluster
    total, count = counting()

    with tf.train.MonitoredTrainingSession(
        target, hooks=[tf.train.StopAtStepHook(last_step=100)]
    ) as session:
        for _ in range(3):
            session.run(count)
        process.kill()
        process.start_again()
        result = session.run([count, total])

    assert [float(number) for number in result] == [1.0, 101.0]
    (line,) = [warning for warning in warnings(caplog) if "steps are lost" in warning]
    assert "initialised all variables anew; goes on at step 0; 3 steps are lost" in line


def test_run_waits_for_a_server_that_comes_back_later(
    cluster: Cluster, tmp_path: Path
) -> None:
    process, target = cluster
    _, count = counting()
    result: list[int] = []

    with tf.train.MonitoredTrainingSession(
        target, checkpoint_dir=str(tmp_path), save_checkpoint_steps=1
    ) as session:
        session.run(count)
        process.kill()
        thread = threading.Thread(target=lambda: result.append(session.run(count)))
        thread.start()
        thread.join(1.0)
        was_waiting = thread.is_alive()
        process.start_again()
        thread.join(30.0)

    assert was_waiting
    assert result == [2]


def test_server_that_stays_away_ends_in_a_deadline_that_names_it(
    cluster: Cluster,
) -> None:
    process, target = cluster
    _, count = counting()
    hook = Told()
    config = tf.ConfigProto(operation_timeout_in_ms=1_000)
    session = tf.train.MonitoredTrainingSession(target, hooks=[hook], config=config)
    session.run(count)
    process.kill()

    with (
        pytest.raises(tf.errors.DeadlineExceededError, match=r"/job:ps/task:0.*Start"),
        session,
    ):
        session.run(count)

    assert "end" not in hook.book


def test_worker_waits_until_the_chief_has_made_all_ready_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    process, target = cluster
    _, count = counting()
    chief = tf.train.MonitoredTrainingSession(
        target, checkpoint_dir=str(tmp_path), save_checkpoint_steps=2
    )
    graph = tf.get_default_graph()
    result: list[Any] = []

    def work() -> None:
        with graph.as_default():
            worker = tf.train.MonitoredTrainingSession(target, is_chief=False)
            result.append(int(worker.run(count)))
            go_on.wait(20.0)
            result.append(int(worker.run(count)))
            worker.close()

    go_on = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    while not result:
        thread.join(0.05)
    chief.run(count)
    process.kill()
    process.start_again()
    go_on.set()
    thread.join(0.5)
    was_waiting = thread.is_alive()
    restored = int(chief.run(count))
    thread.join(30.0)
    chief.close()

    assert result[0] == 1
    assert was_waiting
    assert sorted([restored, result[1]]) == [3, 4]  # the first to come counts first


def test_singular_session_ends_with_the_loss(cluster: Cluster) -> None:
    process, target = cluster
    _, count = counting()

    session = tf.train.SingularMonitoredSession(master=target)
    session.run(count)
    process.kill()
    process.start_again()

    with pytest.raises(tf.errors.AbortedError, match="restarted"), session:
        session.run(count)


def test_chief_that_begins_again_tells_what_it_undoes(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, target = cluster
    _, count = counting()
    first = tf.train.MonitoredTrainingSession(
        target, checkpoint_dir=str(tmp_path), save_checkpoint_steps=100
    )
    for _ in range(3):
        first.run(count)
    # As if its process were killed: nothing is saved at the end.
    with pytest.raises(KeyboardInterrupt), first:
        raise KeyboardInterrupt

    with tf.train.MonitoredTrainingSession(
        target, checkpoint_dir=str(tmp_path)
    ) as second:
        step = int(second.run(count))

    assert step == 1
    (line,) = [warning for warning in warnings(caplog) if "undone" in warning]
    assert "was at step 3" in line
    assert "model.ckpt-0, step 0: 3 steps are undone" in line
