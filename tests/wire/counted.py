"""The kernel's byte counts of a server's data links, kept after they are closed.

    counts = count_data_links(server)      # before a training begins
    ...                                    # after it
    counts.received, counts.acked          # bytes over all its data links

Only for TCP, plain or with TLS. It reads the counts and changes nothing.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.kernel_count import KernelCount, kernel_count
from kit.server.server import Server
from kit.testing.streams import StreamAround
from kit.wire.stream import ParallelStreams, Stream, parallel

# The kernel may hold an acknowledgement back for 40 ms, more on a slow line.
_SETTLE_S: Final = 2.0
_LOOK_S: Final = 0.005


@dataclass
class LinkCounts:
    """What the kernel counted on each data link that was closed so far."""

    links: list[KernelCount] = field(default_factory=list)

    @property
    def received(self) -> int:
        """Bytes received over all links, with framing and encryption."""
        return sum(link.received for link in self.links)

    @property
    def acked(self) -> int:
        """Bytes sent and acknowledged over all links, the same way."""
        return sum(link.acked for link in self.links)


class CountedStream(StreamAround):
    """A stream that reads the kernel's counts just before it is closed."""

    def __init__(self, stream: Stream, counts: LinkCounts) -> None:
        """Take the stream over."""
        super().__init__(stream)
        self._counts, self._is_counted = counts, False

    def close(self) -> None:
        """Count, then close; waits up to two seconds for the last acknowledgement."""
        if not self._is_counted:
            self._is_counted = True
            self._counts.links.append(_settled(self._stream))
        super().close()


def count_data_links(server: Server) -> LinkCounts:
    """Count on the data links of every training that begins on `server` from now on."""
    counts = LinkCounts()
    plain = server.trainings.streams

    def streams(*args: Any) -> dict[int, Stream]:
        return {peer: counted(stream) for peer, stream in plain(*args).items()}

    def counted(stream: Stream) -> Stream:
        each = [CountedStream(item, counts) for item in parallel(stream)]
        return ParallelStreams(each) if len(each) > 1 else each[0]

    server.trainings.streams = streams  # type: ignore[assignment,method-assign]  # a test's hook
    return counts


def _settled(stream: Stream) -> KernelCount:
    give_up = time.monotonic() + _SETTLE_S
    never = threading.Event()
    while not (count := kernel_count(stream)).is_settled and time.monotonic() < give_up:
        never.wait(_LOOK_S)
    return count
