"""What is wrong is told by a typed error, and nothing that was trained is lost."""

from __future__ import annotations

import fcntl
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit import tf1 as tf
from tests.session.scene import in_thread
from tests.tf1.monitored.counting import Told, counting


class Fault(Exception):
    """What the hook of a user raises."""


def failing_in(method: str) -> Told:
    """Return a hook that raises in one of its methods."""

    def fail(self: Any, *_: Any) -> None:
        raise Fault(f"in {method}")

    kind: type[Told] = type("Failing", (Told,), {method: fail})
    return kind("bad")


def saved_steps(folder: Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("*.index"))


@pytest.mark.parametrize("method", ["begin", "after_create_session"])
def test_hook_that_fails_before_the_first_run_leaves_an_open_graph(
    method: str, graph: tf.Graph
) -> None:
    counting(ps="")

    with pytest.raises(Fault, match=method):
        tf.train.MonitoredTrainingSession(hooks=[failing_in(method)])

    assert not graph.finalized
    tf.constant(1)  # the graph can be corrected, and another session be made
    with tf.train.MonitoredTrainingSession() as session:
        assert session.run(tf.train.get_global_step()) == 0


@pytest.mark.parametrize(("method", "is_done"), [("before_run", 0), ("after_run", 1)])
def test_hook_that_fails_in_a_run_ends_the_block_without_its_end(
    method: str, is_done: int, tmp_path: Path
) -> None:
    _, count = counting(ps="")
    other = Told()
    session = tf.train.MonitoredTrainingSession(
        hooks=[other, failing_in(method)], checkpoint_dir=str(tmp_path)
    )

    with pytest.raises(Fault, match=method), session:
        session.run(count)

    assert "end" not in other.book
    assert session.should_stop()
    assert saved_steps(tmp_path) == [0]
    assert other.book.count("after") == is_done


def test_hook_that_fails_at_the_end_does_not_keep_the_rest_from_being_saved(
    tmp_path: Path, graph: tf.Graph
) -> None:
    _, count = counting(ps="")
    session = tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), chief_only_hooks=[failing_in("end")]
    )

    for _ in range(3):
        session.run(count)

    with pytest.raises(Fault, match="end"):
        session.close()

    assert saved_steps(tmp_path) == [0, 3]
    assert not graph.finalized


def test_no_run_begins_after_a_stop_was_asked_for() -> None:
    _, count = counting(ps="")

    with tf.train.MonitoredTrainingSession(
        hooks=[tf.train.StopAtStepHook(last_step=2)]
    ) as session:
        while not session.should_stop():
            session.run(count)
        with pytest.raises(RuntimeError, match="should_stop"):
            session.run(count)
        step = tf.train.get_global_step()

    assert step is not None


@pytest.mark.parametrize("folder", ["taken", "taken/below"])
def test_file_in_the_place_of_the_folder_is_known_before_the_first_run(
    folder: str, tmp_path: Path
) -> None:
    counting(ps="")
    (tmp_path / "taken").write_text("")

    with pytest.raises(tf.errors.FailedPreconditionError, match=folder):
        tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path / folder))


@pytest.mark.slow
def test_folder_of_another_process_is_refused_with_that_process(
    tmp_path: Path,
) -> None:
    counting(ps="")
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"

    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match=rf"process {holder.pid}.*two chiefs.*only_hooks",
    ):
        tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path))

    holder.communicate("\n", timeout=20)
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
        assert not session.should_stop()


_HOLDER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_hook_may_be_collected_while_another_locks_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    hooks = [tf.train.CheckpointSaverHook(str(first), save_secs=1)]
    tf.train.get_or_create_global_step()
    hooks[0].begin()
    lock = fcntl.flock

    def collecting(fd: int, operation: int) -> None:
        hooks.clear()
        gc.collect()
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", collecting)
    hook = tf.train.CheckpointSaverHook(str(second), save_secs=1)
    graph = tf.get_default_graph()

    def begin() -> None:
        with graph.as_default():
            hook.begin()

    in_thread(begin).result(20)

    assert not hooks  # it was collected
    with opened(first) as free, opened(second) as held:
        lock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            lock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def test_two_sessions_of_one_process_may_save_into_one_folder(tmp_path: Path) -> None:
    _, count = counting(ps="")

    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as outer:
        outer.run(count)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as inner:
            step = int(inner.run(count))

    assert step == 1  # each has its own variables, without a cluster


def test_checkpoint_of_another_graph_names_what_it_lacks(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        _, count = counting(ps="")
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
            session.run(count)
    tf.Variable(1.0, name="newcomer")
    counting(ps="")

    with pytest.raises(tf.errors.NotFoundError, match="newcomer"):
        tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path))


def test_damaged_checkpoint_is_no_reason_to_begin_anew(tmp_path: Path) -> None:
    _, count = counting(ps="")
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
        session.run(count)
    (data,) = tmp_path.glob("model.ckpt-1.data-*")
    damaged = bytearray(data.read_bytes())
    damaged[-1] ^= 1
    data.write_bytes(damaged)

    with pytest.raises(tf.errors.DataLossError, match=r"model\.ckpt-1"):
        tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path))


def test_failed_variables_are_named_when_the_init_op_forgets_them() -> None:
    v = tf.Variable(1.0, name="v")
    tf.Variable(1.0, name="forgotten")

    with pytest.raises(RuntimeError, match="not initialized: forgotten"):
        tf.train.MonitoredTrainingSession(
            scaffold=tf.train.Scaffold(init_op=v.initializer)
        )


def test_recovery_happens_in_the_graph_of_the_session() -> None:
    """A program may run a session while another graph is the default."""
    failures = [tf.errors.AbortedError(None, None, "lost")]

    class Losing(tf.train.SessionRunHook):  # type: ignore[misc]
        def before_run(self, run_context: Any) -> None:
            if failures:
                raise failures.pop()

    _, count = counting(ps="")
    session = tf.train.MonitoredSession(hooks=[Losing()])
    with tf.Graph().as_default() as other:
        step = int(session.run(count))
        session.close()

    assert step == 1
    assert not other.finalized
    assert not other.get_operations()
