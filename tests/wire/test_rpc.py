"""Questions and answers over a link."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from kit.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    PeerLost,
    UnimplementedError,
    UnknownError,
)
from kit.message_fields import anything, list_of, optional, whole
from kit.task import Task
from kit.testing.streams import memory_pair
from kit.testing.task_process import until
from kit.wire.frame import Bounds
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.rpc import Answer, Caller, Handler, ReconnectingCaller, result_of, serve

Links = tuple[Link, Link]


class Table:
    """What the answering side does in these tests."""

    def __init__(self) -> None:
        self.unexpected: list[tuple[str, BaseException]] = []
        self.release = threading.Event()
        echoed = {"a": optional(list_of(anything())), "n": optional(whole(0, 1000))}
        self.handlers = {
            "echo": Handler(echoed, self._echo),
            "fail": Handler({}, self._fail),
            "refuse": Handler({}, self._refuse),
            "crash": Handler({}, self._crash),
            "hang": Handler({}, self._hang),
            "wait": Handler({}, lambda *_: None, self._hang),
            "flood": Handler({}, self._flood),
        }

    def _echo(self, question: dict[str, Any], blob: bytearray) -> Answer:
        return {"heard": question}, bytes(reversed(blob))

    def _fail(self, question: dict[str, Any], _: bytearray) -> Answer:
        raise PeerLost("ps:0 is gone", task="/job:ps/task:0", step=7)

    def _refuse(self, question: dict[str, Any], _: bytearray) -> Answer:
        raise InvalidArgumentError("give a number")

    def _crash(self, question: dict[str, Any], _: bytearray) -> Answer:
        raise ZeroDivisionError("a bug")

    def _flood(self, question: dict[str, Any], _: bytearray) -> Answer:
        return {}, bytes(16 * 2**20)

    def _hang(self, question: dict[str, Any], _: bytearray) -> Answer:
        assert self.release.wait(10)
        return {}, b""


@contextmanager
def answered(links: Links) -> Iterator[tuple[Caller, Table]]:
    """Give the asking end while a thread serves the other."""
    table = Table()
    server = threading.Thread(
        target=serve,
        args=(
            links[1],
            table.handlers,
            5.0,
            lambda *what: table.unexpected.append(what),
        ),
    )
    server.start()
    caller = Caller(links[0])
    try:
        yield caller, table
    finally:
        table.release.set()
        caller.close()
        server.join(5)
        assert not server.is_alive()


def test_answer_and_blob_come_back(links: Links) -> None:
    with answered(links) as (caller, _):
        reply, blob = caller.call("echo", 5.0, {"a": [1, "ä"]}, blob=b"abc")

    assert reply == {"heard": {"a": [1, "ä"]}}
    assert bytes(blob) == b"cba"


BLOB = bytes(16 * 2**20)
REFUSED: list[tuple[Any, dict[str, Any], bytes, type[KitError], str]] = [
    ("fail", {}, b"", PeerLost, "ps:0 is gone"),
    ("refuse", {}, b"", InvalidArgumentError, "give a number"),
    ("crash", {}, b"", UnknownError, "ZeroDivisionError: a bug"),
    ("dance", {}, b"", UnimplementedError, "'dance'"),
    *(
        (op, {}, b"", UnimplementedError, "does not answer")
        for op in (3, None, ["echo"], {"op": "echo"})
    ),
    ("flood", {}, b"", InvalidArgumentError, "send it in several"),
    ("echo", {}, BLOB, InvalidArgumentError, "send it in several"),
    *(
        ("echo", values, b"", InvalidArgumentError, said)
        for values, said in (
            ({"n": "3"}, "echo: n is '3'; give a whole number, 0 to 1000"),
            ({"n": True}, "n is True"),
            ({"n": float("nan")}, "n is nan"),
            ({"n": -1}, "n is -1"),
            ({"n": 1001}, "n is 1001"),
            ({"a": {"b": 1}}, r"a is \{'b': 1\}; give a list"),
            ({"m": 1}, "'m' is not known; the values are a, n"),
        )
    ),
]


def test_what_goes_wrong_on_either_side_is_raised_here_and_harms_no_later_question(
    unix_links: Links,
) -> None:
    with answered(unix_links) as (caller, table):
        for op, values, blob, error, said in REFUSED:
            with pytest.raises(error, match=said) as caught:
                caller.call(op, 5.0, values, blob=blob)

            assert type(caught.value) is error
            if isinstance(caught.value, PeerLost):  # as it was there
                assert (caught.value.task, caught.value.step) == ("/job:ps/task:0", 7)
            assert caller.call("echo", 5.0, {"n": 1})[0] == {"heard": {"n": 1}}
        assert [op for op, _ in table.unexpected] == ["crash"]


def test_late_answer_ends_the_link_and_is_given_to_nobody(unix_links: Links) -> None:
    with answered(unix_links) as (caller, table):
        with pytest.raises(DeadlineExceededError):
            caller.call("hang", 0.02)
        table.release.set()

        with pytest.raises(LinkLost):
            caller.call("echo", 5.0)


def test_answer_to_an_interrupted_question_is_given_to_nobody(
    unix_links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt of the notebook must not shift all later answers by one."""

    def interrupt(*, deadline_s: float) -> tuple[dict[str, Any], bytearray]:
        raise KeyboardInterrupt

    with answered(unix_links) as (caller, _):
        with monkeypatch.context() as patch:
            patch.setattr(caller.link, "recv_message", interrupt)
            with pytest.raises(KeyboardInterrupt):
                caller.call("echo", 5.0, {"n": 1})

        with pytest.raises(LinkLost):
            caller.call("echo", 5.0)


