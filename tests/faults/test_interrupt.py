"""Ctrl-C while a notebook waits: the training pauses between two steps."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

import kit
from kit.settings import settings
from kit.testing.cluster import local_cluster
from kit.testing.task_process import until
from kit.training.client.observer import Observer
from tests.faults import model, scene
from tests.training.paced import settled

STEPS = 100_000


def press_ctrl_c(is_over: threading.Event) -> None:
    """Interrupt the main thread as soon as it waits for a training, until that is over.

    An interrupt that comes while hypothesis counts garbage collections is lost.
    """

    def is_waiting() -> bool:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None and frame.f_code is not Observer.wait.__code__:
            frame = frame.f_back
        return frame is not None

    until(is_waiting, 20)
    while not is_over.is_set():
        os.kill(os.getpid(), signal.SIGINT)
        is_over.wait(10)


@pytest.mark.slow
def test_ctrl_c_pauses_between_two_steps_and_resume_goes_on(tmp_path: Path) -> None:
    with settings(history=str(tmp_path)), local_cluster(ps=1, worker=2) as cluster:
        run = kit.train(
            model.step,
            model.initial(),
            model.data(STEPS, 2),
            steps=STEPS,
            batch=2,
            optimizer=kit.Momentum(model.RATE, model.DECAY),
            cluster=cluster,
        )
        until(lambda: run.step > 0, 20)
        is_over = threading.Event()
        presser = threading.Thread(target=press_ctrl_c, args=[is_over])
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            run.wait()
        is_over.set()
        presser.join(20)

        until(lambda: run.state == "paused", 10)
        at = settled(run)
        assert model.same_bits(run.params, model.replayed(at, 2))
        run.resume()
        until(lambda: run.step > at, 10)
        run.stop()
        run.wait(20)

        assert run.state == "done"
        assert model.same_bits(run.params, model.replayed(run.step, 2))
    scene.assert_history_holds(tmp_path)
