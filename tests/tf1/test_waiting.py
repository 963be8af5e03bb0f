"""Where the original waits for ever, `kit.tf1` waits for a deadline and names what."""

from __future__ import annotations

import threading
import time

import pytest

from kit import tf1 as tf
from kit.settings import settings
from tests.tf1.servers import addresses


def test_session_on_nobody_ends_at_its_deadline_and_names_the_target() -> None:
    (address,) = addresses(1)
    with tf.Graph().as_default():
        seven = tf.constant(7)
        session = tf.Session(f"grpc://{address}")

        begin = time.monotonic()
        with (
            settings(run_deadline_s=0.1),
            pytest.raises(tf.errors.DeadlineExceededError, match=address),
        ):
            session.run(seven)
        session.close()

    assert 0.1 <= time.monotonic() - begin < 2.0


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
    with tf.Graph().as_default():
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