def test_answer_that_waits_delays_no_other_on_its_link(unix_links: Links) -> None:
    with answered(unix_links) as (caller, table), ThreadPoolExecutor() as threads:
        waiting = threads.submit(caller.call, "wait", 10.0)
        for number in range(3):
            heard = caller.call("echo", 5.0, {"n": number})[0]["heard"]
            assert heard == {"n": number}
        assert not waiting.done()

        table.release.set()

        assert waiting.result(10)[0] == {}


def test_answer_that_came_too_late_is_given_to_nobody(unix_links: Links) -> None:
    with answered(unix_links) as (caller, table):
        with pytest.raises(DeadlineExceededError):
            caller.ask("wait", 0.02)
        table.release.set()

        for number in range(3):
            answer = result_of(caller.ask("echo", 5.0, {"n": number}))
            assert answer[0] == {"heard": {"n": number}}


def test_answers_to_questions_that_nobody_asked_are_passed_over(
    unix_links: Links,
) -> None:
    caller, link = Caller(unix_links[0]), unix_links[1]
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(caller.call, "echo", 10.0)
        asked, _ = link.recv_message(deadline_s=5.0)
        number = asked["question"]
        odds: list[Any] = [None, [number], {}, "0", False, number + 0.5, -1, number + 1]
        for odd in odds:
            link.send_message({"question": odd, "n": 1}, deadline_s=5.0)
        link.send_message({"n": 2}, deadline_s=5.0)
        link.send_message({"question": number, "n": 3}, deadline_s=5.0)

        assert asking.result(10)[0] == {"n": 3}


@pytest.mark.parametrize("number", [0, -1, "a", [1, [2]], {"b": None}, 10**400])
def test_answer_has_the_number_of_its_question_whatever_that_is(
    unix_links: Links, number: Any
) -> None:
    with answered(unix_links):
        link = unix_links[0]
        for op in ("echo", "crash", "dance"):
            link.send_message({"op": op, "question": number}, deadline_s=5.0)
            assert link.recv_message(deadline_s=5.0)[0]["question"] == number


def test_thread_that_waits_while_another_one_reads_keeps_its_deadline(
    unix_links: Links,
) -> None:
    with answered(unix_links) as (caller, table), ThreadPoolExecutor() as threads:
        reading = threads.submit(caller.ask, "wait", 10.0)
        until(lambda: caller._is_reading, 5)

        with pytest.raises(DeadlineExceededError, match="ps:0 did not answer in time"):
            caller.ask("wait", 0.02)

        table.release.set()
        assert result_of(reading.result(10))[0] == {}


def test_closed_link_is_an_error_for_the_asking_side(unix_links: Links) -> None:
    unix_links[1].close()

    with pytest.raises(LinkLost):
        Caller(unix_links[0]).call("echo", 5.0)


def test_asking_threads_get_their_own_answers(unix_links: Links) -> None:
    with answered(unix_links) as (caller, _), ThreadPoolExecutor(4) as threads:

        def ask(number: int) -> int:
            heard: int = caller.call("echo", 5.0, {"n": number})[0]["heard"]["n"]
            return heard

        assert [*threads.map(ask, range(80))] == [*range(80)]


