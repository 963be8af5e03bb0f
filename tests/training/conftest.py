"""A cluster of one parameter server and two workers, in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.testing.cluster import LocalCluster
from tests.training.toy import quick_cluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with quick_cluster() as result:
        yield result
