"""Synthetic traces for the view's tests: plausible, seeded, and made nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import (
    SPAN,
    STEP,
    TOTAL,
    TRANSFER,
    Phase,
    Span,
    StepRow,
    Transfer,
    TransferKind,
)
from widgets.board.history import TrainingHistory

MS = 1_000_000


class Generator:
    """Plays a training of one parameter server and some workers, step by step."""

    def __init__(self, n_workers: int, n_bytes: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.workers = range(1, n_workers + 1)
        self.n_bytes = n_bytes
        self.now = 5_000 * MS
        self.spans: list[Span] = []
        self.transfers: list[Transfer] = []
        self.steps: list[StepRow] = []
        self.totals: dict[tuple[int, int, int, int], list[int]] = {}

    def move(
        self,
        source: int,
        to: int,
        kind: TransferKind,
        where: tuple[int, int],
        start: int,
    ) -> int:
        epoch, step = where
        part = (
            len(self.workers)
            if kind in (TransferKind.REDUCE, TransferKind.GATHER)
            else 1
        )
        size = self.n_bytes // part
        end = start + int(size * self.random.uniform(0.9, 1.2))  # 1 byte a ns: 1 GB/s
        self.transfers.append(Transfer(source, to, kind, epoch, step, size, start, end))
        total = self.totals.setdefault((source, to, kind, epoch), [0, 0])
        total[0] += size
        total[1] += 1
        self.spans.append(Span(source, Phase.SEND, step, start, (start + end) // 2))
        self.spans.append(Span(to, Phase.RECEIVE, step, (start + end) // 2, end))
        return end

    def compute(self, step: int) -> int:
        ends = []
        for worker in self.workers:
            end = self.now + int(self.random.uniform(2.0, 2.6) * MS)
            self.spans.append(Span(worker, Phase.COMPUTE, step, self.now, end))
            ends.append(end)
        return max(ends)

    def fill(self, step: int, first: int, end: int) -> None:
        """Let every task wait where it did nothing else in this step."""
        for task in range(len(self.workers) + 1):
            mine = [s for s in self.spans[first:] if s.task == task]
            at = self.now
            for span in sorted(mine, key=lambda span: span.start):
                if span.start > at:
                    self.spans.append(Span(task, Phase.WAIT, step, at, span.start))
                at = max(at, span.end)
            if mine and end > at:
                self.spans.append(Span(task, Phase.WAIT, step, at, end))

    def ps(self, epoch: int, step: int, at: int) -> int:
        for worker in self.workers:
            at = self.move(worker, 0, TransferKind.PUSH, (epoch, step), at)
        applied = at + MS // 4
        self.spans.append(Span(0, Phase.APPLY, step, at, applied))
        for worker in self.workers:
            applied = self.move(0, worker, TransferKind.PULL, (epoch, step), applied)
        return applied

    def ring(self, epoch: int, step: int, at: int) -> int:
        n = len(self.workers)
        for kind in (TransferKind.REDUCE, TransferKind.GATHER):
            for _ in range(n - 1):
                at = max(
                    self.move(1 + w, 1 + (w + 1) % n, kind, (epoch, step), at)
                    for w in range(n)
                )
            if kind is TransferKind.REDUCE:
                for worker in self.workers:
                    end = at + MS // 6
                    self.spans.append(Span(worker, Phase.APPLY, step, at, end))
                at += MS // 6
        return at

    def step(self, topology: str, epoch: int, step: int) -> None:
        first = len(self.spans)
        computed = self.compute(step)
        end = getattr(self, topology)(epoch, step, computed)
        self.fill(step, first, end)
        loss = 0.08 + 2.2 * np.exp(-step / 60)
        for worker in self.workers:
            noisy = float(loss * self.random.lognormal(0, 0.12))
            row = (noisy, 64, self.now, end, computed - self.now, end - computed, 0)
            self.steps.append(StepRow(worker, step, epoch, *row))
        self.now = end + int(self.random.uniform(0.02, 0.1) * MS)

    def trace(self, epochs: list[EpochRow]) -> Trace:
        names = ["/job:ps/task:0"]
        names += [f"/job:worker/task:{w - 1}" for w in self.workers]
        totals = [(*key, *value) for key, value in sorted(self.totals.items())]
        return Trace(
            tuple(names),
            tuple(epochs),
            rows(TRANSFER, self.transfers),
            rows(SPAN, self.spans),
            rows(STEP, self.steps),
            rows(TOTAL, totals),
        )


def toggled(
    topologies: tuple[str, ...] = ("ps", "ring"),
    *,
    n_workers: int = 3,
    n_bytes: int = 600_000,
    steps: int = 20,
    seed: int = 1,
) -> Trace:
    """Return a trace in which each topology runs for the given number of steps."""
    generator = Generator(n_workers, n_bytes, seed)
    epochs = []
    for number, topology in enumerate(topologies):
        first = number * steps
        epochs.append(EpochRow(number, topology, first, generator.now, ""))
        for step in range(first, first + steps):
            generator.step(topology, number, step)
    return generator.trace(epochs)


def fed(*pieces: Trace, most: int = 256) -> TrainingHistory:
    """Return the history of news that came one after the other."""
    history = TrainingHistory(pieces[0].tasks, most)
    for piece in pieces:
        history.add(piece)
    return history


def megabytes(line: Mapping[str, Any]) -> float:
    """Return what a line of rates comes to."""
    return float((line["rate"][:-1] * np.diff(line["second"])).sum())
