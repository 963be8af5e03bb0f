"""Ctrl-C while a notebook waits: the training pauses between two steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.faults import history

# What a kernel does, without a kernel: it begins a training and waits for it.
KERNEL = """
import json, os, signal, sys, threading
from kit.settings import settings
from kit.testing.cluster import local_cluster
from kit.testing.task_process import until
from kit.training.client.observer import Observer
from tests.faults import model
from kit.training.train import train
from kit.training.optimizers.rules import Momentum

def is_waiting():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code is not Observer.wait.__code__:
        frame = frame.f_back
    return frame is not None

def interrupt():
    until(is_waiting, 20)
    os.kill(os.getpid(), signal.SIGINT)

steps, folder = int(sys.argv[1]), sys.argv[2]
with settings(history=folder), local_cluster(ps=1, worker=2) as cluster:
    run = train(
        model.step, model.initial(), model.data(steps, 2), steps=steps, batch=2,
        optimizer=Momentum(model.RATE, model.DECAY), cluster=cluster,
    )
    until(lambda: run.step > 0, 20)
    threading.Thread(target=interrupt).start()
    try:
        run.wait()
        raise SystemExit("the training ended before the interrupt came")
    except KeyboardInterrupt:
        pass
    members = [server.trainings.find(run.job.run) for server in cluster.servers]
    agreement = members[1].coordinator._agreement

    def stands():
        last = agreement.boundaries[max(agreement.boundaries)]
        return len(last.arrived) == len(members) and last.verdict.value == "wait"

    until(lambda: stands() and run.state == "paused", 10)
    (at,) = {member.step for member in members}
    paused, state = run.params, run.state
    run.resume()
    until(lambda: run.step > at, 10)
    run.stop()
    run.wait(20)
    print(json.dumps({
        "at": at, "end": run.step, "states": [state, run.state],
        "paused": model.same_bits(paused, model.replayed(at, 2)),
        "ended": model.same_bits(run.params, model.replayed(run.step, 2)),
    }))
"""


@pytest.mark.slow
def test_ctrl_c_pauses_between_two_steps_and_resume_goes_on(tmp_path: Path) -> None:
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL, "100000", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with kernel:
        try:
            output, errors = kernel.communicate(timeout=40)
        finally:
            kernel.kill()

    assert kernel.returncode == 0, errors
    result = json.loads(output)
    assert result["states"] == ["paused", "done"]
    assert result["end"] > result["at"] > 0
    assert result["paused"] is True
    assert result["ended"] is True
    assert history.check(history.read(tmp_path)) == []
