"""A shared board: who may watch, what pages get, and what a class is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.websocket import WebSocketClientConnection, websocket_connect

from kit.errors import (
    AddressInUse,
    FailedPreconditionError,
    InvalidArgumentError,
)
from kit.markup import Html
from tests.training.paced import LONG_S
from tests.widgets.class_pages import request, say
from tests.widgets.insides import beat_of, server_of
from tests.widgets.live import SLOW, standing_training
from tests.widgets.traces import toggled
from widgets import Prediction, TrafficBoard
from widgets.board.scene import scene
from widgets.sharing import pages
from widgets.sharing.poll import Poll
from widgets.sharing.share import Share

T = TypeVar("T")
# Tornado leaves a socket that cannot be bound to be collected.
UNBOUND = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def board() -> Iterator[TrafficBoard]:
    result = TrafficBoard(toggled(("ps", "ring"), steps=10))
    yield result
    result.close()


def looking(url: str, look: Callable[[WebSocketClientConnection], Awaitable[T]]) -> T:
    """Connect as a page does, and return what it found."""

    async def run() -> T:
        page = await websocket_connect(f"ws{url.removeprefix('http')}news")
        try:
            return await asyncio.wait_for(look(page), LONG_S)
        finally:
            page.close()
            await page.read_message()

    return asyncio.run(run())


async def news(page: WebSocketClientConnection) -> dict[str, str]:
    text = await page.read_message()
    assert text is not None
    await page.write_message("")
    result: dict[str, str] = json.loads(text)
    return result


def test_only_who_knows_the_address_may_look(board: TrafficBoard) -> None:
    share = board.share()
    base = share.url.rsplit("/", 2)[0]

    status, page = request(share.url)
    assert (status, "Shared board" in page) == (200, True)
    assert "default-src 'none'" in page
    for wrong in ("x" * 22, share.url.split("/")[-2][:-1] + "-"):
        for path in (f"{base}/{wrong}/", f"{base}/{wrong}/news"):
            assert request(path)[0] == 403
        assert say(f"{base}/{wrong}/", who="me", answer="1")[0] == 403
    assert request(f"{base}/")[0] == 404


def test_a_page_is_told_the_whole_board_when_it_comes(board: TrafficBoard) -> None:
    reply = looking(board.share().url, news)

    assert reply["scene"].startswith(scene(beat_of(board).moment))
    assert set(reply) == {"status", "numbers", "scene", "loss", "table"}


def test_a_page_can_change_nothing(board: TrafficBoard) -> None:
    share = board.share()
    share.ask(Prediction("How many?", "messages"))

    assert say(share.url, do="start")[0] == 409
    assert say(share.url, who="me", answer="3")[0] == 409  # has not begun
    assert request(share.url, "say", b"[1, 2")[0] == 400
    assert request(share.url, "say", b"x" * 5000)[0] == 400
    assert request(share.url, "say", b'{"who": 3}')[0] == 400
    assert share.answers == []


def test_a_question_is_begun_answered_and_revealed(board: TrafficBoard) -> None:
    share = board.share()
    share.ask(Prediction("How many bytes?", "bytes", low=0, high=1e6), lambda: 1000)

    assert say(share.teacher_url, do="start") == (200, "")
    assert say(share.url, who="anna", answer="1 kB") == (200, "Locked in: 1,000 bytes.")
    assert say(share.url, who="anna", answer="2 kB")[0] == 409
    assert "out of range" in say(share.url, who="ben", answer="9 MB")[1]
    assert say(share.url, who="ben", answer="300 kB")[0] == 200
    assert share.answers == [1000, 300_000]
    before = looking(share.url, news), looking(share.teacher_url, news)
    assert ["ps-answers" in text["question"] for text in before] == [False, True]
    assert 'name="answer"' in before[0]["form"]
    assert say(share.url, who="ben", mine="")[1].startswith("Locked in: ")
    assert say(share.url, who="nobody", mine="") == (200, "")

    assert say(share.teacher_url, do="reveal") == (200, "")

    assert say(share.url, who="ben", mine="")[1].endswith(
        "too high by a factor of 300."
    )
    assert say(share.url, who="nobody", mine="") == (200, "")
    after = looking(share.url, news)
    assert "ps-answers" in after["question"]
    said = "\u25b8 Measured: 1,000 bytes. 1 of 2 guesses are within a fifth of it."
    assert said in after["question"]
    assert "\u25b8 " in after["question"].split("</svg>")[0]
    assert after["form"] == ""
    assert say(share.url, who="late", answer="5")[0] == 409
    assert say(share.teacher_url, do="reset")[0] == 200
    assert share.answers == []


def test_what_was_measured_is_marked_where_an_equal_answer_is_counted() -> None:
    poll = Poll(Prediction("How many bytes?", "bytes", low=0), 800_000)
    poll.start()
    for who, answer in (("anna", "790 kB"), ("ben", "1.2 MB"), ("cleo", "800 kB")):
        poll.take(who, answer)

    poll.reveal()

    marked = [count for count in poll.counts() if count[0].startswith("\u25b8")]
    assert marked == [("\u25b8 800,000 to 900,000", 1)]


@pytest.mark.slow
def test_watchers_of_a_training_see_it_go_on_pause_for_the_teacher_and_end() -> None:
    with standing_training(link=SLOW) as (run, step, _):
        board = TrafficBoard(run)
        share = board.share()

        async def watch(page: WebSocketClientConnection) -> list[str]:
            lines = [(await news(page))["status"]]
            step.go.set()
            while still in (await news(page)).get("scene", still):
                pass  # until all links carry something
            assert say(share.url, who="anna", do="pause")[0] == 409
            assert say(share.teacher_url, do="pause") == (200, "")
            while "Paused at" not in lines[-1]:
                lines.append((await news(page)).get("status", ""))
            run.stop()
            while "Stopped after" not in lines[-1]:
                lines.append((await news(page)).get("status", ""))
            return lines

        still = 'data-rate="0"'
        reply = looking(share.url, watch)

        assert "Training, " in reply[0]
        assert "steer" not in looking(share.url, news)
        assert share.url in looking(share.teacher_url, news)["address"]
        assert "Stopped after" in looking(share.url, news)["status"]
        board.close()


def test_a_slow_page_skips_news_and_gets_the_newest(board: TrafficBoard) -> None:
    share = board.share()
    server = server_of(share)

    async def look(page: WebSocketClientConnection) -> list[dict[str, str]]:
        first = await page.read_message()
        for number in range(5):
            server.tell({"status": Html(str(number)), f"only-{number}": Html()})
        await asyncio.sleep(0)
        while server.news["viewer"].get("status") != "4":
            await asyncio.sleep(0.001)
        await page.write_message("")
        return [json.loads(first or ""), await news(page)]

    _, second = looking(share.url, look)

    assert second["status"] == "4"
    assert {f"only-{n}" for n in range(5)} <= set(second)


@UNBOUND
def test_a_board_is_shared_once_and_ends_with_it(board: TrafficBoard) -> None:
    share = board.share()
    assert board.share() is share
    port = int(share.url.split(":")[2].split("/")[0])
    with pytest.raises(AddressInUse, match=str(port)):
        Share(beat_of(board), None, port=port)

    board.close()

    assert repr(share) == "A board that is not shared any more."
    with pytest.raises(ConnectionRefusedError):
        request(share.url)
    with pytest.raises(FailedPreconditionError, match=r"board\.share"):
        share.ask(Prediction("How many?", "messages"))


@UNBOUND
def test_an_address_that_is_not_of_this_machine_is_an_error(
    board: TrafficBoard,
) -> None:
    for wrong in ({"host": "203.0.113.7"}, {"port": 99_999}, {"port": -3}):
        with pytest.raises(InvalidArgumentError, match="address of this machine"):
            board.share(**wrong)


def test_nobody_can_reveal_what_was_not_measured(board: TrafficBoard) -> None:
    share = board.share()
    with pytest.raises(FailedPreconditionError, match=r"share\.ask"):
        share.start()

    share.ask(Prediction("Which?", choices=("ps", "ring")))
    share.start()
    with pytest.raises(FailedPreconditionError, match="measured"):
        share.reveal()

    expected: dict[str, str] = {}
    share.ask(Prediction("Which?", choices=("ps", "ring")), lambda: expected["no"])
    assert say(share.teacher_url, do="reveal") == (409, "KeyError: 'no'")
    share.start()
    say(share.url, who="anna", answer="ring")
    assert share.reveal("ring") == "It is ring: 1 of 1 guessed so."


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40))
def test_each_answer_is_in_one_bin(numbers: list[float]) -> None:
    poll = Poll(Prediction("How many?"))
    poll.start()
    for who, number in enumerate(numbers):
        poll.answers[str(who)] = number

    counts: Any = poll.counts()

    assert sum(n for _, n in counts) == len(numbers)
    assert len(counts) <= 20
    for label, n in counts:
        low, high = (float(part.replace(",", "")) for part in label.split(" to "))
        # Labels have nine digits, and edges are round to a billionth of a bin.
        near = 1e-6 * (high - low) + 1e-8 * max(1.0, abs(low), abs(high))
        assert n <= sum(low - near <= x <= high + near for x in numbers)
    assert poll.histogram().count("<rect") == len(counts)


def test_the_address_for_the_class_is_a_link_and_a_code() -> None:
    pytest.importorskip("segno")

    text = pages.address("http://teacher:8123/token/")

    assert text.count("http://teacher:8123/token/") == 2
    assert 'viewBox="-3 -3 31 31"' in text  # a code of version 2
