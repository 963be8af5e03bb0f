"""Monitored sessions: how they begin, what they run, what they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.folders import checkpoints, files, in_folder
from tests.tf1.look import Case, makes_case, tf


def counter() -> Any:
    """Make a global step; return it and what counts it."""
    step = tf.train.get_or_create_global_step()
    return step, step.assign_add(1)


def session_of(kind: str) -> Any:
    return {
        "training": tf.train.MonitoredTrainingSession,
        "monitored": tf.train.MonitoredSession,
        "singular": tf.train.SingularMonitoredSession,
    }[kind]()


@makes_case
def counted(kind: str) -> Any:
    """Return a case: the kind of session initialises, runs and ends."""
    step, train = counter()
    graph = tf.get_default_graph()
    with session_of(kind) as session:
        result = [session.should_stop(), graph.finalized, session.graph is graph]
        result += [session.run(train) for _ in range(3)]
        result += [session.run([step, {"s": step}])]
    return [*result, session.should_stop(), graph.finalized]


def case_fed() -> Any:
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    with tf.train.MonitoredTrainingSession() as session:
        return [session.run(y, {x: 4.0}), session.run(y, feed_dict={x: 5.0})]


def saved(folder: Path, n_steps: int, **named: Any) -> Any:
    """Count so many steps in a graph of its own; tell them, and the checkpoints."""
    with tf.Graph().as_default():
        _, train = counter()
        session = tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder), **named)
        with session:
            result = [session.run(train) for _ in range(n_steps)]
    return [result, checkpoints(folder)]


def saved_with(*runs: int, **named: Any) -> Case:
    """Return a case: train so many steps, again and again, in one folder."""
    named.setdefault("save_summaries_steps", None)
    named.setdefault("save_summaries_secs", None)
    named.setdefault("log_step_count_steps", None)
    return in_folder(lambda folder: [saved(folder, n, **named) for n in runs])


def case_names_that_are_left(folder: Path) -> Any:
    _, train = counter()
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(folder), save_summaries_steps=None, save_summaries_secs=None
    ) as session:
        session.run(train)
    return [name for name in files(folder) if "events" not in name]


def case_values_come_back(folder: Path) -> Any:
    result = []
    for _ in range(2):
        with tf.Graph().as_default():
            _, train = counter()
            v = tf.Variable(1.0, name="v")
            double = tf.group(v.assign(v * 2.0), train)
            named = {"checkpoint_dir": str(folder), "log_step_count_steps": None}
            with tf.train.MonitoredTrainingSession(**named) as session:
                result.append(session.run(v))
                session.run(double)
                session.run(double)
    return result


def case_restored_by_name(folder: Path) -> Any:
    saved(folder, 3)
    step, _ = counter()
    path = str(folder / "model.ckpt-3")
    creator = tf.train.ChiefSessionCreator(checkpoint_filename_with_path=path)
    with tf.train.MonitoredSession(creator) as session:
        return session.run(step)


def case_a_folder_without_a_global_step(folder: Path) -> Any:
    tf.Variable(1.0)
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder)) as session:
        return session.should_stop()


def case_a_folder_that_is_made(folder: Path) -> Any:
    deep = folder / "a" / "b"
    result = saved(deep, 2, log_step_count_steps=None)
    return [result, sorted(path.name for path in folder.iterdir())]


def case_a_worker_saves_nothing(folder: Path) -> Any:
    """A worker saves nothing."""
    server = tf.train.Server.create_local_server()
    _, train = counter()
    named = {"master": server.target, "log_step_count_steps": None}
    with tf.train.MonitoredTrainingSession(**named) as chief:
        chief.run(train)
        worker = tf.train.MonitoredTrainingSession(
            is_chief=False, checkpoint_dir=str(folder), **named
        )
        with worker:
            worker.run(train)
    return files(folder)


def case_queue_runners_are_started() -> Any:
    queue = tf.FIFOQueue(3, tf.int32)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(7)]))
    take = queue.dequeue()
    with tf.train.MonitoredSession() as session:
        return [session.run(take) for _ in range(4)]


def case_the_raw_session() -> Any:
    step, train = counter()
    with tf.train.SingularMonitoredSession() as session:
        session.run(train)
        return [type(session.raw_session()).__name__, session.raw_session().run(step)]


CASES: dict[str, Case] = {
    **{
        f"{item}_counts": counted(item)
        for item in ("training", "monitored", "singular")
    },
    "saved_at_the_start_and_the_end": saved_with(3),
    "saved_by_two_runs": saved_with(3, 2),
    "saved_by_a_run_without_steps": saved_with(2, 0),
    "saved_every_two_steps": saved_with(5, save_checkpoint_steps=2),
    "saved_every_step": saved_with(4, save_checkpoint_steps=1),
    "saved_every_many_seconds": saved_with(3, save_checkpoint_secs=1000),
    "not_saved": saved_with(3, save_checkpoint_secs=None, save_checkpoint_steps=None),
    "saved_by_both_rules": saved_with(
        1, save_checkpoint_secs=1000, save_checkpoint_steps=1
    ),
}
