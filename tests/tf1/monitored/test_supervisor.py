"""A supervisor: whose session it is, what runs beside it, and how all of it ends."""

from __future__ import annotations

import inspect
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kit import tf1 as tf
from kit.testing.task_process import until
from tests.session.scene import in_thread
from tests.tf1.look import names_of
from tests.tf1.servers import cluster


class Writer:
    """Notes what it is told, and nothing else: it has no other method."""

    def __init__(self) -> None:
        self.summaries: list[tuple[Any, Any]] = []
        self.is_closed = False

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        self.summaries.append((summary, global_step))

    def close(self) -> None:
        self.is_closed = True


def tags_in(folder: Path) -> set[str]:
    """The scalars that TensorBoard finds in a folder."""
    return set(EventAccumulator(str(folder)).Reload().Tags()["scalars"])


def counter(start: int = 0) -> tuple[Any, Any]:
    """Return the default graph's step and what advances it."""
    step = tf.Variable(start, name="global_step", trainable=False)
    return step, tf.assign_add(step, 1)


def test_chief_initialises_and_the_loop_ends_when_a_stop_is_requested() -> None:
    step, advance = counter()
    supervisor = tf.train.Supervisor()
    with supervisor.managed_session() as session:
        while not supervisor.should_stop():
            if session.run(advance) == 3:
                supervisor.request_stop()
        reached = session.run(step)

    assert reached == 3
    with pytest.raises(RuntimeError, match="closed"):
        session.run(step)


def test_arguments_stand_in_the_order_of_the_original() -> None:
    names = list(inspect.signature(tf.train.Supervisor).parameters)

    assert names == [
        *("graph", "ready_op", "ready_for_local_init_op", "is_chief", "init_op"),
        *("init_feed_dict", "local_init_op", "logdir", "summary_op", "saver"),
        *("global_step", "save_summaries_secs", "save_model_secs"),
        *("recovery_wait_secs", "stop_grace_secs", "checkpoint_basename"),
        *("session_manager", "summary_writer", "init_fn", "local_init_run_options"),
    ]


def test_graph_takes_no_operation_once_it_has_a_supervisor() -> None:
    counter()
    tf.train.Supervisor()

    with pytest.raises(RuntimeError, match="finalized"):
        tf.constant(1.0)


def test_what_stands_in_a_collection_is_used_and_what_is_made_enters_one(
    graph: Any,
) -> None:
    step, _ = counter()
    own = tf.group(step.initializer)
    tf.add_to_collection(tf.GraphKeys.INIT_OP, own)
    supervisor = tf.train.Supervisor()

    assert supervisor.init_op is own
    assert graph.get_collection(tf.GraphKeys.SAVERS) == [supervisor.saver]
    assert graph.get_collection(tf.GraphKeys.READY_OP) == [supervisor.ready_op]
    assert supervisor.ready_for_local_init_op is None
    assert supervisor.global_step.op.name == "global_step"


def test_graph_without_variables_has_no_saver_and_needs_none(tmp_path: Path) -> None:
    two = tf.constant(2)
    supervisor = tf.train.Supervisor(logdir=tmp_path)
    with supervisor.managed_session() as session:
        assert session.run(two) == 2

    assert supervisor.saver is None


def test_init_fn_changes_what_init_op_has_set() -> None:
    weight = tf.Variable(1.0)
    change = weight.assign(6.0)
    supervisor = tf.train.Supervisor(init_fn=lambda session: session.run(change))
    with supervisor.managed_session() as session:
        assert session.run(weight) == 6.0


def test_fed_values_reach_the_init_op() -> None:
    start = tf.placeholder(tf.float32, [])
    weight = tf.Variable(start)
    supervisor = tf.train.Supervisor(init_feed_dict={start: 2.5})
    with supervisor.managed_session() as session:
        assert session.run(weight) == 2.5


def test_chief_saves_when_it_begins_and_the_next_goes_on_from_there(
    tmp_path: Path,
) -> None:
    with tf.Graph().as_default():
        counter(start=40)
        first = tf.train.Supervisor(logdir=tmp_path / "run")
        with first.managed_session():
            pass
    assert tf.train.latest_checkpoint(str(tmp_path / "run")) == f"{first.save_path}-40"

    with tf.Graph().as_default():
        step, _ = counter(start=7)
        second = tf.train.Supervisor(
            logdir=str(tmp_path / "run"), init_fn=lambda _: pytest.fail("initialised")
        )
        with second.managed_session() as session:
            assert session.run(step) == 40
    assert (tmp_path / "run" / "graph.pbtxt").read_text().count("node {") > 3


