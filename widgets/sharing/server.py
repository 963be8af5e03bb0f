"""A web server for a class: pages get news, and send nothing but answers.

It is tornado's, in a thread with its own event loop. Pages are not bokeh documents: a
page may change the document of its session, so that is not read-only, and each session
would draw for itself. Here news are text that is made once for all.

Anybody who knows the token in an address may watch; the teacher has another token. A
page says when it has taken news, and only then gets the next: a slow page skips some,
and nothing piles up here.

The server lives in the teacher's kernel, so it gives way in nothing to strangers and
hostile pupils: a connection has a time and a number of bytes, there are only so many of
each kind (`widgets.sharing.room`), and no word of theirs gets into a log.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import re
import secrets
import threading
import time
from asyncio import Future
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from kit.errors import (
    AddressInUse,
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
)
from kit.markup import Html
from kit.wire.sockets import PEEK
from widgets.sharing.room import GUEST, STRANGER, TEACHER, VIEWER, Room
from widgets.sharing.room import MOST_VIEWERS as MOST_VIEWERS

START_S = STOP_S = 10.0
_PING_S = 15.0  # a page that vanished is noticed after two of these
_MOST_BYTES = 2000  # of a message from a page
_MOST_HEAD, _MOST_BODY = 16_000, 8000  # of HTTP; cookies of a hub are in the head
# What may come over one connection: a request, or, as a page that watches sends a few
# bytes with each news, so many at once and in a second.
_REQUEST_BYTES, _BURST_BYTES, _BYTES_PER_S = _MOST_HEAD + _MOST_BODY, 1000, 100
_CHUNK = 1024
# A request is answered and gone after this; news are taken after this, by a page on a
# bad line too.
REQUEST_S, _TAKEN_S = 8.0, 30.0
SWEEP_S, _PAUSE_S, _BACKLOG = 1.0, 0.2, 1024
_AT_ONCE = 8  # connections taken before the others get their turn
_HOST = re.compile(r"[\w.:\[\]-]{1,255}", re.ASCII)
_LOGGERS = ("tornado.access", "tornado.application", "tornado.general", "asyncio")
Places = Mapping[str, Html]  # HTML by the name of its place


class PageConnection(IOStream):
    """A connection of which we know how long it lets us wait and what it has sent."""

    def __init__(self, accepted: Any, address: str, room: Room[PageConnection]) -> None:
        """Take an accepted socket, as that of a stranger."""
        # Before the rest, which reads from the socket.
        self.address, self._room = address, room
        self._since = time.monotonic()
        self.late_at, self._n_read = self._since + REQUEST_S, 0
        self._most, self._per_s = _REQUEST_BYTES, 0
        super().__init__(
            accepted, max_buffer_size=2 * _MOST_HEAD, read_chunk_size=_CHUNK
        )

    @property
    def is_silent(self) -> bool:
        """Whether it has let us wait for some seconds for what a page does at once."""
        return self.late_at - time.monotonic() < _TAKEN_S - REQUEST_S

    def watches(self) -> None:
        """Go on for as long as it likes, but with few bytes."""
        self._since, self.late_at = time.monotonic(), math.inf
        self._most, self._per_s = self._n_read + _BURST_BYTES, _BYTES_PER_S

    def read_from_fd(self, buf: bytearray | memoryview) -> int | None:
        """Read; more than a page ever sends is the end of the connection."""
        # Tornado goes on with a connection while there is something to read, without a
        # turn for the others: one that never stops sending would stop all.
        n_bytes = super().read_from_fd(buf)
        self._n_read += n_bytes or 0
        age_s = time.monotonic() - self._since
        return n_bytes if self._n_read <= self._most + self._per_s * age_s else 0

    def close_fd(self) -> None:
        """Give the descriptor back, and the room."""
        super().close_fd()
        self._room.leave(self)


class ShareServer:
    """Serves a page for each role; `roles` are `viewer` and `teacher`.

    `pages` makes their HTML, `came` is called when the number of viewers changes, and
    `asked` with the role and the message of a page. Both are called in the server's
    thread. What `asked` returns is the answer to the page, and so is a `KitError`. Of
    the message `address` is not from the page, but where it came from.
    """

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Callable[[str], Html]],
        came: Callable[[int], None],
        asked: Callable[[str, dict[str, str]], str],
    ) -> None:
        """Start to serve; raise `AddressInUse` and `InvalidArgumentError`."""
        self.tokens = {role: secrets.token_urlsafe(16) for role in pages}
        self.pages, self.came, self.asked = pages, came, asked
        self.viewers: set[NewsHandler] = set()
        self.room: Room[PageConnection] = Room()
        self.news: dict[str, dict[str, Html]] = {role: {} for role in pages}
        self._texts: dict[str, str] = {}  # what is known as JSON, by role
        self._has_begun = threading.Event()
        self._error: Exception | None = None
        self._host, self._wanted, self.port = host, port, 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kit-share", daemon=True)
        self._thread.start()
        if not self._has_begun.wait(START_S):
            raise DeadlineExceededError(
                f"the server of the shared board has not begun within {START_S:g} s."
            )
        if self._error is not None:
            self._thread.join(STOP_S)
            raise self._refused(self._error) from self._error

    def _refused(self, error: Exception) -> KitError:
        where = f"{self._host}:{self._wanted}"
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            return AddressInUse(
                f"{where} is in use; leave port out, or give one that is free."
            )
        return InvalidArgumentError(
            f"nothing can listen at {where}: {error}; host is an address of this "
            f'machine, "127.0.0.1" or "0.0.0.0" for all of them, and port is from 0 '
            f"(any) to 65535."
        )

    def _run(self) -> None:
        try:
            with _unheard(threading.get_ident()):
                asyncio.run(self._serve())
        except Exception as error:  # not an address, or in use: `__init__` raises it
            self._error = error
        finally:
            # After an error too, or `__init__` would wait for its whole deadline.
            self._has_begun.set()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        # It would write what strangers did into the output of whatever cell runs.
        loop.set_exception_handler(lambda loop, context: None)
        if not 0 <= self._wanted < 1 << 16:  # the system takes its last 16 bits
            raise OverflowError("there is no such port")
        listening = bind_sockets(self._wanted, self._host, backlog=_BACKLOG)
        own = {"share": self}
        handlers = {"": Shown, "news": NewsHandler, "say": Said}
        http = HTTPServer(
            Application(
                [(rf"/(?P<token>[\w-]+)/{on}", it, own) for on, it in handlers.items()],
                default_handler_class=_Handler,
                default_handler_args=own,
                log_function=lambda handler: None,
            ),
            max_header_size=_MOST_HEAD,
            max_body_size=_MOST_BODY,
        )
        tasks = [loop.create_task(self._accept(sock, http)) for sock in listening]
        tasks.append(loop.create_task(self._sweep()))
        self.port, self._loop = listening[0].getsockname()[1], loop
        self._has_begun.set()
        await self._end.wait()
        for task in tasks:
            task.cancel()
        for accepting in listening:
            accepting.close()
        for viewer in list(self.viewers):
            viewer.close()
        await asyncio.sleep(0.05)  # so that the pages hear of the end
        for connection in list(self.room):
            connection.close()
        await http.close_all_connections()

    async def _accept(self, listening: Any, http: HTTPServer) -> None:
        """Give each new connection to the server, and see that there is room."""
        loop, n_accepted = asyncio.get_running_loop(), 0
        while True:
            n_accepted += 1
            if n_accepted % _AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                accepted, address = await loop.sock_accept(listening)
            except ConnectionError:  # it was given up
                continue
            except OSError:
                # No descriptor is left. What waits is still there, and asking again at
                # once would be a busy loop.
                for stranger in self.room.of(STRANGER):
                    stranger.close()
                await asyncio.sleep(_PAUSE_S)
                continue
            if _is_gone(accepted):
                accepted.close()
                continue
            connection = PageConnection(accepted, str(address[0]), self.room)
            self.room.enter(connection, STRANGER)
            http.handle_stream(connection, address)

    async def _sweep(self) -> None:
        """Close, once in a while, what lets us wait for too long."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            for connection in [
                visitor for visitor in self.room if visitor.late_at < now
            ]:
                connection.close()

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call in the server's thread, from where alone this may be called."""
        asyncio.get_running_loop().call_later(delay_s, call)

    def tell(self, places: Places, role: str = "") -> None:
        """Send news to all pages, or to those of a role; does not wait for them."""
        text = json.dumps(places)  # once, however many pages there are

        def send() -> None:
            for who in [role] if role else self.news:
                self.news[who].update(places)
                self._texts.pop(who, None)
            for viewer in list(self.viewers):
                if role in ("", viewer.role):
                    viewer.take(places, text)

        self.call_soon(send)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call in the server's thread, if it has not ended."""
        loop = self._loop
        # Sockets belong to the loop's thread; only this call may come from another.
        with suppress(RuntimeError):  # it has ended in between
            if loop is not None:
                loop.call_soon_threadsafe(call)

    def all_news(self, role: str) -> str:
        """Return all that a role's pages show, as JSON."""
        if role not in self._texts:
            self._texts[role] = json.dumps(self.news[role])
        return self._texts[role]

    def close(self) -> None:
        """Stop; pages say that they are disconnected."""
        # Taken away first: a `tell` that comes now must not reach a closed loop.
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._end.set)
            self._thread.join(STOP_S)

    def role(self, token: str) -> str | None:
        """Return the role that a token gives; None if the token is not ours."""
        for role, own in self.tokens.items():
            # In constant time: a guess must not show how much of it is right.
            if secrets.compare_digest(token.encode(), own.encode()):
                return role
        return None


