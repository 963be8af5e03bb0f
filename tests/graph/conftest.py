"""Each test of this folder builds a new graph, which is the default one meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.graph.graph import Graph


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    with Graph().as_default() as graph:
        yield graph
