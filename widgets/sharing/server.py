"""A web server for a class: pages get news, and send nothing but answers.

It is bokeh's server with our pages, in a thread with its event loop. They are not bokeh
documents: a page may change the document of its session, so that is not read-only, and
each session would draw for itself. Here news are text that is made once for all.

Anybody who knows the token in an address may watch; the teacher has another token. A
page says when it has taken news, and only then gets the next: a slow page skips some,
and nothing piles up here.
"""

from __future__ import annotations

import asyncio
import errno
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any

from bokeh.server.server import Server
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from kit.errors import (
    AddressInUse,
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
)
from kit.markup import Html

START_S = STOP_S = 10.0
MOST_VIEWERS = 200
_PING_S = 15.0  # a page that vanished is noticed after two of these
_MOST_BYTES = 2000  # of a message from a page
Places = Mapping[str, Html]  # HTML by the name of its place


class ShareServer:
    """Serves a page for each role; `roles` are `viewer` and `teacher`.

    `pages` makes their HTML, `came` is called when the number of viewers changes, and
    `asked` with the role and the message of a page. Both are called in the server's
    thread. What `asked` returns is the answer to the page, and so is a `KitError`.
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
        self.known: dict[str, dict[str, Html]] = {role: {} for role in pages}
        self._has_begun = threading.Event()
        self._error: Exception | None = None
        self._host, self._wanted, self.port = host, port, 0
        self._loop: IOLoop | None = None
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
        asyncio.set_event_loop(asyncio.new_event_loop())
        loop = IOLoop.current()
        try:
            known = {"share": self}
            patterns = [
                (r"/(?P<token>[\w-]+)/", Shown, known),
                (r"/(?P<token>[\w-]+)/news", NewsHandler, known),
                (r"/(?P<token>[\w-]+)/say", Said, known),
            ]
            where: dict[str, Any] = {"address": self._host, "port": self._wanted}
            server = Server(
                {}, io_loop=loop, extra_patterns=patterns, use_index=False, **where
            )
            # Otherwise each refusal is a line in the output of whatever cell runs.
            server._tornado.settings["log_function"] = lambda handler: None
            self.port, self._loop = server.port or 0, loop
            server.start()
        except Exception as error:  # not an address, or in use: `__init__` raises it
            self._error = error
            loop.close(all_fds=True)
            return
        finally:
            # After an error too, or `__init__` would wait for its whole deadline.
            self._has_begun.set()
        loop.start()
        for one in list(self.viewers):
            one.close()
        server.unlisten()
        server.stop()
        loop.run_sync(lambda: asyncio.sleep(0.05))  # so that the pages hear of the end
        # The threads in which names were looked up would outlive the loop.
        end = asyncio.get_event_loop().shutdown_default_executor
        loop.run_sync(lambda: asyncio.wait_for(end(), STOP_S))
        loop.close(all_fds=True)

    def tell(self, places: Places, role: str = "") -> None:
        """Send news to all pages, or to those of a role; does not wait for them."""
        loop = self._loop
        if loop is None:
            return
        text = json.dumps(places)  # once, however many pages there are

        def send() -> None:
            for one in [role] if role else self.known:
                self.known[one].update(places)
            for viewer in list(self.viewers):
                if role in ("", viewer.role):
                    viewer.take(places, text)

        # Sockets belong to the loop's thread; only this call may come from another.
        loop.add_callback(send)

    def close(self) -> None:
        """Stop; pages say that they are disconnected."""
        # Taken away first: a `tell` that comes now must not reach a closed loop.
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.add_callback(loop.stop)
            self._thread.join(STOP_S)

    def role(self, token: str) -> str | None:
        """Return the role that a token gives; None if the token is not ours."""
        for role, own in self.tokens.items():
            # In constant time: a guess must not show how much of it is right.
            if secrets.compare_digest(token.encode(), own.encode()):
                return role
        return None


class _Handler(RequestHandler):
    """Refuses a request without a valid token, before anything else is read."""

    role: str

    def initialize(self, share: ShareServer) -> None:
        self.share = share

    def prepare(self) -> None:
        role = self.share.role(self.path_kwargs["token"])
        if role is None:
            self.set_status(403)
            self.finish(
                "This is not the address of a shared board; ask for the whole one."
            )
            return
        self.role = role
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")


class Shown(_Handler):
    """Gives the page."""

    def get(self, token: str) -> None:
        """Write it."""
        self.write(self.share.pages[self.role](self.request.host))


class Said(_Handler):
    """Takes the message of a page: JSON with names and texts."""

    def post(self, token: str) -> None:
        """Answer with a sentence: what was done, or why not."""
        body = self.request.body
        try:
            said = json.loads(body) if len(body) <= _MOST_BYTES else None
        except ValueError:
            said = None
        if not isinstance(said, dict) or not all(
            isinstance(part, str) for part in said.values()
        ):
            self.set_status(400)
            self.finish("not understood.")
            return
        try:
            self.finish(self.share.asked(self.role, said))
        except KitError as error:
            self.set_status(409)
            self.finish(error.message)
        except Exception as error:  # from the function that the teacher gave to `ask`
            self.set_status(409)
            self.finish(f"{type(error).__name__}: {error}")


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
        if len(self.share.viewers) >= MOST_VIEWERS:
            self.close(1013, f"there are {MOST_VIEWERS} viewers already")
            return
        self.set_nodelay(True)
        self.share.viewers.add(self)
        self.share.came(len(self.share.viewers))
        known = self.share.known[self.role]
        if known:
            self.take(known, json.dumps(known))

    def on_message(self, message: str | bytes) -> None:
        """Send what has come in between: the page has taken the last news."""
        self._is_busy = False
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
        try:
            self.write_message(text)
        except WebSocketClosedError:
            self.on_close()

    def on_close(self) -> None:
        """Forget the page."""
        if self in self.share.viewers:
            self.share.viewers.discard(self)
            self.share.came(len(self.share.viewers))
