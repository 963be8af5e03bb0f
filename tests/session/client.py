"""A client of a process cluster, in a process of its own: counts, or waits for ever."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import kit.graph.ops
from kit.graph.graph import Graph
from kit.server.directory import Directory
from kit.server.target import ClusterTarget
from kit.session.client.session import Session
from kit.settings import Settings
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from tests.session.scene import PS, variable, waits_for_ever

assert kit.graph.ops  # fills the table
N_RUNS = 200


def main(text: str) -> None:
    """Run on the worker that `text` says."""
    about = json.loads(text)
    directory = Directory(
        {Task.parse(name): at for name, at in about["addresses"].items()},
        Credentials.from_plain(about["credentials"]),
        Path(about["folder"]),
        Settings.from_plain(about["settings"]),
    )
    target = ClusterTarget(lambda: directory, Task("worker", about["worker"]))
    with Graph().as_default(), Session(target) as session:
        more = variable(PS, "count").assign_add(np.float32(1))
        _, waits = waits_for_ever(PS)
        print("ready", flush=True)
        if about["waits"]:
            session.run(waits, deadline_s=60)
        for _ in range(N_RUNS):
            session.run(more)


if __name__ == "__main__":
    main(sys.argv[1])
