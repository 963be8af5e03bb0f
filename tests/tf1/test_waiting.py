"""Runs of `kit.tf1` wait as long as the original's, and say what they wait for."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from typing import Any

import numpy as np
import pytest

import kit
from kit import tf1 as tf
from kit.settings import settings
from tests.tf1.servers import addresses
from tests.zygote import forking


def test_session_on_nobody_ends_at_its_deadline_and_names_the_target() -> None:
    (address,) = addresses(1)
    seven = tf.constant(7)
    session = tf.Session(f"grpc://{address}")

    begin = time.monotonic()
    with (
        settings(run_deadline_s=3600.0),  # by this one it would not end here
        pytest.raises(tf.errors.DeadlineExceededError) as caught,
    ):
        session.run(seven, options=tf.RunOptions(timeout_in_ms=100))
    session.close()

    assert time.monotonic() - begin >= 0.1
    assert f"grpc://{address} did not answer within 0.1 s" in str(caught.value)


def test_client_may_start_before_its_server() -> None:
    (address,) = addresses(1)
    seen: list[int] = []

    def ask() -> None:
        with (
            tf.Graph().as_default(),
            tf.Session(f"grpc://{address}") as session,
        ):
            seen.append(int(session.run(tf.constant(7))))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(0.1)
    was_waiting = thread.is_alive()
    tf.train.Server({"w": [address]})
    thread.join(20.0)

    assert was_waiting
    assert seen == [7]


@pytest.mark.slow
def test_run_names_the_task_that_is_not_up() -> None:
    here, there = addresses(2)
    server = tf.train.Server({"ps": [there], "worker": [here]}, "worker", 0)
    seven = tf.constant(7)
    options = tf.RunOptions(timeout_in_ms=500)
    with (
        tf.Session(server.target) as session,
        pytest.raises(tf.errors.DeadlineExceededError, match="/job:ps/task:0"),
    ):
        session.run(seven, options=options)


def test_join_waits_as_long_as_the_server_serves() -> None:
    server = tf.train.Server.create_local_server()
    thread = threading.Thread(target=server.join)
    thread.start()
    thread.join(0.1)
    was_waiting = thread.is_alive()

    from kit.tf1.session.server import stop_all

    stop_all()
    thread.join(10.0)

    assert was_waiting
    assert not thread.is_alive()


class Heard:
    """Stands in for standard error, and lets a test wait for a line of it."""

    def __init__(self) -> None:
        self.lines: queue.Queue[str] = queue.Queue()

    def write(self, text: str) -> None:
        if text.strip():
            self.lines.put(text)

    def flush(self) -> None:
        pass

    def next(self) -> str:
        return self.lines.get(timeout=30)


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Give an ear for what is said every twentieth of a second."""
    # Shorter than any wait here: a run with this limit would fail.
    with settings(still_waiting_s=0.05, run_deadline_s=0.01):
        yield Heard()


def waits_and_says(
    heard: Heard, run: Callable[[], object], end: Callable[[], object]
) -> tuple[list[str], object]:
    """Return two lines that a run says before `end` lets it end, and its result."""
    said: list[str] = []

    def listen() -> None:
        said.extend([heard.next(), heard.next()])
        end()

    listener = threading.Thread(target=listen)
    listener.start()
    with redirect_stderr(heard):  # type: ignore[type-var]
        result = run()
    listener.join(30)
    return said, result


@pytest.mark.slow
@pytest.mark.parametrize("task", ["/job:worker/task:0", "/job:ps/task:0"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])  # called, and by a link
def test_run_waits_for_an_element_without_a_limit_and_says_so(
    heard: Heard, task: str, host: str
) -> None:
    ps, worker = addresses(2)
    spec = {"ps": [ps], "worker": [worker]}
    with (
        kit.Server(spec, "ps", 0),
        kit.Server(spec, "worker", 0),
        tf.Graph().as_default(),
    ):
        with tf.device(task):
            done = tf.FIFOQueue(1, tf.int32, shared_name="done")
            put, take = done.enqueue(7), done.dequeue()
        target = f"grpc://{worker.replace('localhost', host)}"
        with tf.Session(target) as session:
            session.list_devices()  # a busy machine would say that it waits for these
            said, taken = waits_and_says(
                heard, lambda: session.run(take), lambda: session.run(put)
            )

    assert said == ["still waiting for an element in queue `done`"] * 2
    assert taken == 7


@pytest.mark.slow
def test_run_waits_for_a_task_that_comes_late_and_says_so(heard: Heard) -> None:
    ps, worker = addresses(2)
    spec = {"ps": [ps], "worker": [worker]}
    server = tf.train.Server(spec, "worker", 0)
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        with tf.device("/job:ps/task:0"):
            seven = tf.constant(7)

        said, result = waits_and_says(
            heard,
            lambda: session.run(seven),
            lambda: tf.train.Server(spec, "ps", 0),
        )

    assert said == ["still waiting for /job:ps/task:0 to come up"] * 2
    assert result == 7


@pytest.mark.slow
def test_monitored_session_waits_for_a_task_that_comes_late(heard: Heard) -> None:
    ps, worker = addresses(2)
    spec = {"ps": [ps], "worker": [worker]}
    server = tf.train.Server(spec, "worker", 0)
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()

    said, result = waits_and_says(
        heard,
        lambda: tf.train.MonitoredTrainingSession(server.target),
        lambda: tf.train.Server(spec, "ps", 0),
    )
    with result as session:  # type: ignore[attr-defined]
        assert session.run(step) == 0

    assert said == ["still waiting for /job:ps/task:0 to come up"] * 2


