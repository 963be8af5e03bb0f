"""Requests that are interrupted, and requests that come while a training ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import kit
from kit.errors import FailedPreconditionError, KitError
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.client.observer import Observer
from kit.wire.link import Link
from kit.wire.rpc import Answer, Caller
from tests.training.paced import Held, answer_with, begin

MANY = 1_000_000


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes the next answer that this thread waits for a Ctrl-C instead."""
    plain: Callable[..., Any] = Link.recv_message
    armed, me = threading.Event(), threading.get_ident()

    def recv_message(self: Link, *, deadline_s: float) -> Any:
        if armed.is_set() and threading.get_ident() == me:
            armed.clear()
            raise KeyboardInterrupt
        return plain(self, deadline_s=deadline_s)

    monkeypatch.setattr(Link, "recv_message", recv_message)
    return armed.set


@contextmanager
def held(cluster: LocalCluster) -> Iterator[kit.Run]:
    """Give a training that stands in its first step; it is stopped at the end."""
    step = Held()
    run = begin(cluster, step, steps=MANY)
    try:
        assert step.reached.wait(10)
        yield run
    finally:
        step.go.set()
        run.stop()
        run.wait(10)


def test_request_after_an_interrupted_one_is_taken(
    cluster: LocalCluster, interrupt: Callable[[], None]
) -> None:
    with held(cluster) as run:
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            run.pause()
        until(lambda: run.halting == "pausing")

        run.resume()

        assert run.halting == ""


def test_ctrl_c_pauses_after_one_whose_pause_was_interrupted(
    cluster: LocalCluster,
    interrupt: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ctrl_c(_: float | None) -> None:
        raise KeyboardInterrupt

    with held(cluster) as run:
        with monkeypatch.context() as patch:
            patch.setattr(run.source, "wait", ctrl_c)
            interrupt()
            with pytest.raises(KeyboardInterrupt):
                run.wait()
            run.resume()

            with pytest.raises(KeyboardInterrupt):
                run.wait()

        assert run.halting == "pausing"


def caller_of(run: kit.Run) -> Caller | None:
    """Return the link on which a run's requests are sent."""
    assert isinstance(run.source, Observer)
    return run.source._requests._caller


def test_refused_request_leaves_the_link_to_the_others(cluster: LocalCluster) -> None:
    with held(cluster) as run:
        run.pause()
        way = caller_of(run)

        with pytest.raises(kit.errors.InvalidArgumentError):
            run.topology = "star"

        assert way is not None
        assert caller_of(run) is way


def test_request_while_the_link_is_being_closed_hears_that_it_is_over(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[KitError] = []
    wishing: set[Caller] = set()
    plain_ask: Callable[..., Any] = Caller.ask
    plain_close: Callable[..., None] = Caller.close

    def ask(self: Caller, op: str, *args: Any, **more: Any) -> Any:
        if op == "run.command":
            wishing.add(self)
        return plain_ask(self, op, *args, **more)

    def close(self: Caller) -> None:
        plain_close(self)
        if self in wishing and not heard:
            try:
                run.pause()
            except KitError as error:
                heard.append(error)

    monkeypatch.setattr(Caller, "ask", ask)
    monkeypatch.setattr(Caller, "close", close)

    with held(cluster) as run:
        run.pause()
        run.resume()
    until(lambda: bool(heard))

    assert isinstance(heard[0], FailedPreconditionError)


def test_request_that_waits_for_its_answer_at_the_end_hears_that_it_is_over(
    cluster: LocalCluster,
) -> None:
    asked, go, step = threading.Event(), threading.Event(), Held()
    server = cluster.servers[1]

    def slow(_: dict[str, Any], __: bytearray) -> Answer:
        asked.set()
        assert go.wait(20)
        return {}, b""

    answer_with(server, "run.command", slow)
    run = begin(cluster, step, steps=1)
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(run.pause)
        assert asked.wait(10)
        step.go.set()
        run.wait(10)

        error = request.exception(10)

        go.set()
    assert isinstance(error, FailedPreconditionError)
