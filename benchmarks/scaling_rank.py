"""One task of the scaling benchmark: `python -m benchmarks.scaling_rank`.

Arguments: rank, number of ranks, number of parameter servers. The task goes through the
very steps of a training (`kit.training.core.epoch`): it reads its rows, calls
a step function whose gradient is ready, checks and copies it, exchanges, updates,
commits.
Only the coordinator is missing: the benchmark says when steps are done.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bare_member import Links, paired
from benchmarks.rank_group import obey
from kit.exchange.layout import Range, Spec
from kit.exchange.plan import GRAD, NOW
from kit.exchange.ports.memory import Array
from kit.faults.history import History
from kit.settings import Settings
from kit.task import Task
from kit.trace.traffic import Meter, TransferKind
from kit.training.core.context import MemberContext
from kit.training.core.epoch import EpochRunner
from kit.training.core.job import Job, Work
from kit.training.core.log import Epoch
from kit.training.optimizers.rules import GradientDescent

# The mean of all gradients is 1 and the parameters begin at 1, so after s steps all of
# them are 1 - s * RATE, which float32 holds exactly for many thousands of steps.
RATE = 2.0**-20
_EPOCH = 1
_UNTIL_TOLD = 1 << 40
_ONCE = (TransferKind.BROADCAST, TransferKind.MOVE)


def specs(n_bytes: int, n_params: int) -> tuple[Spec, ...]:
    """Return parameters of float32 that have so many bytes together.

    >>> [spec.shape for spec in specs(28, 3)]
    [(3,), (2,), (2,)]
    """
    items, rest = divmod(n_bytes // 4, n_params)
    return tuple(
        Spec(f"p{number}", (items + (number < rest),), "float32")
        for number in range(n_params)
    )


def job(n_ranks: int, n_ps: int, topology: str, n_bytes: int, n_params: int) -> Job:
    """Return the training that all ranks derive their part from."""
    tasks = [Task("ps", number) for number in range(n_ps)]
    tasks += [Task("worker", number) for number in range(n_ranks - n_ps)]
    return Job(
        run="0" * 32,
        tasks=tuple(tasks),
        specs=specs(n_bytes, n_params),
        optimizer=GradientDescent(RATE),
        topology=topology,
        steps=_UNTIL_TOLD,
        batch=n_ranks - n_ps,
        settings=Settings(),
    )


class Rehearsal:
    """One task's part in a training, without the server around it."""

    def __init__(self, rank: int, agreed: Job, fds: list[int], sets: int) -> None:
        """Join the others and begin the first epoch: the parameters are handed out.

        The gradients of a step are one of so many `sets` of arrays, in turn; with no
        set at all the step function writes them in place.
        """
        self._stack = ExitStack()
        links = Links(self._stack, rank, agreed.layout, paired(fds))
        self.meter = Meter(rank)
        history = History("", agreed.tasks[rank])
        self._memory = memory = links.own_arena.memory
        self._step: Handing | Writing | None = None
        if rank in agreed.workers:
            number = agreed.workers.index(rank)
            value = 1 + number - (len(agreed.workers) - 1) / 2
            self._step = (
                Handing(agreed.specs, value, sets)
                if sets
                else Writing(partial(self._whole, GRAD), value)
            )
        self._context = MemberContext(
            agreed,
            rank,
            self.meter,
            links.endpoint,
            memory,
            history,
        )
        self._runner = EpochRunner(self._context, _work(agreed, rank, self._step))
        self._stack.callback(self._runner.close)
        first = Epoch(_EPOCH, agreed.topology)
        self._runner.prepare(first)
        self._runner.adopt(first)

    def run(self, steps: int) -> list[tuple[int, int, int]]:
        """Do so many steps; returns when each began, had computed, and ended.

        A step that writes its gradients counts as begun so much later as that took.
        """
        _, cursor = self.meter.steps.since(0)
        step = self._context.step
        self._context.endpoint.stamp.halt = step + steps
        self._runner.run(step)
        rows, _ = self.meter.steps.since(cursor)
        arrived = rows["start"] + rows["compute"]
        begun = rows["start"]
        if isinstance(self._step, Writing):
            begun = begun + np.array(self._step.took_ns[-steps:])
        columns = (begun, arrived, rows["end"])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def account(self) -> dict[str, int]:
        """Return the bytes and messages received in steps, and the memory taken."""
        totals = self.meter.totals()
        steps = totals[~np.isin(totals["kind"], [int(kind) for kind in _ONCE])]
        return {
            "bytes": int(steps["bytes"].sum()),
            "messages": int(steps["messages"].sum()),
            "memory": _proportional_bytes(),
        }

    def parameters(self) -> tuple[int, float, float]:
        """Return how many steps were done, the least and the greatest parameter."""
        values = self._whole(NOW)
        return self._context.step, float(values.min()), float(values.max())

    def _whole(self, region: int) -> Array:
        where = self._context.endpoint.stamp.where(region)
        return self._memory.typed(where, Range(0, self._memory.layout.n_bytes))

    def close(self) -> None:
        """Give links and memory back."""
        self._stack.close()