def _is_gone(accepted: Any) -> bool:
    """Return whether it was given up while it waited; this is a tenth of serving it."""
    try:
        return not accepted.recv(1, PEEK)
    except BlockingIOError:
        return False  # nothing has come yet
    except OSError:
        return True


@contextmanager
def _unheard(thread: int) -> Iterator[None]:
    """Drop what a thread logs: requests have texts of strangers and tokens in them."""

    def is_heard(record: logging.LogRecord) -> bool:
        return record.thread != thread

    for name in _LOGGERS:
        logging.getLogger(name).addFilter(is_heard)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(is_heard)


class _Handler(RequestHandler):
    """Refuses a request without a valid token, before anything else is done with it."""

    role: str
    connection: PageConnection

    def initialize(self, share: ShareServer) -> None:
        self.share = share

    def set_default_headers(self) -> None:
        # An answer may repeat what was asked: it is never a page.
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Connection", "close")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.clear_header("Server")

    def prepare(self) -> None:
        self.connection = self.request.connection.stream  # type: ignore[union-attr]
        role = self.share.role(self.path_kwargs.get("token") or "")
        if role is None:
            self.say(403 if self.path_kwargs else 404, _NO_ADDRESS)
            return
        self.role = role
        self.share.room.enter(self.connection, TEACHER if role == TEACHER else GUEST)

    def say(self, status: int, text: str) -> None:
        """Answer with a sentence."""
        self.set_status(status)
        self.finish(text.encode("utf-8", "replace"))

    def finish(self, chunk: Any = None) -> Future[None]:
        """Answer, and end the connection: each request has its own, and its time."""
        sent = super().finish(chunk)
        if self.get_status() != 101:  # a socket for news goes on
            stream = self.connection
            sent.add_done_callback(lambda _: stream.close())
        return sent

    def write_error(self, status_code: int, **_: Any) -> None:
        """Say no more than that: neither what was asked nor what went wrong."""
        self.say(status_code, "not understood.")

    def log_exception(self, *_: Any) -> None:
        """Log nothing, see `_unheard`."""


