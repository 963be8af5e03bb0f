"""One task in a process of its own: a `kit.Server` that is told what to do by lines.

The first line of its input is its configuration, each later one a command; each is
answered by one line. All lines are JSON. At the end of its input it stops.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kit
from kit.errors import KitError, to_plain
from kit.settings import Settings
from kit.testing.task_process import until
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire import sockets
from kit.wire.handshake.credentials import Credentials
from tests.net.models import MODEL
from tests.wire.counted import count_data_links

MANY = 1_000_000
# The parent's command must be longer than the training that it asks about.
_END_S = 50.0


class Process:
    run: Run  # of this program's own training

    def __init__(self, config: dict[str, Any]) -> None:
        self.server = kit.Server(
            {config["job"]: {config["index"]: config["address"]}},
            credentials=Credentials.from_plain(config["credentials"]),
            settings=Settings.from_plain(config["settings"]),
        )
        # To count, the end of a link waits for what is on the way, as no user's does.
        self.counts = count_data_links(self.server) if config["counts"] else None

    def answer(self, command: dict[str, Any]) -> Any:
        action: Callable[..., Any] = getattr(self, command.pop("do"))
        return action(**command)

    def connect(self, spec: dict[str, list[str]]) -> None:
        self.server.connect(spec)

    def begin(self, job: dict[str, Any]) -> None:
        work, agreed = Work(MODEL.step, MODEL.data, MODEL.params), Job.from_plain(job)
        if agreed.generation.is_followed:
            self.server.trainings.begin_elastic(agreed, work)
            return
        is_ps = self.server.task.job == "ps"
        self.server.trainings.begin(agreed, None if is_ps else work)

    def train(self, topology: str) -> None:
        """Begin a training as a worker's program does, until something ends it."""
        with kit.settings(**self.server.settings.as_plain()):
            self.run = kit.train(
                *(MODEL.step, MODEL.params, MODEL.data),
                topology=topology,
                steps=MANY,
                batch=12,
                cluster=self.server,
            )

    def reach(self, step: int) -> None:
        self.run.until(step).wait(_END_S)

    def pause(self) -> None:
        self.run.pause()
        until(lambda: self.run.state == "paused", _END_S)

    def hear(self) -> tuple[float, Any]:
        """Return what the training failed with, and when this program heard of it."""
        try:
            self.run.wait(_END_S)
        except KitError as error:
            return time.monotonic(), to_plain(error)
        raise AssertionError(f"{self.run} has ended well")

    def end(self, run: str) -> dict[str, Any]:
        """Wait until the training is over here and tell how it went."""
        member = self.server.trainings.find(run)
        member.join(_END_S)
        assert self.counts is not None, "it was started to count"
        totals = member.meter.totals()
        return {
            "state": member.state,
            "error": None if member.error is None else to_plain(member.error),
            "received": int(totals["bytes"].sum()),
            "messages": int(totals["messages"].sum()),
            "kernel_received": self.counts.received,
            "kernel_acked": self.counts.acked,
            "links": len(self.counts.links),
        }


def main() -> None:
    # Whatever the libraries print must not come between the answers.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    config = json.loads(sys.stdin.readline())
    if config["old_kernel"]:
        sockets.NEWER_OPTIONS = ()
    process = Process(config)
    print(json.dumps({"answer": str(process.server.address)}), file=out)
    try:
        for line in sys.stdin:
            try:
                reply = {"answer": process.answer(json.loads(line))}
            except KitError as error:
                reply = {"error": to_plain(error)}
            print(json.dumps(reply), file=out)
    finally:
        process.server.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
