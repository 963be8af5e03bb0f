"""How long an elastic training stands still when it loses a task, and what that costs.

    python -m benchmarks.losses [--quick] [--json FILE] [--model NAME ...] [--kills N]
        [--turns N]

A server and three workers in separate processes. Tasks are killed in turn at random
moments; each is restarted and takes part again before the next one is killed. The time
is from the kill to the end of the first step that had not been committed before. The
second table compares the rate of steps with and without `elastic`, by turns. Where an
interpreter (`--python`) has PyTorch, a rank of its DDP is killed as well, under
`torch.distributed.run`, which starts all ranks again from a checkpoint; where it has
torchft, one of three replicas, whose steps go on without it, with other results.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import kit
from benchmarks.mlp import BATCH
from benchmarks.peers import Peer, find_peers
from benchmarks.problem import make, stored
from benchmarks.rank_group import ROOT
from benchmarks.results import Table, arguments, median, report
from kit.task import Task
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until

MODELS = ("small", "large")
_WAIT_S = 60.0
_RESTART_S = 300.0  # each rank loads PyTorch anew
_SETTLED_S = 0.5  # of training between two events, at most
_STILL_NS = 200_000_000  # what DDP does later than that after a kill, new ranks do
_WORKERS = 3
_PEERS = {"gloo": "torch.distributed.run", "torchft": "torchft"}


def begin(cluster: ProcessCluster, name: str, steps: int, *, elastic: bool) -> kit.Run:
    """Begin a training of a model with Adam."""
    problem = make(name)
    return kit.train(
        problem.write(),
        problem.params,
        problem.examples,
        optimizer=kit.Adam(1e-3),
        topology="ps",
        steps=steps,
        batch=_WORKERS * BATCH,
        elastic=elastic,
        cluster=cluster,
    )


def kills(name: str, n_kills: int) -> list[dict[str, Any]]:
    """Kill a task so often; returns what each loss has cost, in seconds and steps."""
    dice, result = random.Random(0), []
    with process_cluster(1, _WORKERS) as cluster:
        run = begin(cluster, name, 10_000_000, elastic=True)
        for number in range(n_kills):
            task = cluster.tasks[number % len(cluster.tasks)]
            until(lambda: run.copied >= 0, _WAIT_S)
            time.sleep(dice.uniform(0, _SETTLED_S))
            result.append(_kill(cluster, run, task))
            _take_back(cluster, run, task)
        run.stop()
        run.wait(_WAIT_S)
    return result


def _kill(cluster: ProcessCluster, run: kit.Run, task: Task) -> dict[str, Any]:
    n_losses, at = len(run.losses), time.monotonic_ns()
    cluster[task].signal(signal.SIGKILL)
    until(lambda: len(run.losses) > n_losses or run.done, _WAIT_S)
    if run.error is not None:
        raise run.error
    loss = run.losses[-1]
    until(lambda: run.step > loss.step, _WAIT_S)
    until(lambda: _first_after(run, loss.step) is not None, _WAIT_S)
    end = _first_after(run, loss.step)
    assert end is not None, "it was waited for"
    return {
        "task": task.short,
        "seconds": (end - at) * 1e-9,
        "repeated": loss.repeated,
        "agreed": loss.seconds,
    }


def _first_after(run: kit.Run, step: int) -> int | None:
    """Return when the first share of a step not before `step` ended, since the loss."""
    trace = run.trace
    is_new = trace.steps["epoch"] == trace.epochs[-1].number
    ends = trace.steps["end"][is_new & (trace.steps["step"] >= step)]
    return int(ends.min()) if len(ends) else None


def _take_back(cluster: ProcessCluster, run: kit.Run, task: Task) -> None:
    before = len(run.history())
    cluster.restart_dead()
    cluster.join(run, task)
    until(lambda: len(run.history()) > before, _WAIT_S)


def elastic_torch(peer: Peer, name: str, n_kills: int) -> list[dict[str, Any]]:
    """Kill a rank of three under `torch.distributed.run` so often; as `kills`."""
    result = []
    with tempfile.TemporaryDirectory() as path, stored(name) as problem:
        folder = Path(path)
        command = [peer.python, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={_WORKERS}", f"--max-restarts={n_kills}"]
        command += ["--monitor-interval=0.1", "-m", "benchmarks.losses_rank"]
        with subprocess.Popen(
            [*command, path, str(problem)],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                for number in range(n_kills):
                    result.append(_kill_rank(folder, number % _WORKERS))
            finally:
                process.terminate()
    return result


def _kill_rank(folder: Path, rank: int) -> dict[str, Any]:
    steps = folder / "steps"
    before = len(_progress(steps))
    until(lambda: len(_progress(steps)) > before + 100, _RESTART_S)
    time.sleep(_SETTLED_S)
    pid, at = int((folder / f"{rank}.pid").read_text()), time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)

    def done() -> tuple[int, list[tuple[int, int]]]:
        """Return the last step before the loss, and what was reported since."""
        reply = _progress(steps)
        last = max(step for step, end in reply if end <= at + _STILL_NS)
        return last, [(step, end) for step, end in reply if end > at + _STILL_NS]

    until(lambda: any(step > done()[0] for step, _ in done()[1]), _RESTART_S)
    last, since = done()
    seconds = (min(end for step, end in since if step > last) - at) * 1e-9
    again = last - min(step for step, _ in since) + 1
    return {"task": f"rank {rank}", "seconds": seconds, "repeated": again}


def elastic_torchft(peer: Peer, name: str, n_kills: int) -> list[dict[str, Any]]:
    """Kill a replica of three under torchft so often; as `kills`."""
    result = []
    with (
        tempfile.TemporaryDirectory() as path,
        stored(name) as problem,
        Children([peer.python, "-m", "benchmarks.losses_torchft", path]) as children,
    ):
        folder = Path(path)
        children.start("lighthouse")
        until((folder / "address").exists, _RESTART_S)
        for number in range(_WORKERS):
            children.start(number, str(problem), str(number))
        for kill in range(n_kills):
            result.append(_kill_replica(folder, children, kill % _WORKERS))
            children.start(kill % _WORKERS, str(problem), str(kill % _WORKERS))
    return result


def _kill_replica(folder: Path, children: Children, number: int) -> dict[str, Any]:
    def steps_of() -> list[list[tuple[int, int]]]:
        return [_progress(folder / f"steps-{n}") for n in range(_WORKERS)]

    before = list(map(len, steps_of()))
    # All take part, those that were started again too.
    until(
        lambda: all(
            len(item) > n + 100 for item, n in zip(steps_of(), before, strict=True)
        ),
        _RESTART_S,
    )
    time.sleep(_SETTLED_S)
    at = time.monotonic_ns()
    children.kill(number)
    last = max(
        step for text in steps_of() for step, end in text if end <= at + _STILL_NS
    )

    def since() -> list[int]:
        others = (item for n, item in enumerate(steps_of()) if n != number)
        return [end for other in others for step, end in other if step > last]

    until(lambda: bool(since()), _RESTART_S)
    seconds = (min(since()) - at) * 1e-9
    return {"task": f"replica {number}", "seconds": seconds, "repeated": 0}


class Children:
    """Processes of one command with different arguments; all end with the block."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._running: dict[str | int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._running:
            self.kill(name)

    def start(self, name: str | int, *arguments: str) -> None:
        """Start one that is known by a name from now on."""
        self._running[name] = subprocess.Popen(
            [*self._command, *arguments],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, name: str | int) -> None:
        """Kill one, and wait until it is gone."""
        self._running[name].kill()
        self._running[name].wait(_WAIT_S)


