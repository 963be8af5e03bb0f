"""A data link over a stream that breaks while we write names its own peer."""

from __future__ import annotations

import pytest

from kit.errors import LinkLost, PeerLost
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.port import Expected
from kit.exchange.ports.stream_port import StreamPort
from kit.testing.group import local_group


@pytest.mark.slow  # the peer's own last words are waited for
def test_a_write_that_fails_blames_the_peer_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout = lay_out([Spec("w", (8,), "float32")], 3, 0)
    with local_group(layout, 3, in_place=False) as members:
        endpoint = members[0].endpoint
        port = endpoint.ports[2]

        def broken(_: object) -> int:
            raise LinkLost("connection reset by peer")

        assert isinstance(port, StreamPort)
        monkeypatch.setattr(port.stream, "write", broken)
        port.post(GRAD, Range(0, 32))

        assert port.lost is True
        with pytest.raises(PeerLost) as lost:
            endpoint.receive(port, Expected(GRAD, Range(0, 32)))
        assert lost.value.task == "/job:member/task:2"
