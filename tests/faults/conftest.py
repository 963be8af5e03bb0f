"""Clusters of bare processes that several tests use one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.settings import Settings
from kit.testing.processes import ProcessCluster, process_cluster


@pytest.fixture(scope="module")
def with_ps() -> Iterator[ProcessCluster]:
    with process_cluster(ps=1, worker=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def without_ps() -> Iterator[ProcessCluster]:
    with process_cluster(ps=0, worker=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def of_five() -> Iterator[ProcessCluster]:
    with process_cluster(ps=0, worker=5) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def over_tcp() -> Iterator[ProcessCluster]:
    chosen = Settings(transport="tcp")
    with process_cluster(ps=1, worker=2, settings=chosen) as cluster:
        yield cluster
