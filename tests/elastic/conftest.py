"""A cluster of processes for each file that says of how many: `PROCESSES`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.settings import current
from kit.testing.processes import ProcessCluster, process_cluster


@pytest.fixture(scope="module")
def processes(request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
    chosen = current().replace(transport=getattr(request, "param", "unix"))
    with process_cluster(**request.module.PROCESSES, settings=chosen) as result:
        yield result


@pytest.fixture
def cluster(processes: ProcessCluster) -> ProcessCluster:
    """Give the file's cluster, with new processes for those that a test has killed."""
    processes.restart_dead()
    return processes
