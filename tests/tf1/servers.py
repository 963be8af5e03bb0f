"""Clusters for the cases: several servers of one process, on ports of their own.

The original cannot stop a server, so a case takes new ports each time.
"""

from __future__ import annotations

from typing import Any

from tests.server.ports import free_ports
from tests.tf1.look import tf


def addresses(count: int) -> list[str]:
    """Return so many addresses of this machine that nobody listens on."""
    return [f"localhost:{port}" for port in free_ports(count)]


def cluster(**jobs: int) -> dict[str, list[Any]]:
    """Start a server for each task, as in `cluster(tf, ps=1, worker=2)["ps"][0]`."""
    free = iter(addresses(sum(jobs.values())))
    spec = {job: [next(free) for _ in range(count)] for job, count in jobs.items()}
    return {
        job: [
            tf.train.Server(spec, job_name=job, task_index=task)
            for task in range(count)
        ]
        for job, count in jobs.items()
    }