def test_name_of_the_question_cannot_be_overwritten(unix_links: Links) -> None:
    with answered(unix_links) as (caller, _):
        reply, _ = caller.call("echo", 5.0, {"op": "crash"})

    assert reply == {"heard": {}}


def memory_links() -> Links:
    ends, (first, other) = (Task("worker", 1), Task("ps", 0)), memory_pair()
    more: dict[str, Any] = {"role": Role.CONTROL, "bounds": Bounds(1, 4096)}
    return (
        Link(first, local=ends[0], peer=ends[1], **more),
        Link(other, local=ends[1], peer=ends[0], **more),
    )


class Redialled:
    """A place to dial, where each link is served by a thread of its own."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.tables = list[Table]()

    def dial(self, _: float) -> Caller:
        caller, table = self._stack.enter_context(answered(memory_links()))
        self.tables.append(table)
        return caller


@pytest.fixture
def redialled() -> Iterator[Redialled]:
    with ExitStack() as stack:
        yield Redialled(stack)


def test_question_is_asked_again_over_a_new_link_where_no_answer_comes(
    redialled: Redialled,
) -> None:
    caller = ReconnectingCaller(redialled.dial, attempt_s=0.02)

    with pytest.raises(DeadlineExceededError):
        caller.call("hang", 0.1)
    n_dialled = len(redialled.tables)

    assert n_dialled > 1
    assert not caller.is_connected
    assert caller.call("echo", 5.0, {"n": 1})[0] == {"heard": {"n": 1}}
    assert len(redialled.tables) == n_dialled + 1


def test_link_is_closed_once_a_newer_one_has_carried_an_answer(
    redialled: Redialled,
) -> None:
    """Its end would otherwise be heard before there is another, and look like ours."""
    open_then: list[bool] = []
    links: list[Caller] = []

    def dial(give_up: float) -> Caller:
        open_then.extend(not link.is_closed for link in links)
        links.append(redialled.dial(give_up))
        return links[-1]

    caller = ReconnectingCaller(dial, attempt_s=0.02)

    with pytest.raises(DeadlineExceededError):
        caller.call("hang", 0.1)
    n_silent = len(links)
    assert not any(link.is_closed for link in links)
    caller.call("echo", 5.0)

    assert open_then == [True] * (n_silent * (n_silent + 1) // 2)
    assert [link.is_closed for link in links] == [True] * n_silent + [False]
    caller.close()
    assert links[-1].is_closed


def test_thread_that_waits_on_a_link_that_was_given_up_asks_on_the_next_one(
    redialled: Redialled,
) -> None:
    caller = ReconnectingCaller(redialled.dial, attempt_s=0.05)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(caller.call, "wait", 10.0, patience_s=10.0)
        until(lambda: len(redialled.tables) == 1, 5)
        with pytest.raises(DeadlineExceededError):
            caller.call("hang", 0.05)  # over the same link
        caller.call("echo", 5.0)
        assert not waiting.done()

        redialled.tables[-1].release.set()

        assert waiting.result(5)[0] == {}
    assert len(redialled.tables) > 1


def test_answer_that_may_take_long_is_waited_for_on_the_same_link(
    redialled: Redialled,
) -> None:
    caller = ReconnectingCaller(redialled.dial, attempt_s=0.1)
    caller.call("echo", 5.0)
    threading.Timer(0.2, redialled.tables[0].release.set).start()

    caller.call("hang", 0.05, patience_s=10)

    assert len(redialled.tables) == 1


def test_error_that_is_answered_is_raised_and_not_asked_about_again(
    redialled: Redialled,
) -> None:
    caller = ReconnectingCaller(redialled.dial, attempt_s=1)

    with pytest.raises(PeerLost, match="ps:0 is gone"):
        caller.call("fail", 5.0)

    assert len(redialled.tables) == 1
    assert caller.is_connected


def test_closed_caller_dials_no_more(redialled: Redialled) -> None:
    caller = ReconnectingCaller(redialled.dial, attempt_s=1)
    caller.call("echo", 5.0)

    caller.close()

    with pytest.raises(LinkLost):
        caller.call("echo", 5.0)
    assert len(redialled.tables) == 1
