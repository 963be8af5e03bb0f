"""What an endpoint does when links and trainings end."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from kit.errors import AbortedError
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Expected, Stamp
from kit.testing.group import local_group
from kit.wire.sockets import SocketStream
from kit.wire.stream import Stream


def sockets() -> tuple[Stream, Stream]:
    near, far = socket.socketpair()
    return SocketStream(near, "tcp", "far"), SocketStream(far, "tcp", "near")


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


@pytest.mark.parametrize("in_place", [True, False])
def test_the_end_of_a_link_is_told_while_another_one_is_waited_for(
    in_place: bool,
) -> None:
    layout = lay_out((Spec("w", (4,), "float32"),), 3)
    due = (Expected(0, Range(0, 16)),)
    with local_group(layout, 3, in_place=in_place, pair=sockets) as members:
        mine, _, third = (member.endpoint for member in members)
        mine.expect({1: (due, due), 2: (due, due)}, 0)
        mine.on_loss = lambda: mine.abort(AbortedError("the third one is gone."))
        after = threading.Timer(0.1, third.close)
        after.start()

        with pytest.raises(AbortedError, match="the third one is gone"):
            mine.until_arrived(mine.ports[1])
        after.join()