class Handing:
    """A step function whose gradients are ready, in so many sets of arrays in turn."""

    def __init__(self, specs: tuple[Spec, ...], value: float, sets: int) -> None:
        self._turns = cycle(
            {spec.name: np.full(spec.shape, value, np.float32) for spec in specs}
            for _ in range(sets)
        )

    def __call__(self, params: Any, batch: Any) -> tuple[float, Any]:
        return 0.0, next(self._turns)


class Writing:
    """A step function that fills all its places at once, and notes what that takes."""

    def __init__(self, where: Callable[[], Array], value: float) -> None:
        self._where, self._value = where, value
        self.took_ns: list[int] = []

    def __call__(self, params: Any, batch: Any, grads: Any) -> float:
        begin = time.monotonic_ns()
        self._where().fill(self._value)
        self.took_ns.append(time.monotonic_ns() - begin)
        return 0.0


def _work(agreed: Job, rank: int, step: Handing | Writing | None) -> Work | None:
    if step is None:
        return None
    data = np.zeros((1024, 1), np.float32)
    leads = rank == agreed.coordinator
    first = {spec.name: np.ones(spec.shape, np.float32) for spec in agreed.specs}
    return Work(step, data, first if leads else None)


def _proportional_bytes() -> int:
    """Return this process's memory; what n processes share counts an n-th for each."""
    text = Path("/proc/self/smaps_rollup").read_text("ascii")
    result = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(result[1]) * 1024 if result else 0


class Rank:
    """Prepares and measures one training after the other."""

    def __init__(self, rank: int, n_ranks: int, n_ps: int) -> None:
        self._rank, self._n_ranks, self._n_ps = rank, n_ranks, n_ps
        self._fds = [int(fd) for fd in os.environ["BENCH_PEERS"].split(",")]
        self._now: Rehearsal | None = None

    def prepare(
        self, topology: str, n_bytes: int, n_params: int, sets: int = 1
    ) -> None:
        """Begin a training; the one before ends."""
        self.end()
        agreed = job(self._n_ranks, self._n_ps, topology, n_bytes, n_params)
        self._now = Rehearsal(self._rank, agreed, self._fds, sets)

    def measure(self, steps: int) -> list[tuple[int, int, int]]:
        """Do so many steps; see `Rehearsal.run`."""
        assert self._now is not None
        return self._now.run(steps)

    def account(self) -> dict[str, int]:
        """See `Rehearsal.account`."""
        assert self._now is not None
        return self._now.account()

    def parameters(self) -> tuple[int, float, float]:
        """See `Rehearsal.parameters`."""
        assert self._now is not None
        return self._now.parameters()

    def end(self) -> None:
        """Give memory and links of the training back."""
        if self._now is not None:
            self._now.close()
            self._now = None
            gc.collect()  # a training's parts refer to each other


def main() -> None:
    rank, n_ranks, n_ps = (int(word) for word in sys.argv[1:4])
    first = Rank(rank, n_ranks, n_ps)
    names = ("prepare", "measure", "account", "parameters", "end")
    obey(rank, {name: getattr(first, name) for name in names})


if __name__ == "__main__":
    main()
