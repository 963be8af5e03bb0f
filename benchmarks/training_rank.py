"""One process of the training benchmark: `python -m benchmarks.training_rank`.

Arguments: rank, number of ranks, system. `kit` is a task: rank 0 the parameter server,
the others workers, each with a real `kit.Server` and the data of a training. `ddp` is a
rank of PyTorch's DistributedDataParallel over Gloo. Both answer with the moments, in
machine-wide nanoseconds, at which each step was complete, and the losses.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import mlp
from benchmarks.rank import obey

Times = dict[str, Any]
_WAIT_S = 300.0


class KitTask:
    """A task's server in this process, without an engine around it."""

    def __init__(self, rank: int) -> None:
        self._job, self._index = ("worker", rank - 1) if rank else ("ps", 0)
        self._server: Any = None
        self._member: Any = None
        self._watched: Any = None
        self._cursors = [0, 0, 0]

    def listen(self, folder: str, credentials: dict[str, str]) -> str:
        """Start the server; returns its address."""
        from kit.server.server import Server
        from kit.settings import Settings
        from kit.wire.credentials import Credentials

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

    def begin(self, job: dict[str, Any], model: list[int], writes: bool) -> None:
        """Begin this task's part of a training, if it has one.

        The step function hands its gradients over, or it `writes` them in place.
        """
        from kit.train.job import Job, Work

        agreed = Job.from_plain(job)
        self._member = None
        if self._server.task in agreed.tasks:
            widths = tuple(model)
            step = mlp.write if writes else mlp.step
            work = Work(step, mlp.examples(widths), mlp.parameters(widths))
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

    def look(self) -> dict[str, Any]:
        """Read the news of the training, as who watches it does, and the memory."""
        from kit.train.snapshot import poll

        member = self._member
        if member is None:
            return {**taken(), "over": True}
        if member is not self._watched:
            self._watched, self._cursors = member, [0, 0, 0]
        self._cursors = poll(member, self._cursors)[0]["cursors"]
        return {**taken(), "over": member.is_over}

    def record(self) -> float:
        """Record the rows of the last training again; microseconds a step it takes."""
        from kit.traffic import Meter

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

    def alone(self, model: list[int], steps: int) -> Times:
        """Train without any exchange: what one could reach if it cost nothing."""
        from kit.train.sources import ArraySource

        if self._job == "ps":
            return {"ends": [], "losses": [], **taken()}
        widths = tuple(model)
        params, ends, losses = mlp.parameters(widths), [], []
        gradients = {name: np.empty_like(value) for name, value in params.items()}
        source = ArraySource(mlp.examples(widths), mlp.BATCH, 0, 0, 1)
        for number in range(steps):
            x, y = source.batch(number)
            loss = mlp.write(params, (x, y), gradients)
            for name, gradient in gradients.items():
                gradient *= np.float32(mlp.RATE)
                params[name] -= gradient
            ends.append(time.monotonic_ns())
            losses.append(loss)
        return {"ends": ends, "losses": losses, **taken()}


def taken() -> dict[str, int]:
    """Return the bytes of this process: its share of the memory, and all it sees."""
    text = Path("/proc/self/smaps_rollup").read_text("ascii")
    found = dict(re.findall(r"^(Pss|Rss):\s+(\d+) kB", text, re.MULTILINE))
    return {name.lower(): int(size) * 1024 for name, size in found.items()}


class Ddp:
    """The same model, data and optimizer in PyTorch."""

    def __init__(self, rank: int, n_ranks: int) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        init = f"file://{os.environ['BENCH_LINE']}.gloo"
        dist.init_process_group("gloo", init, rank=rank, world_size=n_ranks)
        self._torch, self._rank, self._n = torch, rank, n_ranks

    def train(self, model: list[int], steps: int) -> Times:
        """Train from the same start on the same examples."""
        torch = self._torch
        net = torch.nn.parallel.DistributedDataParallel(self._network(tuple(model)))
        optimizer = torch.optim.SGD(net.parameters(), lr=mlp.RATE)
        loss_of = torch.nn.CrossEntropyLoss()
        x, y = (torch.from_numpy(part) for part in mlp.examples(tuple(model)))
        ends, losses = [], []
        for number in range(steps):
            lo = (number * self._n + self._rank) * mlp.BATCH % (len(x) - mlp.BATCH)
            optimizer.zero_grad()
            loss = loss_of(net(x[lo : lo + mlp.BATCH]), y[lo : lo + mlp.BATCH])
            loss.backward()
            optimizer.step()
            ends.append(time.monotonic_ns())
            losses.append(float(loss))
        return {"ends": ends, "losses": losses}

    def _network(self, widths: tuple[int, ...]) -> Any:
        torch, layers = self._torch, []
        for number, value in enumerate(mlp.parameters(widths).values()):
            if number % 2 == 0:
                layer = torch.nn.Linear(*value.shape)
                layer.weight.data = torch.from_numpy(value.T.copy())
                layer.bias.data.zero_()
                layers += [layer, torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])


def main() -> None:
    rank, n_ranks, system = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if system == "ddp":
        obey(rank, {"train": Ddp(rank, n_ranks).train})
        return
    task = KitTask(rank)
    names = ("listen", "connect", "begin", "finish", "alone", "record", "look")
    obey(rank, {name: getattr(task, name) for name in names})


if __name__ == "__main__":
    main()
