"""One process of the training benchmark: `python -m benchmarks.training_rank`.

Arguments: rank, number of ranks, system, number of servers. `kit` is a task: the first
ranks are parameter servers, the others workers, each with a real `kit.Server` and the
data of a training. `ddp` is a rank of PyTorch's DistributedDataParallel over Gloo. Both
answer with the moments, in machine-wide nanoseconds, at which each step was complete,
and the losses.
"""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import mlp
from benchmarks.problem import Problem, load
from benchmarks.rank_group import obey

Times = dict[str, Any]
_WAIT_S = 300.0


class KitTask:
    """A task's server in this process, without an engine around it."""

    def __init__(self, rank: int, n_ps: int) -> None:
        is_server = rank < n_ps
        self._job = "ps" if is_server else "worker"
        self._index = rank if is_server else rank - n_ps
        self._server: Any = None
        self._member: Any = None
        self._watched: Any = None
        self._cursors = [0, 0, 0]

    def listen(self, folder: str, credentials: dict[str, str]) -> str:
        """Start the server; returns its address."""
        from kit.server.server import Server
        from kit.settings import Settings
        from kit.wire.handshake.credentials import Credentials

        path = f"unix:{folder}/{self._job}-{self._index}.sock"
        self._server = Server(
            {self._job: {self._index: path}},
            credentials=Credentials.from_plain(credentials),
            settings=Settings(runtime_dir=folder),
        )
        return str(self._server.address)

    def connect(self, spec: dict[str, list[str]]) -> None:
        """Learn where the other tasks are."""
        self._server.connect(spec)

    def begin(self, job: dict[str, Any], path: str, writes: bool) -> None:
        """Begin this task's part of a training, if it has one.

        The step function hands its gradients over, or it `writes` them in place.
        """
        from kit.training.core.job import Job, Work

        agreed = Job.from_plain(job)
        self._member = None
        if self._server.task in agreed.tasks:
            problem = load(path)
            step = problem.write() if writes else problem.step()
            # The training lets go of the initial values; so must its data.
            work = Work(step, replace(problem, params={}), problem.params)
            is_server = self._job == "ps"
            begin = self._server.trainings.begin
            self._member = begin(agreed, None if is_server else work)

    def finish(self) -> Times:
        """Wait for the end of the training; a server's steps are left out."""
        member = self._member
        if member is None:
            return {"ends": [], "losses": []}
        if not member.join(_WAIT_S):
            raise TimeoutError(f"the training did not end in {_WAIT_S:g} s")
        member.check()
        rows, _ = member.meter.steps.since(0)
        rows = rows[rows["examples"] > 0]
        return {"ends": rows["end"].tolist(), "losses": rows["loss"].tolist()}

    def records(self) -> dict[str, Any] | None:
        """Return what the last training kept of this task; None if it had no part."""
        from kit.trace.traffic import Phase

        if self._member is None:
            return None
        meter = self._member.meter
        steps, spans, moved = (
            log.since(0)[0] for log in (meter.steps, meter.spans, meter.transfers)
        )
        spans = spans[spans["phase"] == Phase.COMPUTE]
        return {
            "steps": _columns(steps, "step", "start", "end"),
            "computed": _columns(spans, "step", "start", "end"),
            "moved": _columns(moved, "source", "step", "start", "end", "bytes"),
        }

    def look(self) -> dict[str, Any]:
        """Read the news of the training, as an observer does, and the memory."""
        from kit.training.core.news import poll

        member = self._member
        if member is None:
            return {**taken(), "over": True}
        if member is not self._watched:
            self._watched, self._cursors = member, [0, 0, 0]
        self._cursors = poll(member, self._cursors)[0]["cursors"]
        return {**taken(), "over": member.is_over}

    def record(self) -> float:
        """Record the rows of the last training again; microseconds a step it takes."""
        from kit.trace.traffic import Meter

        old = self._member.meter if self._member is not None else Meter(0)
        moved, spans = old.transfers.since(0)[0], old.spans.since(0)[0].tolist()
        columns = ("source", "kind", "epoch", "step", "bytes", "start", "end")
        moves = list(zip(*(moved[name].tolist() for name in columns), strict=True))
        again = Meter(0)
        begin = time.thread_time_ns()
        for move in moves:
            again.received(*move)
        for first in range(0, len(spans), 4):  # about as many as are noted at once
            again.spans.extend(spans[first : first + 4])
        took = time.thread_time_ns() - begin
        return took / 1000 / max(1, old.steps.added)

    def alone(self, path: str, steps: int) -> Times:
        """Train without any exchange: what one could reach if it cost nothing."""
        if self._job == "ps":
            return {"ends": [], "losses": [], **taken()}
        problem, ends, losses = load(path), [], []
        params, write = problem.params, problem.write()
        gradients = {name: np.empty_like(value) for name, value in params.items()}
        for number in range(steps):
            loss = write(params, problem.part(number, 0, 1), gradients)
            for name, gradient in gradients.items():
                gradient *= np.float32(mlp.RATE)
                params[name] -= gradient
            ends.append(time.monotonic_ns())
            losses.append(loss)
        return {"ends": ends, "losses": losses, **taken()}