_NO_ADDRESS = "This is not the address of a shared board; ask for the whole one."


class Shown(_Handler):
    """Gives the page."""

    def get(self, token: str) -> None:
        """Write it."""
        if not _HOST.fullmatch(host := self.request.host):  # it will stand in the page
            self.say(400, "not understood.")
            return
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(self.share.pages[self.role](host))


class Said(_Handler):
    """Takes the message of a page: JSON with names and texts."""

    def post(self, token: str) -> None:
        """Answer with a sentence: what was done, or why not."""
        body = self.request.body
        try:
            said = json.loads(body) if len(body) <= _MOST_BYTES else None
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or not all(
            isinstance(part, str) for part in said.values()
        ):
            self.say(400, "not understood.")
            return
        said["address"] = self.connection.address
        try:
            self.say(200, self.share.asked(self.role, said))
        except KitError as error:
            self.say(409, error.message)
        except Exception as error:
            # Of the function that the teacher gave to `ask`, and not for the class.
            may_see = self.role == TEACHER
            self.say(409, f"{type(error).__name__}: {error}" if may_see else "failed.")


class NewsHandler(_Handler, WebSocketHandler):
    """A page that gets news one at a time, the next when it has taken the last."""

    @property
    def ping_interval(self) -> float:
        """Seconds between two checks that the page is still there."""
        return _PING_S

    @property
    def max_message_size(self) -> int:
        """The most bytes of a message from the page."""
        return _MOST_BYTES

    def check_origin(self, origin: str) -> bool:
        """Accept any origin: the token in the address says that the page may watch.

        Behind a proxy, such as JupyterHub's, the page knows us by another name.
        """
        return True

    def open(self, token: str) -> None:
        """Send all that is known."""
        self._pending: dict[str, Html] = {}
        self._is_busy = False
        self.connection.watches()
        self.share.room.enter(
            self.connection, TEACHER if self.role == TEACHER else VIEWER
        )
        self.set_nodelay(True)
        self.share.viewers.add(self)
        self.share.came(len(self.share.viewers))
        if self.share.news[self.role]:
            self.take({}, self.share.all_news(self.role))

    def on_message(self, message: str | bytes) -> None:
        """Send what has come in between: the page has taken the last news."""
        if self.connection.writing():
            return  # it cannot have taken what has not left
        self._is_busy, self.connection.late_at = False, math.inf
        if self._pending:
            pending, self._pending = self._pending, {}
            self.take(pending, json.dumps(pending))

    def take(self, places: Places, text: str) -> None:
        """Send news, which `text` has as JSON, or keep them until the next turn."""
        if self._is_busy:
            # By place: of news that a slow page has not taken only the newest are kept.
            self._pending.update(places)
            return
        self._is_busy = True
        self.connection.late_at = time.monotonic() + _TAKEN_S
        try:
            self.write_message(text)
        except WebSocketClosedError:
            self.on_close()

    def on_close(self) -> None:
        """Forget the page."""
        if self in self.share.viewers:
            self.share.viewers.discard(self)
            self.share.came(len(self.share.viewers))
