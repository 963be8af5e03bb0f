"""Jobs by hand, without their tasks, and questions about one as a link carries them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import kit
from kit.exchange.layout import Spec
from kit.message_fields import check
from kit.server.directory import Directory
from kit.server.handlers import Handlers
from kit.server.trainings import Trainings
from kit.settings import Settings
from kit.task import Task
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job
from kit.training.core.member import Member

EXAMPLES = 8
PS, WORKERS = Task("ps", 0), (Task("worker", 0), Task("worker", 1))
COMPRESSED: dict[str, Any] = {
    "compress": "own",
    "stage_specs": ((Spec("w", (), "int32"),), (Spec("w", (3,), "float16"),)),
}


def made(**changes: Any) -> Job:
    """Return a job of a parameter server and two workers, but for these changes."""
    options: dict[str, Any] = {
        "run": "ab" * 16,
        "tasks": (PS, *WORKERS),
        "specs": (Spec("w", (3, 2), "float32"), Spec("b", (), "float64")),
        "optimizer": kit.Adam(0.5),
        "topology": "ps",
        "steps": 10,
        "batch": 8,
    }
    return Job(**options | changes)


def job(steps: int, **changes: Any) -> Job:
    """Return that of two workers in a ring, with these settings."""
    return made(
        tasks=WORKERS,
        specs=(Spec("w", (12,), "float32"),),
        topology="ring",
        steps=steps,
        batch=2 * EXAMPLES,
        settings=Settings(**changes),
    )


class Asked:
    """A coordinator's task, which is asked as the other tasks ask it."""

    def __init__(self, coordinator: TrainingCoordinator, job: Job) -> None:
        self._job, leader = job, job.tasks[job.coordinator]
        self._trainings = Trainings(
            leader, lambda: cast(Directory, None), cast("Any", None)
        )
        member = SimpleNamespace(job=job, coordinator=coordinator, task=leader)
        self._trainings.member = cast(Member, member)

    def ask(self, op: str, member: int, blob: bytes = b"", **values: Any) -> Any:
        handler = Handlers(self._trainings, self._job.tasks[member]).table()[op]
        expected = {"run": self._job.run, "member": member, "patience_s": 0.0}
        question = json.loads(json.dumps({**expected, **values}))
        question = {name: question[name] for name in handler.fields if name in question}
        return handler.finish(check(op, handler.fields, question), bytearray(blob))
