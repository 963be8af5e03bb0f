"""One save of a training under way: who writes, what is there, what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kit.checkpoint import Manifest, ShardEntry
from kit.training.job import Job

#: The step, and the boundary at which the save was agreed; 0 for those that all know.
Key = tuple[int, int]


class Place(NamedTuple):
    """Where a writer shall write: a path, or none because it shall wait or give up."""

    state: str  # "write", "wait" or "drop"
    path: str = ""


@dataclass
class Attempt:
    """One save under way."""

    key: Key
    epoch: int
    synchronous: bool
    writers: frozenset[int]
    tickets: tuple[str, ...]
    begun: float
    draft: Path | None = None
    entries: dict[int, ShardEntry] = field(default_factory=dict)
    wrong: str = ""
    witnesses: frozenset[int] = frozenset()  # whose parameters must be the same
    confirmed: set[int] = field(default_factory=set)

    @property
    def is_ready(self) -> bool:
        """Whether nothing more has to be waited for."""
        is_whole = self.entries.keys() >= self.writers
        return bool(self.wrong) or (is_whole and self.confirmed >= self.witnesses)

    def manifest(self, job: Job, graph: str) -> Manifest:
        """Return what the checkpoint says of itself; `graph` marks names and shapes."""
        extra = {
            "run": job.run,
            "tasks": [task.short for task in job.tasks],
            "slots": list(job.slots),
            "optimizer": getattr(job.optimizer, "name", type(job.optimizer).__name__),
            "synchronous": self.synchronous,
            "batch": job.batch,
            "seed": job.seed,
            "steps": job.steps,
        }
        shards = tuple(self.entries[one] for one in sorted(self.entries))
        return Manifest(self.key[0], self.epoch, graph, shards, extra)
