"""The result of a rehearsal: exact bytes, and predicted times."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kit.exchange.topologies.time_model import Rates
from kit.exchange.topologies.topology import by_name
from kit.markup import Html, in_cell, rows_table
from kit.trace.trace import Ints, Trace
from kit.trace.traffic import TransferKind
from kit.training.core.job import Job

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Rehearsal:
    """The prediction of a training's steps, none of which was carried out.

    Bytes and messages are those of the real plans, so they are exact; `seconds`,
    `exchange` and the times of the trace are predictions.

    Attributes
    ----------
    topology, link : str
        The name of the topology, and the speed of the links.
    tasks : tuple of str
        The tasks, such as "worker:0".
    seconds : float
        Predicted: how long a step takes, once the first ones are over.
    compute : float
        For how many seconds the slowest worker computes in a step, as given.
    n_bytes, n_messages : int
        Exact: what all tasks together send in a step; empty messages do not count.
    n_in_row : int
        Exact: how many messages over links follow one another in a step, at most.
    memory : dict of str to int
        Bytes of each task's buffers: parameters, gradients, slots, and what a topology
        keeps. Without the step function's own memory and the data.
    rates : Rates
        The rates that the prediction is based on.
    trace : Trace
        The steps that were played, to be drawn like any other trace; its `predicted` is
        true. Of a large training, transfers and spans are kept for the last step and
        the first tasks only.
    job : Job
        What the training would have been.
    link_within : str
        The speed of the links between tasks of one host, where that was given.
    """

    topology: str
    link: str
    tasks: tuple[str, ...]
    seconds: float
    compute: float
    n_bytes: int
    n_messages: int
    n_in_row: int
    memory: dict[str, int]
    rates: Rates
    trace: Trace = field(repr=False)
    job: Job = field(repr=False)
    link_within: str = ""

    @property
    def exchange(self) -> float:
        """Predicted: how much longer a step is than the slowest worker computes."""
        return self.seconds - self.compute

    def sent(self, task: str) -> int:
        """Return the bytes that a task sends in a step, exact."""
        return int(self._moved[0][self.trace.number(task)])

    def received(self, task: str) -> int:
        """Return the bytes that a task receives in a step, exact."""
        return int(self._moved[1][self.trace.number(task)])

    @property
    def busiest(self) -> tuple[str, int]:
        """The task that sends or receives most bytes in a step, and how many; exact."""
        most = np.maximum(*self._moved)
        return self.tasks[int(most.argmax())], int(most.max())

    @cached_property
    def _moved(self) -> tuple[Ints, Ints]:
        """The bytes that each task sends, and receives, in a step."""
        totals, n_steps = self.trace.totals, self.trace.n_steps(1)
        sent, received = (np.zeros(len(self.tasks), np.int64) for _ in range(2))
        np.add.at(sent, totals["source"], totals["bytes"])
        np.add.at(received, totals["destination"], totals["bytes"])
        return sent // n_steps, received // n_steps

    def traffic(self) -> dict[tuple[str, str, str], int]:
        """Return the bytes of a step by (source, destination, kind), exact."""
        names, n_steps = self.trace.names, self.trace.n_steps(1)
        return {
            (names[row[0]], names[row[1]], TransferKind(row[2]).name): row[4] // n_steps
            for row in self.trace.totals.tolist()
        }

    def frame(self) -> pd.DataFrame:
        """Return one row a task: exact bytes, predicted seconds of its last step."""
        import pandas as pd

        columns = ("sent", "received", "memory", "predicted_compute", "predicted_wait")
        last = self.trace.steps["step"].max()
        steps = self.trace.steps[self.trace.steps["step"] == last]
        spent = {
            self.trace.names[task]: (compute * 1e-9, wait * 1e-9)
            for task, compute, wait in steps[["task", "compute", "wait"]].tolist()
        }
        rows = [
            (self.sent(task), self.received(task), self.memory[task], *spent[task])
            for task in self.tasks
            if task in spent
        ]
        index = pd.Index([task for task in self.tasks if task in spent], name="task")
        return pd.DataFrame(rows, columns=columns, index=index)

    def __str__(self) -> str:
        workers, servers = len(self.job.workers), len(self.job.ps)
        needs = by_name(self.topology).needs_ps
        beside = f" and {_some(servers, 'parameter server')}" if needs else ""
        return (
            f"{self.topology} with {_some(workers, 'worker')}{beside} at "
            f"{self._where}: predicted {time_text(self.seconds)} a step, of which "
            f"{time_text(self.exchange)} beside the computing; exactly "
            f"{self.n_bytes:,} bytes in {_some(self.n_messages, 'message')} a step."
        )

    @property
    def _where(self) -> str:
        speed, compress = self.link or "full speed", self.job.compress
        if self.link_within:
            speed += f" between hosts and {self.link_within} within"
        return f"{speed}, {compress}" if compress else speed

    def __repr__(self) -> str:
        return f"<Rehearsal of {self}>"

    def _repr_html_(self) -> Html:
        most = max(self.memory, key=self.memory.__getitem__)
        facts = {
            "predicted: a step": time_text(self.seconds),
            "predicted: beside the computing": time_text(self.exchange),
            "exact: bytes a step": f"{self.n_bytes:,}",
            "exact: messages a step": f"{self.n_messages:,}",
            "exact: messages in a row": f"{self.n_in_row:,}",
            "buffers of a task, at most": f"{self.memory[most]:,} bytes, {most}",
        }
        head = f"Prediction, not a measurement: {self.topology}, "
        head += f"{_some(len(self.job.workers), 'worker')}, "
        head += self._where
        return in_cell(rows_table(head, (), list(facts.items())))


def _some(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def time_text(seconds: float) -> str:
    """Return a time with three digits.

    >>> time_text(0.03594), time_text(12.34)
    ('35.9 ms', '12.3 s')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