def test_chief_that_saves_every_0_seconds_saves_nothing(tmp_path: Path) -> None:
    counter()
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0)
    with supervisor.managed_session():
        pass

    assert tf.train.latest_checkpoint(str(tmp_path)) is None


def test_services_without_a_folder_are_refused_aloud(
    caplog: pytest.LogCaptureFixture, session: Any
) -> None:
    counter()

    assert tf.train.Supervisor().start_standard_services(session) is None

    assert "need a 'logdir'" in caplog.text


def test_worker_waits_until_the_chief_has_initialised() -> None:
    servers = cluster(ps=1, worker=2)
    made: list[Any] = []
    for task in range(2):
        with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
            step, _ = counter(start=5)
            made.append((tf.train.Supervisor(is_chief=not task), step))
    (chief, _), (waiting, step) = made
    target = servers["worker"][1].target

    later = in_thread(
        lambda: waiting.prepare_or_wait_for_session(target, max_wait_secs=20)
    )
    with (
        chief.managed_session(servers["worker"][0].target),
        later.result(20) as session,
    ):
        assert session.run(step) == 5
    assert waiting.save_path is None


def test_worker_without_a_chief_says_what_has_no_value() -> None:
    servers = cluster(ps=1, worker=2)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        counter()
        supervisor = tf.train.Supervisor(is_chief=False, recovery_wait_secs=0.1)

    with pytest.raises(tf.errors.DeadlineExceededError, match="global_step"):
        supervisor.prepare_or_wait_for_session(
            servers["worker"][1].target, max_wait_secs=0.3
        )


def test_worker_may_not_leave_open_where_a_variable_is() -> None:
    counter()

    with pytest.raises(ValueError, match=r"'global_step'.*replica_device_setter"):
        tf.train.Supervisor(is_chief=False)


def test_worker_may_not_start_the_services_of_a_chief(session: Any) -> None:
    supervisor = tf.train.Supervisor(is_chief=False)

    with pytest.raises(RuntimeError, match="Only chief"):
        supervisor.start_standard_services(session)


def test_error_of_the_block_comes_out_once_all_threads_have_ended() -> None:
    seen: list[Any] = []
    counter()
    supervisor = tf.train.Supervisor()

    def train() -> None:
        with supervisor.managed_session() as session:
            seen.extend([session, supervisor.loop(0.01, lambda: None)])
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train()

    session, looper = seen
    assert not looper.is_alive()
    with pytest.raises(RuntimeError, match="closed"):
        session.run("global_step:0")


def test_end_of_the_input_ends_the_block_without_an_error() -> None:
    counter()
    supervisor = tf.train.Supervisor()
    with supervisor.managed_session():
        raise tf.errors.OutOfRangeError(None, None, "no more")

    assert supervisor.should_stop()


def test_error_of_a_thread_stops_the_loop_and_comes_out_of_the_block() -> None:
    def fail() -> None:
        raise ValueError("from the thread")

    counter()
    supervisor = tf.train.Supervisor()

    def train() -> None:
        with supervisor.managed_session():
            supervisor.loop(None, fail)
            until(supervisor.should_stop)

    with pytest.raises(ValueError, match="from the thread"):
        train()


def test_session_that_cannot_be_made_says_why_and_not_what_was_to_be_closed() -> None:
    tf.Variable(1.0)
    supervisor = tf.train.Supervisor(init_op=None, local_init_op=None)

    with (
        pytest.raises(RuntimeError, match="Model is not initialized"),
        supervisor.managed_session(),
    ):
        pytest.fail("there is no session")


def test_supervisor_that_has_stopped_makes_another_session() -> None:
    _, advance = counter()
    supervisor = tf.train.Supervisor()
    for _ in range(2):
        with supervisor.managed_session() as session:
            assert not supervisor.should_stop()
            assert session.run(advance) == 1


def test_queue_runners_of_the_graph_run_until_the_end() -> None:
    counter()
    queue = tf.FIFOQueue(2, tf.int32, shapes=[()])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(8)]))
    taken = queue.dequeue()
    supervisor = tf.train.Supervisor(stop_grace_secs=20)
    with supervisor.managed_session() as session:
        assert [session.run(taken) for _ in range(5)] == [8] * 5


