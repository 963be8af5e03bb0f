"""A class page with strangers and hostile pupils at it: what they cannot do."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import psutil
import pytest
from tornado.websocket import websocket_connect

from kit.errors import InvalidArgumentError
from kit.markup import Html
from tests.cases import for_each
from tests.training.paced import LONG_S
from tests.widgets import hostile_class
from tests.widgets.class_pages import Reply, request, say
from tests.widgets.insides import server_of
from tests.widgets.traces import toggled
from widgets import Prediction, TrafficBoard
from widgets.sharing.poll import MOST_ANSWERS, Poll
from widgets.sharing.room import GUEST, STRANGER, VIEWER, Room, places
from widgets.sharing.share import Share

N_GOOD = 30


@pytest.fixture
def share() -> Iterator[Share]:
    board = TrafficBoard(toggled(("ps", "ring"), steps=10))
    yield board.share()
    board.close()


def asked(share: Share) -> None:
    share.ask(Prediction("Which is faster?", choices=("ps", "ring")), "ring")
    share.start()


def raw(url: str, data: bytes) -> bytes:
    """Return what comes back until the end of the connection."""
    where = urlsplit(url)
    back = b""
    with socket.create_connection((where.hostname, where.port), LONG_S) as stranger:
        stranger.sendall(data)
        with suppress(ConnectionResetError):  # it was closed before all was read
            while part := stranger.recv(1 << 16):
                back += part
    return back


# -- a hundred beside thirty ----------------------------------------------------------


@contextmanager
def attacked(url: str) -> Iterator[dict[str, int]]:
    """Let a hundred hostile pupils at it; afterwards the dict has what they did."""
    command = [sys.executable, "-m", "tests.widgets.hostile_class", url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    done: dict[str, int] = {}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "begun\n"
            yield done
            output, _ = process.communicate(timeout=LONG_S)
            done.update(json.loads(output))
        finally:
            process.kill()


def kept_trying(act: Callable[[], Reply]) -> Reply:
    """Do what a browser and our page do when a connection is cut off: try again."""
    for _ in range(2):
        try:
            return act()
        except OSError:
            pass
    return act()


def looked_and_answered(url: str, who: str) -> None:
    """Do what a good pupil does."""
    status, page = kept_trying(lambda: request(url))
    assert (status, "Shared board" in page) == (200, True)
    _, reply = kept_trying(lambda: say(url, who=who, answer="ring"))
    # If the first answer was cut off, the second says that it has arrived.
    assert reply in ("Locked in: ring.", "your guess is locked in at ring."), reply


async def verdict(url: str) -> str:
    """Watch, as the page does, until the verdict is there."""
    while True:  # a page connects again
        news = await websocket_connect(f"ws{url.removeprefix('http')}news")
        try:
            while (text := await news.read_message()) is not None:
                await news.write_message("")
                question = json.loads(text).get("question", "")
                if "It is ring" in question:
                    return str(question)
        finally:
            news.close()
            while await news.read_message() is not None:
                pass  # until the connection is gone


async def lesson(share: Share) -> list[str]:
    """Let all good pupils answer, and then see what they guessed."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(LONG_S):
        with ThreadPoolExecutor(N_GOOD) as at_once:
            await asyncio.gather(
                *(
                    loop.run_in_executor(
                        at_once, looked_and_answered, share.url, f"good {number}"
                    )
                    for number in range(N_GOOD)
                )
            )
        reply = await asyncio.to_thread(say, share.teacher_url, do="reveal")
        assert reply == (200, "")
        return await asyncio.gather(*(verdict(share.url) for _ in range(N_GOOD)))


