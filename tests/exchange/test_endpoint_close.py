"""An endpoint that closes while another thread ends its training."""

from __future__ import annotations

import os

import pytest

from kit.errors import AbortedError
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Stamp


def test_abort_while_the_doorbell_closes_does_not_write_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = Endpoint(["/job:worker/task:0"], 0, Stamp(), deadline_s=1.0)
    plain, closed = os.close, []

    def close(fd: int) -> None:
        plain(fd)
        closed.append(fd)
        # The number is free now: what is written to it may reach another file.
        endpoint.abort(AbortedError("the training did not begin on all tasks."))

    monkeypatch.setattr(os, "close", close)
    endpoint.close()

    assert len(closed) == 1
    assert endpoint.error is not None