def test_summaries_reach_the_writer_with_their_step(tmp_path: Path) -> None:
    writer = Writer()
    step, _ = counter(start=4)
    supervisor = tf.train.Supervisor(
        logdir=tmp_path, summary_op=step * 10, summary_writer=writer
    )
    with supervisor.managed_session() as session:
        supervisor.summary_computed(session, "by hand")
        until(lambda: {("by hand", 4), (40, 4)} <= set(writer.summaries))

    assert writer.is_closed


def test_summary_that_must_be_fed_ends_the_training_and_says_what_to_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.summary.scalar("loss", x)
    supervisor = tf.train.Supervisor(logdir=tmp_path)
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="'x' was not fed"),
        supervisor.managed_session(),
    ):
        assert supervisor.coord.wait_for_stop(60)

    assert "summary_op=None" in caplog.text


def test_tensorboard_shows_what_a_chief_with_a_folder_has_trained(
    tmp_path: Path,
) -> None:
    step, _ = counter(start=4)
    tf.summary.scalar("ten", step * 10)
    supervisor = tf.train.Supervisor(logdir=tmp_path)
    with supervisor.managed_session() as session:
        mine = session.run(supervisor.summary_op)
        supervisor.summary_computed(session, mine, global_step=9)
        until(lambda: {"ten", "global_step/sec"} <= tags_in(tmp_path))

    seen = EventAccumulator(str(tmp_path)).Reload()
    assert (9, 40.0) in [(Scalar.step, Scalar.value) for Scalar in seen.Scalars("ten")]
    assert {Scalar.step for Scalar in seen.Scalars("global_step/sec")} == {4}
    assert "global_step" in names_of(seen.Graph().node)


def test_summaries_that_nobody_can_write_are_lost_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    step, _ = counter()
    tf.summary.scalar("ten", step * 10)
    supervisor = tf.train.Supervisor(logdir=tmp_path)
    with (
        supervisor.managed_session() as session,
        pytest.raises(RuntimeError, match=r"pip install 'psring\[tensorboard\]'"),
    ):
        supervisor.summary_computed(session, b"")

    assert "The summaries are lost" in caplog.text
    assert tf.train.latest_checkpoint(str(tmp_path)) is not None


def test_worker_has_no_writer_and_refuses_a_summary(session: Any) -> None:
    supervisor = tf.train.Supervisor(is_chief=False, summary_writer=Writer())

    with pytest.raises(RuntimeError, match="requires a summary writer"):
        supervisor.summary_computed(session, "lost")


def test_rate_of_steps_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with tf.Graph().as_default(), caplog.at_level(logging.INFO, "kit.tf1"):
        counter()
        supervisor = tf.train.Supervisor(logdir=tmp_path, summary_writer=Writer())
        with supervisor.managed_session():
            until(lambda: "global_step/sec: " in caplog.text)


@pytest.mark.slow
def test_replicas_in_step_train_under_supervisors() -> None:
    servers = cluster(ps=1, worker=2)

    def train(task: int) -> float:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                weight = tf.Variable(0.0, name="weight")
                step = tf.Variable(0, name="global_step", trainable=False)
                optimizer = tf.train.SyncReplicasOptimizer(
                    tf.train.GradientDescentOptimizer(0.25),
                    replicas_to_aggregate=2,
                    total_num_replicas=2,
                )
                update = optimizer.minimize((weight - 1.0) ** 2, step)
                tokens = optimizer.get_init_tokens_op()
                runner = optimizer.get_chief_queue_runner()
            is_chief = not task
            supervisor = tf.train.Supervisor(
                is_chief=is_chief,
                local_init_op=optimizer.chief_init_op
                if is_chief
                else optimizer.local_step_init_op,
                ready_for_local_init_op=optimizer.ready_for_local_init_op,
                recovery_wait_secs=0.1,
                global_step=step,
            )
            target = servers["worker"][task].target
            with supervisor.managed_session(target) as session:
                if is_chief:
                    supervisor.start_queue_runners(session, [runner])
                    session.run(tokens)
                while session.run(step) < 3:
                    session.run(update)
                return float(session.run(weight))

    later = in_thread(lambda: train(1))
    ended = [train(0), later.result(30)]

    # Each step goes half of the way to 1; which worker's gradients it took is open.
    assert set(ended) <= {1 - 0.5**n for n in range(3, 9)}