@pytest.mark.slow
def test_thirty_pupils_lose_nothing_beside_a_hundred_hostile_ones(
    share: Share, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked(share)
    request(share.url)  # what is imported and cached once is not theirs
    process = psutil.Process()
    before, n_before = process.memory_info().rss, process.num_fds()
    with attacked(share.url) as done:
        verdicts = asyncio.run(lesson(share))
        grown, n_more = process.memory_info().rss - before, process.num_fds() - n_before

    assert len(verdicts) == N_GOOD
    assert all("It is ring: 30 of " in text for text in verdicts)
    assert share.answers.count("ring") == N_GOOD  # none of the hostile says so
    assert {kind.__name__ for kind in hostile_class.KINDS} <= set(done)
    assert grown < 100 << 20
    assert n_more < 500 + 2 * N_GOOD  # both ends of the good ones are here
    heard = "".join(capfd.readouterr()) + caplog.text
    assert "Traceback" not in heard
    for word in (hostile_class.TEXT, "curl", share.url.split("/")[-2]):
        assert word not in heard


# -- strangers, who have no token -----------------------------------------------------


def cut_off(url: str, begin: bytes, more: bytes, n_times: int) -> bool:
    """Return whether a connection ends before all of that was sent."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), LONG_S) as stranger:
        try:
            stranger.sendall(begin)
            for _ in range(n_times):
                stranger.sendall(more)
        except TimeoutError:  # it is there, and takes nothing
            return False
        except OSError:
            return True
    return False


UPGRADE = (
    "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.mark.slow
def test_more_bytes_than_a_page_sends_are_the_end_of_a_connection(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUEST_S", "_TAKEN_S"):  # not the time is
        monkeypatch.setattr(f"widgets.sharing.server.{name}", 3600.0)
    path = urlsplit(share.url).path
    watch = f"GET {path}news HTTP/1.1\r\n{UPGRADE}".encode()
    post = "/say HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
    megabyte = 1 << 20
    for begin, more in (
        (f"POST /wrong{post}".encode(), b"x" * megabyte),
        (f"POST {path[:-1]}{post}".encode(), b"x" * megabyte),
        (b"GET /wrong/ HTTP/1.1\r\nHost: x\r\n", b"a: " + b"x" * megabyte + b"\r\n"),
        (b"", b"x" * megabyte),
        (watch + b"\x01\x80abcd", b"\x00\x80abcd" * (megabyte // 6)),
        (watch, b"\x89\x80abcd" * (megabyte // 6)),
        (watch, b"\x81\x80abcd" * (megabyte // 6)),
    ):
        assert cut_off(share.url, begin, more, 60), begin


@pytest.mark.slow
def test_a_request_that_does_not_end_is_ended(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUEST_S", "SWEEP_S"):
        monkeypatch.setattr(f"widgets.sharing.server.{name}", 0.1)
    path = urlsplit(share.url).path
    head = "HTTP/1.1\r\nHost: x\r\n"
    for begin in (
        "",
        "GET / HT",
        f"POST {path}say {head}Content-Length: 100\r\n\r\n{{",
        f"POST {path}say {head}Transfer-Encoding: chunked\r\n\r\n5\r\n",
    ):
        assert raw(share.url, begin.encode()) == b"", begin


def test_an_answer_ends_its_connection_whatever_was_sent_after_it(share: Share) -> None:
    path = urlsplit(share.url).path
    asks = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()

    assert raw(share.url, asks).count(b"HTTP/1.1 200 OK") == 1
    assert raw(share.url, asks * 20).count(b"HTTP/1.1 200 OK") < 3


def test_a_page_without_descriptors_serves_again_when_there_are_some(
    share: Share,
) -> None:
    where = urlsplit(share.url)
    address = where.hostname, where.port
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_connection(address, LONG_S) as silent, socket.socket() as pupil:
        pupil.settimeout(LONG_S)
        # Who is answered came after the silent one, which is in by then.
        request(share.url)
        # Numbers are given below the limit: while 0, 1 and 2 are in use there is none,
        # whatever else is given back.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            pupil.connect(address)
            pupil.sendall(f"GET {where.path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert silent.recv(1) == b""  # it has to make room when there is none
            pupil.setblocking(False)
            with pytest.raises(BlockingIOError):
                pupil.recv(1)  # it was not accepted
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        pupil.settimeout(LONG_S)
        assert pupil.recv(15) == b"HTTP/1.1 200 OK"


def test_places_leave_half_of_the_descriptors_to_the_kernel() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for soft in (64, 300, 1024):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limits[1]))
            assert sum(places(kind) for kind in (STRANGER, GUEST, VIEWER)) <= soft / 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# -- who must go ----------------------------------------------------------------------


class Page:
    """A connection of which we only count."""

    def __init__(
        self, room: Room[Page], address: str, kind: str, *, is_silent: bool = False
    ) -> None:
        self.address, self.is_silent = address, is_silent
        self._room, self._is_closed = room, False
        room.enter(self, kind)

    def closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True
        self._room.leave(self)


def test_one_of_the_address_with_the_most_goes_and_a_silent_one_first() -> None:
    room: Room[Page] = Room()
    few = [Page(room, f"10.0.0.{n}", VIEWER) for n in range(30)]
    many = [
        Page(room, "10.0.1.1", VIEWER, is_silent=n == 90)
        for n in range(places(VIEWER) - len(few))
    ]

    late = Page(room, "10.0.0.99", VIEWER)

    assert [n for n, page in enumerate(many) if page.closed()] == [90]
    more = [Page(room, "10.0.0.99", VIEWER) for _ in range(10)]
    assert sum(page.closed() for page in many) == 11
    assert not any(page.closed() for page in [*few, late, *more])
    assert len(room.of(VIEWER)) == places(VIEWER)


def test_a_flood_from_their_own_address_does_not_drive_out_who_watched_before() -> None:
    room: Room[Page] = Room()
    first = [Page(room, "10.0.0.1", VIEWER) for _ in range(30)]
    for _ in range(1000):
        Page(room, "10.0.0.1", VIEWER)

    late = [Page(room, "10.0.0.1", VIEWER) for _ in range(30)]

    assert not any(page.closed() for page in first)
    assert sum(not page.closed() for page in late) > 10  # not one by one for each other


def test_strangers_take_no_place_of_the_class_and_the_class_none_of_its_teacher() -> (
    None
):
    room: Room[Page] = Room()
    kept = [Page(room, "10.0.0.1", kind) for kind in (GUEST, VIEWER, "teacher")]
    stranger = Page(room, "10.0.0.2", STRANGER)
    for _ in range(1000):
        Page(room, "10.0.0.1", STRANGER)

    assert not any(page.closed() for page in [*kept, stranger])
    for _ in range(1000):
        Page(room, "10.0.0.1", GUEST)
    assert [page.closed() for page in kept] == [True, False, False]
    teachers = [Page(room, "10.0.0.1", "teacher") for _ in range(20)]
    assert not any(page.closed() for page in teachers)


# -- pupils, who have the token of the class ------------------------------------------


@pytest.mark.slow
def test_answers_of_a_program_drive_out_none_of_a_class_behind_its_address() -> None:
    poll = Poll(Prediction("Which?", choices=("ps", "ring")))
    poll.start()
    early = [f"early {n}" for n in range(30)]
    for number, who in enumerate(early):
        poll.take(who, "ring", "10.0.0.1", float(number))
    for number in range(MOST_ANSWERS + 20):
        poll.take(f"made up {number}", "ps", "10.0.0.1", 40.0 + number // 5000)
    poll.take("late", "ring", "10.0.0.1", 50.0)

    assert {*early, "late"} <= set(poll.answers)
    assert len(poll.answers) == MOST_ANSWERS
    assert dict(poll.counts())["ring"] == 31
    said = f"{MOST_ANSWERS:,} of them came from 10.0.0.1."
    assert said in poll.html(is_teacher=True)
    assert "10.0.0.1" not in poll.html(is_teacher=False)


HOSTILE = ("1e999", "-1e999", "1e308", "-1e308", "9" * 400, "nan", "1e99 GB")


@for_each("answer", HOSTILE)
def test_no_answer_is_the_end_of_a_question(answer: str) -> None:
    poll = Poll(Prediction("How many bytes?", "bytes"), 32.0)
    poll.start()
    poll.take("anna", "1")

    with pytest.raises(InvalidArgumentError):
        poll.take("hostile", answer)

    poll.take("ben", "32")
    poll.reveal()
    assert "1 of 2 guesses" in poll.html(is_teacher=True)


def test_one_absurd_answer_leaves_the_others_in_bins_of_their_own() -> None:
    for absurd in ("1e100", "-1e100", "1e12"):
        poll = Poll(Prediction("How many?"))
        poll.start()
        for number in range(20):
            poll.take(str(number), str(100 + number))
        before = sum(n > 0 for _, n in poll.counts())
        poll.take("hostile", absurd)

        assert sum(n > 0 for _, n in poll.counts()) >= before, absurd
        assert sum(n for _, n in poll.counts()) == 21
    poll.take("another", "-1e100")
    assert len(poll.counts()) < 20


@pytest.mark.slow
def test_news_that_a_page_only_pretends_to_take_do_not_pile_up(share: Share) -> None:
    server = server_of(share)
    where = urlsplit(share.url)
    text = "x" * (1 << 20)
    with socket.create_connection((where.hostname, where.port), LONG_S) as pupil:
        pupil.sendall(f"GET {where.path}news HTTP/1.1\r\n{UPGRADE}".encode())
        assert pupil.recv(12) == b"HTTP/1.1 101"
        before = psutil.Process().memory_info().rss
        for number in range(100):
            server.tell({"status": Html(str(number) + text)})
            pupil.sendall(b"\x81\x80abcd")
            seen = threading.Event()
            server.call_soon(seen.set)
            assert seen.wait(LONG_S)
        assert psutil.Process().memory_info().rss - before < 50 << 20


def test_nothing_that_is_sent_comes_into_the_cell_or_back_as_a_page(
    share: Share, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked(share)
    text = "<script>alert(1)</script>"
    path = urlsplit(share.url).path
    deep, host = "[" * 1999, f"x' {text}"
    for data in (
        f"GET /static/../../{text} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET {path}{text} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n",
        f"PUT {path} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"{text}\r\n\r\n",
        f"GET /%ff{text}/ HTTP/1.1\r\nHost: x\r\nHost: y\r\nbad {text}\r\n\r\n",
        f"POST {path}say HTTP/1.1\r\nHost: x\r\nContent-Length: 1999\r\n\r\n{deep}",
        f"POST {path}say HTTP/1.1\r\nHost: x\r\nContent-Length: {text}\r\n\r\n",
    ):
        back = raw(share.url, data.encode())
        assert back.split()[1].startswith(b"4"), data
        assert b"text/html" not in back, data
        assert text.encode() not in back, data
    answer = json.dumps({"who": "anna", "answer": text})
    head = f"POST {path}say HTTP/1.1\r\nHost: x\r\nContent-Length: {len(answer)}"
    back = raw(share.url, f"{head}\r\n\r\n{answer}".encode())
    assert back.split()[1] == b"409"
    assert b"Content-Type: text/plain; charset=utf-8" in back
    assert text.encode() in back
    heard = "".join(capfd.readouterr()) + caplog.text
    for word in ("script", "Traceback", path.strip("/"), "static"):
        assert word not in heard, heard


def test_what_the_teachers_function_says_is_for_the_teacher_alone(share: Share) -> None:
    expected: dict[str, str] = {}
    share.ask(Prediction("Which?", choices=("ps", "ring")), lambda: expected["secret"])
    share.start()

    assert say(share.url, do="reveal")[1] != "KeyError: 'secret'"
    assert say(share.teacher_url, do="reveal")[1] == "KeyError: 'secret'"
    for who in ("", "x" * 65):
        assert say(share.url, who=who, answer="ring")[0] == 409
    assert share.answers == []
