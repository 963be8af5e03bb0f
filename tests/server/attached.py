"""Clusters that another program looks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import kit
from kit.server.attached import AttachedCluster
from kit.testing.cluster import LocalCluster, local_cluster


def look(cluster: LocalCluster, number: int = 0) -> AttachedCluster:
    """Attach to a running cluster by one of its servers."""
    server = cluster.servers[number]
    return kit.attach(
        server.target,
        credentials=server.directory.credentials,
        settings=server.settings,
    )


@contextmanager
def clusters(ps: int, worker: int, transport: str = "tcp") -> Iterator[LocalCluster]:
    settings = kit.Settings(transport=transport)
    with local_cluster(ps, worker, settings=settings) as cluster:
        yield cluster