def _progress(path: Path) -> list[tuple[int, int]]:
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (line.split() for line in lines)
    return [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2]


def rates(name: str, turns: int, seconds: float) -> dict[str, list[float]]:
    """Return steps a second, with copies and without, measured by turns."""
    result: dict[str, list[float]] = {"elastic": [], "plain": []}
    with process_cluster(1, _WORKERS) as cluster:
        for turn in range(turns):
            for kind in sorted(result, reverse=turn % 2 == 1):
                run = begin(cluster, name, 10_000_000, elastic=kind == "elastic")
                until(lambda run=run: run.step > 2, _WAIT_S)  # type: ignore[misc]
                time.sleep(seconds)
                run.stop()
                run.wait(_WAIT_S)
                rows = run.trace.steps[run.trace.steps["task"] == run.job.coordinator]
                spent = (rows["end"][-1] - rows["end"][0]) * 1e-9
                result[kind].append(float(rows["step"][-1] - rows["step"][0]) / spent)
    return result


def main() -> None:
    """Measure each model, print the tables, write the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--model", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--kills", type=int, metavar="N", help="of each model")
    parser.add_argument(
        "--turns", type=int, metavar="N", help="with and without copies"
    )
    options = parser.parse_args()
    n_kills = options.kills or (8 if options.quick else 150)
    turns = options.turns or (4 if options.quick else 24)
    seconds = 1.0 if options.quick else 2.0
    result = {
        name: {"kills": kills(name, n_kills), "rates": rates(name, turns, seconds)}
        for name in options.model
    }
    peers = find_peers(options.python, ["gloo", "torchft"])
    measured = {"gloo": elastic_torch, "torchft": elastic_torchft}
    for peer, measure in measured.items():
        for name in options.model if peer in peers else ():
            n_kills = 3 if options.quick else 10
            result[name][_PEERS[peer]] = measure(peers[peer], name, n_kills)
    report(_table(result), result, options.json)


def _table(result: dict[str, Any]) -> Table:
    rows = []
    for name, row in result.items():
        pairs = zip(row["rates"]["elastic"], row["rates"]["plain"], strict=True)
        share = median([elastic / plain for elastic, plain in pairs])
        rows.append((name, *_cells(row["kills"]), f"{100 * share:.1f} %"))
        for peer in _PEERS.values():
            theirs = _cells(row[peer]) if peer in row else ("missing", *3 * [""])
            rows.append((f"{name}, {peer}", *theirs, ""))
    head = ("model", "p50", "p99", "worst", "steps again", "rate")
    note = (
        "Milliseconds from a kill to the next new step, with Adam on a server and "
        "three workers; steps done again (median); steps a second beside a training "
        "that is not elastic (median of paired stretches). torch.distributed.run: DDP "
        "over Gloo on three ranks, with a checkpoint every fifth of a second. torchft: "
        "three replicas over Gloo, found dead after five seconds of silence, its "
        "default; no step is done again, and a broken one's examples are skipped."
    )
    return Table("The loss of a task", (note,), head, tuple(rows))


def _cells(kills: list[dict[str, Any]]) -> tuple[str, ...]:
    seconds = [kill["seconds"] for kill in kills]
    at = (*np.percentile(seconds, (50, 99)), max(seconds))
    again = median([kill["repeated"] for kill in kills])
    return (*(f"{1e3 * s:.0f}" for s in at), f"{again:.0f}")


if __name__ == "__main__":
    main()
