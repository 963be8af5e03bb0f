"""A web server for a class: pages that get news, and send nothing but answers.

It is bokeh's server, in a thread with a loop of its own, with pages of ours in it. A
bokeh document of a session may be changed by its page, so it is not read-only; and each
session would draw by itself. Here news are text that was made once, the same for all.

Who knows the token in an address may look; another token is for who teaches. A page
says when it has taken news, and only then gets the next: a slow one skips some, and
nothing piles up here.
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

START_S = STOP_S = 10.0
MOST_VIEWERS = 200
_PING_S = 15.0  # a page that is gone without a word is missed after two of these
_MOST_BYTES = 2000  # of what a page says
Places = Mapping[str, str]  # HTML by the name of its place


class ShareServer:
    """Serves a page for each role; `roles` are `viewer` and `teacher`.

    `pages` has their HTML, `came` is called when the number of viewers changes, and
    `asked` with the role and the words of a page, in the server's thread: what it
    returns is said to that page, and so is a `KitError`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Callable[[str], str]],
        came: Callable[[int], None],
        asked: Callable[[str, dict[str, str]], str],
    ) -> None:
        """Start to serve; raises `AddressInUse` and `InvalidArgumentError`."""
        self.tokens = {role: secrets.token_urlsafe(16) for role in pages}
        self.pages, self.came, self.asked = pages, came, asked
        self.viewers: set[NewsHandler] = set()
        self.known: dict[str, dict[str, str]] = {role: {} for role in pages}
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
            # Else each refusal would be a line in whatever cell runs.
            server._tornado.settings["log_function"] = lambda handler: None
            self.port, self._loop = server.port or 0, loop
            server.start()
        except Exception as error:  # an address, a name or a port that is none
            self._error = error
            loop.close(all_fds=True)
            return
        finally:
            self._has_begun.set()
        loop.start()
        for one in list(self.viewers):
            one.close()
        server.unlisten()
        server.stop()
        loop.run_sync(lambda: asyncio.sleep(0.05))  # so that closings are sent
        end = asyncio.get_event_loop().shutdown_default_executor  # of name look-ups
        loop.run_sync(lambda: asyncio.wait_for(end(), STOP_S))
        loop.close(all_fds=True)

    def tell(self, places: Places, role: str = "") -> None:
        """Send news to all pages, or to those of a role; from any thread, at once."""
        loop = self._loop
        if loop is None:
            return
        text = json.dumps(places)

        def send() -> None:
            for one in [role] if role else self.known:
                self.known[one].update(places)
            for viewer in list(self.viewers):
                if role in ("", viewer.role):
                    viewer.take(places, text)

        loop.add_callback(send)

    def close(self) -> None:
        """Stop; pages say that they are disconnected."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.add_callback(loop.stop)
            self._thread.join(STOP_S)

    def role(self, token: str) -> str | None:
        """Return the role that a token gives; None if it is none of ours."""
        for role, own in self.tokens.items():
            if secrets.compare_digest(token.encode(), own.encode()):
                return role
        return None


class _Handler(RequestHandler):
    """Refuses who does not know a token, before anything else is read."""

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
    """Takes what a page says: JSON of names and texts."""

    def post(self, token: str) -> None:
        """Answer with a sentence: what was done, or why it was not."""
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
        except Exception as error:  # of what a teacher gave to measure with
            self.set_status(409)
            self.finish(f"{type(error).__name__}: {error}")


class NewsHandler(_Handler, WebSocketHandler):
    """A page that gets news, one at a time: the next when it has taken that."""

    @property
    def ping_interval(self) -> float:
        """How often it is asked whether it is still there."""
        return _PING_S

    @property
    def max_message_size(self) -> int:
        """The most bytes that a page may send at once."""
        return _MOST_BYTES

    def check_origin(self, origin: str) -> bool:
        """Let the page be anywhere: the token in the address says that it may look.

        Behind a proxy, as JupyterHub's, the page's host has another name than ours.
        """
        return True

    def open(self, token: str) -> None:
        """Begin with all that is known."""
        self._pending: dict[str, str] = {}
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
        """Send what has come meanwhile: the page has taken the last news."""
        self._is_busy = False
        if self._pending:
            pending, self._pending = self._pending, {}
            self.take(pending, json.dumps(pending))

    def take(self, places: Places, text: str) -> None:
        """Send news, whose text is at hand, or keep the newest until that is taken."""
        if self._is_busy:
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
