"""The history of a training: one line for each event, to be checked afterwards.

Each task appends to its own file, such as `worker-1.jsonl`, in the folder that the
setting `history` names; without one nothing is written. A line is a JSON object with
the task, the event and its values. `check` tests what must hold over all tasks:

    I1  one digest of the parameters for each committed step, on all members
    I2  committed steps follow each other without gap or repeat, from step 0 or from
        the step at which a task was restored
    I5  one topology for each epoch
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from pathlib import Path
from typing import IO, Any

from kit.regular_file import append_regular
from kit.task import Task


class History:
    """The file to which one task writes its events."""

    def __init__(self, folder: str, task: Task) -> None:
        """Open the task's file in `folder`; an empty name writes nothing."""
        self._file: IO[str] | None = None
        self._task = task.short
        if folder:
            path = Path(folder)
            path.mkdir(parents=True, exist_ok=True)
            name = f"{task.job}-{task.index}.jsonl"
            # Line by line: a killed task leaves all that it has noted.
            file = append_regular(path / name)
            self._file = io.TextIOWrapper(file, "utf-8", write_through=True)

    @property
    def is_on(self) -> bool:
        """Whether events are written; only then is a digest worth computing."""
        return self._file is not None

    def note(self, event: str, **values: Any) -> None:
        """Append one event."""
        if self._file is not None:
            line = {"task": self._task, "event": event, **values}
            self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the events of all tasks, each task's in its order."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]


def check(events: list[dict[str, Any]]) -> list[str]:
    """Return the violations, in sentences; empty if there are none.

    >>> a = {"event": "step", "task": "worker:0", "step": 0, "digest": "1f"}
    >>> check([a, {**a, "task": "worker:1", "digest": "2e"}])
    ['I1: step 0 has the digests 1f, 2e']
    """
    digests: dict[int, set[str]] = defaultdict(set)
    steps: dict[str, list[int]] = defaultdict(list)
    topologies: dict[int, set[str]] = defaultdict(set)
    firsts: dict[str, int] = defaultdict(int)
    for event in events:
        if event["event"] == "step":
            steps[event["task"]].append(event["step"])
            if event.get("digest"):
                digests[event["step"]].add(event["digest"])
        elif event["event"] == "restored":
            firsts[event["task"]] = event["step"]
        elif event["event"] == "epoch":
            topologies[event["epoch"]].add(event["topology"])
    wrong = [
        f"I1: step {step} has the digests {', '.join(sorted(digests_seen))}"
        for step, digests_seen in sorted(digests.items())
        if len(digests_seen) > 1
    ]
    wrong += [
        f"I2: {task} committed the steps {done}"
        for task, done in sorted(steps.items())
        if task.startswith("worker")
        and done != [firsts[task] + number for number in range(len(done))]
    ]
    wrong += [
        f"I5: epoch {epoch} has the topologies {', '.join(sorted(names))}"
        for epoch, names in sorted(topologies.items())
        if len(names) > 1
    ]
    return wrong
