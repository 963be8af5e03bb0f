"""Session: closing while a run waits, and what a config refuses."""

from __future__ import annotations

import threading
import time
from typing import Any


def blocked(tf: Any) -> Any:
    """Return an operation that waits for an element that nobody enqueues."""
    return tf.FIFOQueue(1, tf.int32, name="empty").dequeue()


def closed_while_running(tf: Any, target: str) -> Any:
    waiting = blocked(tf)
    session = tf.Session(target)
    session.run(tf.constant(7))
    result: list[Any] = []

    def wait() -> None:
        try:
            session.run(waiting)
        except tf.errors.OpError as error:
            result.append(type(error).__name__)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)  # the run needs a moment to reach the queue
    session.close()
    thread.join(10.0)
    return result


def case_closing_cancels_what_runs(tf: Any) -> Any:
    return closed_while_running(tf, "")


def case_a_config_refuses_an_unknown_field(tf: Any) -> Any:
    return tf.ConfigProto(moon=True)


def case_a_config_refuses_text_for_a_bool(tf: Any) -> Any:
    return tf.ConfigProto(allow_soft_placement="yes")