def test_run_that_computes_without_a_limit_says_where(
    heard: Heard, session: Any
) -> None:
    go_on = threading.Event()

    def compute() -> np.int32:
        go_on.wait(30)
        return np.int32(7)

    seven = tf.py_func(compute, [], tf.int32)
    said, result = waits_and_says(heard, lambda: session.run(seven), go_on.set)

    where = "/job:localhost/task:0"
    assert said == [f"still waiting for the end of a computation on {where}"] * 2
    assert result == 7


def test_queue_runner_that_waits_for_room_says_nothing(
    heard: Heard, session: Any
) -> None:
    full = tf.FIFOQueue(1, tf.int32, shared_name="full")
    done = tf.FIFOQueue(1, tf.int32, shared_name="done")
    tf.train.add_queue_runner(tf.train.QueueRunner(full, [full.enqueue(1)]))
    put, take = done.enqueue(7), done.dequeue()
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coord)
    said, _ = waits_and_says(heard, lambda: session.run(take), lambda: session.run(put))
    coord.request_stop()
    coord.join(threads)

    assert said == ["still waiting for an element in queue `done`"] * 2


@pytest.mark.parametrize("of", ["config", "options"])
def test_limit_of_the_original_ends_a_run_and_is_named(of: str) -> None:
    config = tf.ConfigProto(operation_timeout_in_ms=50 if of == "config" else 0)
    options = tf.RunOptions(timeout_in_ms=50) if of == "options" else None
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        take = tf.FIFOQueue(1, tf.int32, shared_name="done").dequeue()

        with pytest.raises(
            tf.errors.DeadlineExceededError,
            match=r"queue `done` did not come within the 0\.05 s.*Allow more with "
            r"timeout_in_ms of its tf\.RunOptions, or with operation_timeout_in_ms",
        ):
            session.run(take, options=options)


PROGRAM = """
from kit import tf1 as tf
print(tf.Session().run(tf.FIFOQueue(1, tf.int32, shared_name="done").dequeue()))
"""


@pytest.mark.slow
def test_interrupt_ends_a_run_that_has_no_limit() -> None:
    with forking():
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "KIT_STILL_WAITING_S": "0.05"},
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.stderr is not None
    said = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=30)

    assert said == "still waiting for an element in queue `done`\n"
    assert process.returncode != 0
    assert "KeyboardInterrupt" in rest


# --------------------------------------------------------------------------------------
# A run asks only the tasks that it needs.


@pytest.mark.slow
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_session_goes_on_after_a_task_that_it_does_not_need_has_ended(
    host: str,
) -> None:
    here, there = addresses(2)
    spec = {"worker": [here, there]}
    other = kit.Server(spec, "worker", 1)
    config = tf.ConfigProto(operation_timeout_in_ms=5_000)
    with kit.Server(spec, "worker", 0), tf.Graph().as_default():
        with tf.device("/job:worker/task:0"):
            tensor = tf.constant(1)
        target = f"grpc://{here.replace('localhost', host)}"
        with tf.Session(target, config=config) as session:
            devices = session.list_devices()
            other.stop()

            assert session.run(tensor) == 1
            with tf.device("/job:worker/task:0"):
                three = tensor + 2
            assert session.run(three) == 3
            assert session.list_devices() == devices
            with tf.device("/job:worker/task:1"):
                lost = tensor + 3
            with pytest.raises(tf.errors.UnavailableError, match="worker/task:1"):
                session.run(lost)
            assert session.run(three) == 3


# --------------------------------------------------------------------------------------
# The end of a program that has left its session open.


LEFT_OPEN = """
import sys
from kit import tf1 as tf
session = tf.Session(sys.argv[1])
print(session.run(tf.constant(1)), flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_program_ends_quietly_with_a_session_whose_server_has_ended() -> None:
    (address,) = addresses(1)
    with kit.Server({"worker": [address]}, "worker", 0), forking():
        process = subprocess.Popen(
            [sys.executable, "-c", LEFT_OPEN, f"grpc://{address}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        result = process.stdout.readline()
    _, said = process.communicate("\n", timeout=30)

    assert (result, said, process.returncode) == ("1\n", "", 0)


# --------------------------------------------------------------------------------------
# What a program may write in other ways than we do.


@pytest.mark.parametrize("written", ["{}: {}", " {}:{}", "{}:{} ", "{} :{}"])
def test_address_may_have_blanks(written: str) -> None:
    host, port = addresses(1)[0].split(":")
    address = written.format(host, port)
    server = tf.train.Server({"local": [address]})

    assert server.target == f"grpc://{host}:{port}"
    with tf.Graph().as_default(), tf.Session(f"grpc://{address}") as session:
        assert session.run(tf.constant(b"hello")) == b"hello"


def test_placement_is_logged_once_for_each_operation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = tf.train.Server.create_local_server()
    config = tf.ConfigProto(log_device_placement=True)
    where = "/job:local/replica:0/task:0/device:CPU:0"
    c = tf.constant(1, name="c")
    with tf.Session(server.target, config=config) as session:
        session.run(c)
        first = capsys.readouterr().err
        d = tf.negative(c, name="d")
        session.run(d)
        session.run(c)
        second = capsys.readouterr().err

    assert first == f"c: (Const): {where}\n"
    assert second == f"d: (Neg): {where}\n"