def taken() -> dict[str, int]:
    """Return the bytes of this process: its share of the memory, and all it sees."""
    text = Path("/proc/self/smaps_rollup").read_text("ascii")
    result = dict(re.findall(r"^(Pss|Rss):\s+(\d+) kB", text, re.MULTILINE))
    return {name.lower(): int(size) * 1024 for name, size in result.items()}


def _columns(rows: Any, *names: str) -> list[list[int]]:
    return [list(row) for row in zip(*(rows[n].tolist() for n in names), strict=True)]


class Ddp:
    """The same model, data and optimizer in PyTorch."""

    def __init__(self, rank: int, n_ranks: int) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        init = f"file://{os.environ['BENCH_LINE']}.gloo"
        dist.init_process_group("gloo", init, rank=rank, world_size=n_ranks)
        self._torch, self._rank, self._n = torch, rank, n_ranks

    def train(self, path: str, steps: int) -> Times:
        """Train from the same start on the same examples."""
        torch, problem = self._torch, load(path)
        net = torch.nn.parallel.DistributedDataParallel(network(torch, problem))
        optimizer = torch.optim.SGD(net.parameters(), lr=mlp.RATE)
        loss_of = torch.nn.CrossEntropyLoss()
        ends, losses = [], []
        for number in range(steps):
            batch = problem.inputs(problem.part(number, self._rank, self._n))
            x, y = (torch.from_numpy(part) for part in batch)
            optimizer.zero_grad()
            loss = loss_of(net(x), y)
            loss.backward()
            optimizer.step()
            ends.append(time.monotonic_ns())
            losses.append(float(loss))
        return {"ends": ends, "losses": losses}


def network(torch: Any, problem: Problem) -> Any:
    """Return the problem's model in PyTorch, with its initial values."""
    nn, tensor, layers = torch.nn, torch.from_numpy, []
    values = list(problem.params.values())
    if problem.text is not None:
        embedding = nn.Embedding.from_pretrained(tensor(values.pop(0)), freeze=False)
        layers += [embedding, nn.Flatten()]
    for weights, biases in zip(values[::2], values[1::2], strict=True):
        layer = nn.Linear(*weights.shape)
        layer.weight.data = tensor(weights.T.copy())
        layer.bias.data = tensor(biases)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def main() -> None:
    rank, n_ranks, system = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if system == "ddp":
        obey(rank, {"train": Ddp(rank, n_ranks).train})
        return
    task = KitTask(rank, int(sys.argv[4]))
    begun = ("listen", "connect", "begin", "finish")
    names = (*begun, "alone", "record", "look", "records")
    obey(rank, {name: getattr(task, name) for name in names})


if __name__ == "__main__":
    main()
