"""Synchronous replicas of which some are processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit import tf1 as tf
from tests.tf1.replicas import Replica
from tests.tf1.servers import addresses

ROOT = Path(__file__).parents[2]


@contextmanager
def worker_process(
    ps: str, workers: list[str], index: int, n_required: int
) -> Iterator[subprocess.Popen[str]]:
    program = ["-m", "tests.tf1.sync_worker", ps, ",".join(workers)]
    process = subprocess.Popen(
        [sys.executable, *program, str(index), str(n_required)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10.0)


@contextmanager
def chief_here(
    n_required: int, n_others: int
) -> Iterator[tuple[Replica, str, list[str]]]:
    """Give the chief, with a ps beside it, of a cluster with others elsewhere."""
    ps, *workers = addresses(2 + n_others)
    spec = {"ps": [ps], "worker": workers}
    tf.train.Server(spec, job_name="ps", task_index=0)
    server = tf.train.Server(spec, job_name="worker", task_index=0)
    chief = Replica(spec, 0, server.target, n_required, len(workers))
    try:
        yield chief, ps, workers
    finally:
        chief.end()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
