"""What every test of this folder needs: no server may outlive it.

A server of `kit.tf1` cannot be stopped by its program, as in the original.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_server_is_left() -> Iterator[None]:
    """Stop all servers that the test started."""
    yield
    from kit.tf1.session.server import stop_all

    stop_all()
