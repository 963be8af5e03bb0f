"""A relay between two tasks that open a link: it may change all, and has no key.

While the two open the link it carries one TLS record after the other, each as its
`change` says. What an end sends afterwards it holds, until a test lets it go on.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from kit.errors import KitError, LinkLost
from kit.wire import Credentials, Hello, Link, Role, Stream, connect, listen, welcome
from kit.wire.listening.address import TcpAddress
from kit.wire.listening.listener import Listener
from kit.wire.records import HEAD_BYTES, TAG_BYTES, RecordKind
from kit.wire.stream import AES_GCM, read_some, write_all
from tests.wire.conftest import soon
from tests.wire.half_link import PS, WORKER

TO_SERVER, TO_CLIENT = WAYS = (0, 1)  # a way is known by its sender: client, server
HANDSHAKE, SEALED = 22, 23  # the first byte of a TLS record
TLS_HEAD = 5
#: What becomes of a TLS record: its way, its number on that way, and its bytes.
Change = Callable[[int, int, bytes], bytes]

_QUIET_S = 0.05


def unchanged(way: int, number: int, record: bytes) -> bytes:
    return record


class Once:
    """A change of one TLS record, which notes that it was made."""

    def __init__(self, way: int, number: int, act: Callable[[bytes], bytes]) -> None:
        self._way, self._number, self._act = way, number, act
        self.was_made = False

    def __call__(self, way: int, number: int, record: bytes) -> bytes:
        if self.was_made or way != self._way or number < self._number:
            return record
        # Nobody looks at what TLS sends for the sake of old middleboxes.
        if record[0] not in (HANDSHAKE, SEALED):
            return record
        changed = self._act(record)
        self.was_made = changed != record
        return changed


@dataclass
class Meeting:
    """What two sides have come to, and the connections of the relay with them."""

    ends: list[Future[Link | KitError]]  # the client's, the server's
    sockets: tuple[socket.socket, socket.socket]  # with the client, with the server
    pool: ThreadPoolExecutor
    carried: tuple[list[bytes], list[bytes]] = field(default_factory=lambda: ([], []))

    def link(self, number: int) -> Link:
        result = self.ends[number].result(timeout=20)
        assert isinstance(result, Link), result
        return result

    def error(self, number: int) -> KitError | None:
        result = self.ends[number].result(timeout=20)
        return None if isinstance(result, Link) else result

    def carry(
        self, change: Change, until: Sequence[Future[Link | KitError]], *, leaves: bool
    ) -> None:
        """Carry TLS records both ways until some sides have a link or have given up.

        One that `leaves` does so when nothing comes after its change.
        """
        rest, moved = (bytearray(), bytearray()), time.monotonic()
        listening = {sock: way for way, sock in enumerate(self.sockets)}
        while not all(item.done() for item in until):
            for sock in select.select([*listening], [], [], 0.001)[0]:
                way, data, moved = listening[sock], came(sock), time.monotonic()
                rest[way].extend(data)
                for record in cut_off(rest[way], tls_size):
                    number = len(self.carried[way])
                    self.carried[way].append(record)
                    put(self.sockets[1 - way], change(way, number, record))
                if not data:
                    del listening[sock]
                    end(self.sockets[1 - way])
            is_made = isinstance(change, Once) and change.was_made
            if leaves and is_made and time.monotonic() - moved > _QUIET_S:
                for sock in self.sockets:
                    end(sock)
        for way, left in enumerate(rest):
            put(self.sockets[1 - way], bytes(left))

    def hold(self, way: int, send: Callable[[Link], None]) -> bytes:
        """Let an end send and close its link; return what left it."""
        link = self.link(way)

        def act() -> None:
            send(link)
            link.stream.close()

        sending, result = self.pool.submit(act), bytearray()
        while data := came(self.sockets[way]):
            result += data
        sending.result(timeout=20)
        return bytes(result)

    def let_go(self, way: int, line: bytes) -> None:
        """Send bytes on, and the end of the connection after them."""
        sock = self.sockets[1 - way]
        self.pool.submit(put, sock, line).add_done_callback(lambda _: end(sock))


class Relay:
    """Lets the same two tasks meet again and again, one meeting after the other."""

    def __init__(
        self, credentials: Credentials, listener: Listener, middle: socket.socket
    ) -> None:
        self.listener, self._middle = listener, middle
        self._credentials = credentials
        self.n_records = [0, 0]  # that each side sends under TLS
        with self.meeting() as text:
            self.n_records = [len(carried) for carried in text.carried]

    @contextmanager
    def meeting(
        self,
        change: Change = unchanged,
        *,
        until: Sequence[int] = WAYS,
        encryption: str = AES_GCM,
        leaves: bool = False,
    ) -> Iterator[Meeting]:
        """Give two ends that have met, those in `until` at least, and close all.

        An attack may leave both sides waiting for each other, until the relay `leaves`.
        """
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(3))
            going = pool.submit(opened, lambda: self._come(encryption))
            outer, _ = self._middle.accept()
            inner = self.dial()
            taking = pool.submit(opened, lambda: self._take(encryption))
            ends = [going, taking]
            for sock in (outer, inner):
                sock.settimeout(20)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stack.callback(sock.close)
            for each in ends:
                stack.callback(close, each)
            for sock in (outer, inner):  # first, so that no side waits for more
                stack.callback(end, sock)
            first = Meeting(ends, (outer, inner), pool)
            first.carry(change, [ends[number] for number in until], leaves=leaves)
            yield first

    def dial(self) -> socket.socket:
        """Connect to the server, and say nothing yet."""
        address = self.listener.address
        assert isinstance(address, TcpAddress)
        return socket.create_connection(("127.0.0.1", address.port), timeout=20)

    def _come(self, encryption: str) -> Link:
        hello = Hello(Role.DATA, WORKER, 0, b"r" * 16)
        address = TcpAddress("127.0.0.1", self._middle.getsockname()[1])
        return connect(
            *(address, hello, self._credentials), encryption=encryption, deadline_s=10
        )

    def _take(self, encryption: str) -> Link:
        while (stream := self.listener.accept()) is None:
            pass
        return welcome(
            *(stream, PS, self._credentials), encryption=encryption, deadline_s=10
        )

    def take(self) -> Link | KitError:
        """Let the server take a connection that somebody has made."""
        return opened(lambda: self._take(AES_GCM))


@contextmanager
def relaying(credentials: Credentials) -> Iterator[Relay]:
    listener = listen(TcpAddress("127.0.0.1", 0), credentials=credentials)
    try:
        with socket.create_server(("127.0.0.1", 0)) as middle:
            middle.settimeout(20)
            yield Relay(credentials, listener, middle)
    finally:
        listener.close()


def opened(act: Callable[[], Link]) -> Link | KitError:
    try:
        return act()
    except KitError as error:
        return error


def close(side: Future[Link | KitError]) -> None:
    result = side.result(timeout=20)
    if isinstance(result, Link):
        result.close()


def came(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65_536)
    except ConnectionError:
        return b""


def put(sock: socket.socket, data: bytes) -> None:
    with suppress(ConnectionError):  # who is attacked may have gone away
        sock.sendall(data)


def end(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


def cut_off(data: bytearray, size: Callable[[bytes], int]) -> Iterator[bytes]:
    """Take the whole records from the front of `data`."""
    while (n_bytes := size(bytes(data[:TLS_HEAD]))) and n_bytes <= len(data):
        record = bytes(data[:n_bytes])
        del data[:n_bytes]
        yield record


def tls_size(head: bytes) -> int:
    """Return how long a TLS record is, 0 if too little is known."""
    return TLS_HEAD + int.from_bytes(head[3:5], "big") if len(head) >= TLS_HEAD else 0


def record_size(head: bytes) -> int:
    """Return how long a record of AES-GCM is, 0 if too little is known."""
    if len(head) < HEAD_BYTES:
        return 0
    return HEAD_BYTES + int.from_bytes(head[:3], "little") + TAG_BYTES


def split(line: bytes, size: Callable[[bytes], int] = record_size) -> list[bytes]:
    rest = bytearray(line)
    records = [*cut_off(rest, size)]
    assert not rest, "what was sent is no row of records"
    return records


def intact(line: list[bytes], changed: list[bytes]) -> list[bytes]:
    """Return the records before the first byte that is not as it was sent."""
    whole, at = b"".join(changed), 0
    for number, record in enumerate(line):
        if whole[at : at + len(record)] != record:
            return line[:number]
        at += len(record)
    return line


def n_data(records: list[bytes]) -> int:
    """Return how many bytes of data are in records of AES-GCM."""
    sizes = [len(record) - HEAD_BYTES - TAG_BYTES for record in records]
    return sum(
        size
        for row, size in zip(records, sizes, strict=True)
        if row[HEAD_BYTES - 1] == RecordKind.DATA
    )


def write(link: Link, data: bytes, piece: int) -> None:
    for at in range(0, len(data), piece):
        write_all(link.stream, [data[at : at + piece]], soon())


def received(stream: Stream, room: int = 5000) -> tuple[bytes, KitError | None]:
    """Return what comes of a stream, and the error after it: None for a real end."""
    result, view = bytearray(), memoryview(bytearray(room))
    try:
        while n_bytes := read_some(stream, view, soon()):
            result += view[:n_bytes]
    except LinkLost as error:
        for _ in range(2):  # lost for good
            with pytest.raises(LinkLost):
                read_some(stream, view, soon())
        return bytes(result), error
    return bytes(result), None
