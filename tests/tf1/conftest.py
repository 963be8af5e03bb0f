"""What every test of this folder has: a default graph of its own, and no server left.

A server of `kit.tf1` cannot be stopped by its program, as in the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_server_is_left() -> Iterator[None]:
    """Stop all servers that the test started."""
    yield
    from kit.tf1.session.server import stop_all

    stop_all()


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    """Give the test a graph of its own, which is the default one."""
    from kit import tf1 as tf

    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(graph: Any) -> Iterator[Any]:
    """Give a local session of that graph, the default one too."""
    from kit import tf1 as tf

    with tf.Session() as session:
        yield session
