"""What the kernel itself counted on a TCP connection, to compare with our meter.

Linux only; it opens nothing and knows no frames.
"""

from __future__ import annotations

import os
import struct
from typing import Final, NamedTuple

from kit.errors import InvalidArgumentError
from kit.wire.sockets import Socket
from kit.wire.stream import OVER_TCP, Stream

_IPPROTO_TCP: Final = 6
_TCP_INFO: Final = 11  # linux/tcp.h
_INFO_BYTES: Final = 152  # up to and with tcpi_min_rtt; the kernel knows more
_UNACKED_AT: Final = 24
_ACKED_AT: Final = 120
_NOT_SENT_AT: Final = 144


class KernelCount(NamedTuple):
    """Bytes of one connection: what was sent and acknowledged, what was received.

    `acked` counts the opening and the closing of the connection as a byte each, as TCP
    does. `unacked` segments are on their way, `not_sent` bytes wait in this kernel.
    """

    acked: int
    received: int
    unacked: int
    not_sent: int

    @property
    def is_settled(self) -> bool:
        """Whether everything that was written has been acknowledged."""
        return self.unacked == 0 and self.not_sent == 0


def kernel_count(stream: Stream) -> KernelCount:
    """Return the kernel's account of an open stream over TCP.

    Raises `InvalidArgumentError` for a stream of another kind.
    """
    if stream.kind not in OVER_TCP:
        raise InvalidArgumentError(
            f"the kernel counts bytes on TCP connections, not on a {stream.kind} "
            f"stream; ask with settings(transport='tcp')."
        )
    with Socket(fileno=os.dup(stream.fileno())) as twin:
        info = twin.getsockopt(_IPPROTO_TCP, _TCP_INFO, _INFO_BYTES)
    acked, received = struct.unpack_from("=QQ", info, _ACKED_AT)
    (unacked,) = struct.unpack_from("=I", info, _UNACKED_AT)
    (not_sent,) = struct.unpack_from("=I", info, _NOT_SENT_AT)
    return KernelCount(acked, received, unacked, not_sent)
