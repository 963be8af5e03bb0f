"""`Saver.restore` while other sessions train the same variables."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kit import tf1 as tf
from kit.testing.task_process import until
from tests.tf1.monitored.counting import counting
from tests.tf1.servers import cluster


class Training:
    """A thread that counts on, in a session of its own."""

    def __init__(self, target: Any, count: Any) -> None:
        self.error: BaseException | None = None
        self.seen: list[int] = []
        self._session, self._count = tf.Session(target, graph=count.graph), count
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="counting")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.seen.append(int(self._session.run(self._count)))
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._session.close()


@pytest.mark.slow
def test_training_goes_on_from_what_another_session_restores(tmp_path: Path) -> None:
    servers = cluster(ps=1, worker=2)
    _, count = counting()
    saver, init = tf.train.Saver(), tf.global_variables_initializer()
    with tf.Session(servers["worker"][1].target) as session:
        session.run(init)
        path = saver.save(session, str(tmp_path / "model"), global_step=0)
        training = Training(servers["worker"][0].target, count)
        until(lambda: len(training.seen) > 50, 30)

        saver.restore(session, path)
        restored_at = len(training.seen)
        until(lambda: len(training.seen) > restored_at + 20, 30)
        training.end()

    assert training.error is None
    back = [b for a, b in zip(training.seen, training.seen[1:], strict=False) if b <= a]
    assert len(back) == 1, "the count went back once: to what was restored"
    assert back[0] <= 3


@pytest.mark.slow
def test_restore_that_fails_takes_nothing_from_who_trains(tmp_path: Path) -> None:
    servers = cluster(ps=1, worker=2)
    _, count = counting()
    saver, init = tf.train.Saver(), tf.global_variables_initializer()
    with tf.Session(servers["worker"][1].target) as session:
        session.run(init)
        path = saver.save(session, str(tmp_path / "model"), global_step=0)
        (data,) = tmp_path.glob("model-0.data-*")
        damaged = bytearray(data.read_bytes())
        damaged[-1] ^= 1
        data.write_bytes(damaged)
        training = Training(servers["worker"][0].target, count)
        until(lambda: len(training.seen) > 20, 30)

        for _ in range(3):
            with pytest.raises(tf.errors.DataLossError, match="model-0"):
                saver.restore(session, path)
        training.end()

    assert training.error is None
    assert training.seen == list(range(1, len(training.seen) + 1))
