"""Trainings that every worker's program begins by itself, on its own server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import kit
from tests.server.ports import spec_of
from tests.server.spmd_stage import MakeStage, in_turn, program
from tests.training.toy import Params, begin, fit, replayed, same_bits
from tests.zygote import forking

SGD = kit.GradientDescent()


@pytest.mark.parametrize("order", ["3210", "2013"])
def test_workers_and_servers_may_start_in_any_order(
    stage: MakeStage, order: str
) -> None:
    tasks = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]
    play, outcomes = stage(n_ps=2), []
    for number in map(int, order):
        server = play.server(*tasks[number])
        if server.task.job == "worker":
            outcomes.append(play.play(server, program()))
    runs = [outcome.result(20) for outcome in outcomes]

    assert len({run.job.run for run in runs}) == 1
    for run in runs:
        assert (run.state, run.step, len(run.metrics)) == ("done", 6, 6)
        assert same_bits(run.params, replayed(6, 2, SGD))


@pytest.mark.slow
def test_trainings_follow_each_other_and_may_differ(stage: MakeStage) -> None:
    three = ((3, "ps"), (4, "ring"), (5, "ps"))
    performed = in_turn(*(program(steps, topology=name) for steps, name in three))

    first, second = stage(n_ps=2).results(performed)

    assert [run.job.run for run in first] == [run.job.run for run in second]
    assert [run.step for run in second] == [3, 4, 5]
    assert same_bits(second[1].params, replayed(4, 2, SGD))


def test_any_worker_may_steer(stage: MakeStage) -> None:
    changed = threading.Event()

    def patient(params: Params, batch: Any) -> Any:
        assert changed.wait(10)
        return fit(params, batch)

    def steer(server: kit.Server) -> kit.Run:
        run = begin(server, patient, steps=9)
        if server.task.index == 1:
            run.topology = "ring"
            changed.set()
        return run.wait(10)

    for run in stage().results(steer):
        assert run.topology == "ring"
        assert same_bits(run.params, replayed(9, 2, SGD))


def test_single_worker_trains_alone(stage: MakeStage) -> None:
    (run,) = stage(n_ps=0, n_workers=1).results(program(topology="ring"))

    assert same_bits(run.params, replayed(6, 1, SGD))


PROGRAM = """
import sys
import kit
from tests.training.toy import DATA, fit, initial

spec = {"ps": sys.argv[1].split(","), "worker": sys.argv[2].split(",")}
server = kit.Server(spec, sys.argv[3], int(sys.argv[4]))
if sys.argv[3] == "ps":
    server.join()
run = kit.train(fit, initial(), DATA, steps=20, batch=10, cluster=server)
print(repr(run.wait(30).params["w"].tobytes().hex()))
server.stop()
"""


@pytest.mark.slow
def test_real_processes_find_each_other_and_train(tmp_path: Path) -> None:
    spec = spec_of(2, 2)
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path),  # without credentials: one of them makes some
        "KIT_RUNTIME_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    addresses = [",".join(spec[job]) for job in ("ps", "worker")]

    def start(job: str, index: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *addresses, job, str(index)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    tasks = [("worker", 1), ("ps", 0), ("worker", 0), ("ps", 1)]
    with forking():
        processes = {task: start(*task) for task in tasks}
    try:
        printed = [
            processes["worker", index].communicate(timeout=40)[0] for index in (0, 1)
        ]
        ends = [processes["worker", index].returncode for index in (0, 1)]
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()

    wanted = replayed(20, 2, SGD)["w"].tobytes().hex()
    assert printed == [f"{wanted!r}\n"] * 2
    assert ends == [0, 0]
