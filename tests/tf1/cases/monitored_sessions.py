"""Monitored sessions: how they begin, their scaffolds, which errors end them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt, noting
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


FIELDS = (
    *("init_op", "init_feed_dict", "init_fn", "ready_op", "ready_for_local_init_op"),
    *("local_init_op", "summary_op", "saver"),
)


def kinds(scaffold: Any) -> list[str]:
    """Tell of what kind each part is."""
    return [type(getattr(scaffold, name)).__name__ for name in FIELDS]


@makes_case
def collected(key: str, field: str) -> Any:
    """Return a case: a part is taken from the graph's collection."""
    tf.Variable(1.0)
    part = tf.no_op(name="mine")
    tf.add_to_collection(getattr(tf.GraphKeys, key), part)
    scaffold = tf.train.Scaffold().finalize()
    return getattr(scaffold, field) is part


@makes_case
def collected_twice(key: str) -> Any:
    tf.Variable(1.0)
    for _ in range(2):
        tf.add_to_collection(getattr(tf.GraphKeys, key), tf.no_op())
    return kinds(tf.train.Scaffold().finalize())


def case_a_saver_is_collected() -> Any:
    tf.Variable(1.0)
    saver = tf.train.Saver()
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    return tf.train.Scaffold().finalize().saver is saver


def case_parts_that_are_given() -> Any:
    tf.Variable(1.0)
    parts = {
        **{name: tf.no_op(name=name) for name in ("init_op", "local_init_op")},
        **{name: tf.constant(["x"]) for name in ("ready_op", "summary_op")},
        "ready_for_local_init_op": tf.constant(["y"]),
        "saver": tf.train.Saver(),
        "init_feed_dict": {"a": 1},
    }
    scaffold = tf.train.Scaffold(**parts).finalize()
    return [getattr(scaffold, name) is item for name, item in sorted(parts.items())]


def case_parts_of_another_scaffold() -> Any:
    tf.Variable(1.0)
    first = tf.train.Scaffold(init_op=tf.no_op(), saver=tf.train.Saver())
    two = tf.train.Scaffold(copy_from_scaffold=first)
    three = tf.train.Scaffold(init_op=tf.no_op(), copy_from_scaffold=first)
    return [
        *(two.init_op is first.init_op, two.saver is first.saver),
        *(three.init_op is first.init_op, three.saver is first.saver),
    ]


def case_parts_of_another_kind() -> Any:
    return tf.train.Scaffold(copy_from_scaffold="no scaffold")


def case_feeds_that_initialise() -> Any:
    holder = tf.placeholder(tf.float32, [2])
    v = tf.Variable(holder)
    scaffold = tf.train.Scaffold(init_feed_dict={holder: [1.0, 2.0]})
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        return session.run(v)


def case_get_or_default() -> Any:
    call = tf.train.Scaffold.get_or_default
    result = [call("a", "kept", lambda: "default"), call("a", "kept", lambda: "again")]
    tf.add_to_collection("b", "in the graph")
    result.append(call("b", "b", lambda: "default"))
    tf.add_to_collection("b", "also")
    return [*result, attempt(call, "b", "b", lambda: "default")]


KEYS = {
    "INIT_OP": "init_op",
    "READY_OP": "ready_op",
    "READY_FOR_LOCAL_INIT_OP": "ready_for_local_init_op",
    "LOCAL_INIT_OP": "local_init_op",
    "SUMMARY_OP": "summary_op",
}


ERRORS: dict[str, Callable[[], BaseException]] = {
    "a_value_error": lambda: ValueError("a"),
    "the_end_of_the_input": lambda: tf.errors.OutOfRangeError(None, None, "a"),
    "the_end_of_an_iteration": lambda: StopIteration(),
    "an_aborted_error": lambda: tf.errors.AbortedError(None, None, "a"),
    "an_unavailable_error": lambda: tf.errors.UnavailableError(None, None, "a"),
    "a_cancelled_error": lambda: tf.errors.CancelledError(None, None, "a"),
    "an_interrupt": lambda: KeyboardInterrupt(),
}


def outcome(call: Case) -> Any:
    """Call, and tell the value or the error's name, whatever its kind."""
    try:
        return call()
    except BaseException as error:
        return type(error).__name__


@makes_case
def in_the_body(make: Callable[[], BaseException]) -> Any:
    """Return a case: the body of the `with` raises."""
    log: list[str] = []
    tf.Variable(1.0)

    def body() -> None:
        with tf.train.MonitoredSession(hooks=[noting(log)]):
            raise make()

    return [outcome(body), log]


@makes_case
def in_a_hook(
    stage: str,
    make: Callable[[], BaseException],
    kind: str = "MonitoredSession",
) -> Any:
    """Return a case: a hook raises once, at its second call of this stage or first."""
    log: list[str] = []
    v = tf.Variable(0)
    add = v.assign_add(1)
    left = [make()]
    result: list[Any] = []

    def fail(*arguments: Any) -> None:
        if left:
            raise left.pop()

    hooks = [noting(log, "a", **{stage: fail}), noting(log, "b")]

    def body() -> None:
        with getattr(tf.train, kind)(hooks=hooks) as session:
            result.append(session.run(add))
            result.append(session.run(add))

    return [outcome(body), result, log]


def always_fails(stage: str) -> Case:
    """Return a case: a hook raises an error at this stage."""
    return in_a_hook(stage, lambda: ValueError("a"))


def case_closed_twice_and_used() -> Any:
    v = tf.Variable(1.0)
    session = tf.train.MonitoredSession()
    session.close()
    result = [attempt(session.close), attempt(session.run, v)]
    return [*result, session.should_stop()]


def case_no_hook() -> Any:
    tf.Variable(1.0)
    return attempt(tf.train.MonitoredSession, hooks=["no hook"])


def case_a_worker_without_a_chief() -> Any:
    server = tf.train.Server.create_local_server()
    tf.Variable(1.0)
    return tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=False, max_wait_secs=0
    )


def case_a_runner_that_fails() -> Any:
    """The error of a queue's thread comes out, not the one that follows from it."""
    queue = tf.FIFOQueue(3, tf.float32)
    holder = tf.placeholder(tf.float32, [])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(holder)])
    tf.train.add_queue_runner(runner)
    take = queue.dequeue()

    def body() -> Any:
        with tf.train.MonitoredSession() as session:
            return session.run(take)

    return attempt(body)


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
    **{f"{field}_is_collected": collected(key, field) for key, field in KEYS.items()},
    **{f"{KEYS[key]}_is_collected_twice": collected_twice(key) for key in KEYS},
    "empty_at_first": lambda: kinds(tf.train.Scaffold()),
    **{f"the_body_raises_{key}": in_the_body(make) for key, make in ERRORS.items()},
    **{
        f"after_run_raises_{key}": in_a_hook("after_run", make)
        for key, make in ERRORS.items()
    },
    **{
        f"before_run_raises_{key}": in_a_hook("before_run", make)
        for key, make in ERRORS.items()
    },
    **{
        f"{stage}_raises": always_fails(stage)
        for stage in ("begin", "after_create_session", "end")
    },
    "a_new_session_is_told_but_aborted": in_a_hook(
        "after_create_session", ERRORS["an_aborted_error"]
    ),
}
