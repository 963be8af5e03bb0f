"""A fresh graph and a cluster of three servers for the tests of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kit.graph.ops
from kit.graph.graph import Graph
from kit.testing.cluster import LocalCluster, local_cluster

assert kit.graph.ops  # fills the table


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    with Graph().as_default() as graph:
        yield graph


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Give ps:0, worker:0 and worker:1."""
    with local_cluster(1, 2) as cluster:
        yield cluster


@pytest.fixture(params=["called", "dialled"])
def target(request: pytest.FixtureRequest, cluster: LocalCluster) -> Any:
    """Give the first worker as a target: in this process, and behind a link."""
    return cluster.servers[1] if request.param == "called" else cluster.session_target
