"""Monitored sessions as programs make them: scaffolds, folders, creators, restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt, noting
from tests.tf1.folders import checkpoints, files, in_folder


def counting(tf: Any, by: float = 1.0) -> Any:
    """Make a variable and a step; return the variable and what counts both."""
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    return v, tf.group(v.assign_add(by), step.assign_add(1))


def by_a_creator(kind: str) -> Callable[[Any], Any]:
    """Return a case: a session of a creator, with a folder, twice."""

    def body(tf: Any, folder: Path) -> Any:
        found = []
        for _ in range(2):
            with tf.Graph().as_default():
                v, train = counting(tf)
                hooks = [tf.train.CheckpointSaverHook(str(folder), save_steps=10)]
                where = {"checkpoint_dir": str(folder)}
                if kind == "singular":
                    made = tf.train.SingularMonitoredSession(hooks=hooks, **where)
                else:
                    creator = tf.train.ChiefSessionCreator(**where)
                    made = tf.train.MonitoredSession(creator, hooks=hooks)
                with made as session:
                    session.run(train)
                    session.run(train)
                    found.append(session.run(v))
        return [found, checkpoints(folder)]

    return in_folder(body)


def case_from_a_named_checkpoint(tf: Any, folder: Path) -> Any:
    """Go on from a checkpoint that is not the newest."""
    with tf.Graph().as_default():
        _, train = counting(tf)
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder), save_checkpoint_steps=1
        ) as session:
            for _ in range(3):
                session.run(train)
    v, train = counting(tf)
    creator = tf.train.ChiefSessionCreator(
        checkpoint_filename_with_path=str(folder / "model.ckpt-1")
    )
    with tf.train.MonitoredSession(creator) as session:
        return [session.run(v), session.run(tf.train.get_global_step())]


def case_evaluated(tf: Any, folder: Path) -> Any:
    """Train, then evaluate the newest checkpoint without training."""
    with tf.Graph().as_default():
        _, train = counting(tf, 0.5)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder)) as session:
            for _ in range(3):
                session.run(train)
    before = files(folder)
    v, _ = counting(tf)
    hook = tf.train.FinalOpsHook({"v": v, "step": tf.train.get_global_step()})
    creator = tf.train.ChiefSessionCreator(
        checkpoint_filename_with_path=tf.train.latest_checkpoint(str(folder))
    )
    with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
        session.run(v)
    return [hook.final_ops_values, files(folder) == before]


def case_after_an_error(tf: Any, folder: Path) -> Any:
    """The first program fails in its fifth step; the second goes on."""
    found: list[Any] = []
    for fails in (True, False):
        with tf.Graph().as_default():
            _, train = counting(tf)

            def program() -> Any:
                hooks = [tf.train.StopAtStepHook(last_step=8)]
                with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(folder), save_checkpoint_steps=2, hooks=hooks
                ) as session:
                    n_runs = 0
                    while not session.should_stop():
                        session.run(train)  # noqa: B023
                        n_runs += 1
                        if fails and n_runs == 5:  # noqa: B023
                            raise ValueError("a mistake")
                    return n_runs

            found += [attempt(tf, program), checkpoints(folder)]
    return found


def case_listened_to(tf: Any, folder: Path) -> Any:
    """A listener evaluates each checkpoint when it is there."""
    log: list[Any] = []
    v, train = counting(tf)

    class Evaluates(tf.train.CheckpointSaverListener):  # type: ignore[misc]
        def after_save(self, session: Any, global_step_value: Any) -> None:
            path = tf.train.latest_checkpoint(str(folder))
            value = tf.train.load_variable(path, "v")
            log.append([int(global_step_value), value, session.run(v)])

    saver = tf.train.CheckpointSaverHook(
        str(folder), save_steps=2, listeners=[Evaluates()]
    )
    with tf.train.MonitoredTrainingSession(hooks=[saver]) as session:
        for _ in range(5):
            session.run(train)
    return log


def case_quiet(tf: Any, folder: Path) -> Any:
    """Nothing is saved, counted or summed up."""
    _, train = counting(tf)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(folder),
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
    ) as session:
        session.run(train)
    return checkpoints(folder)


def case_hooks_of_the_chief(tf: Any) -> Any:
    log: list[Any] = []
    found = []
    for is_chief in (True, False):
        with tf.Graph().as_default():
            x = tf.constant(1.0)
            with tf.train.MonitoredTrainingSession(
                is_chief=is_chief,
                hooks=[noting(tf, log, "all")],
                chief_only_hooks=[noting(tf, log, "chief")],
            ) as session:
                found.append(session.run(x))
    return [found, log]


def case_a_given_configuration(tf: Any) -> Any:
    config = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)
    config.gpu_options.allow_growth = True
    config.intra_op_parallelism_threads = 1
    with tf.device("/gpu:0"):
        x = tf.constant(2.0) * 3.0
    with tf.train.MonitoredTrainingSession(config=config) as session:
        return session.run(x)


def case_on_a_server(tf: Any) -> Any:
    """A chief and a worker by a target; the second sees what the first has done."""
    server = tf.train.Server.create_local_server()
    found = []
    for is_chief in (True, False):
        with tf.Graph().as_default():
            v, train = counting(tf)
            with tf.train.MonitoredTrainingSession(
                master=server.target, is_chief=is_chief
            ) as session:
                session.run(train)
                found.append(session.run(v))
    return found


def case_a_step_function(tf: Any) -> Any:
    """Read the step without the hooks, train with them."""
    log: list[Any] = []
    _, train = counting(tf)
    step = tf.train.get_global_step()

    def body(step_context: Any) -> Any:
        before = step_context.session.run(step)
        step_context.run_with_hooks(train)
        if before == 2:
            step_context.request_stop()
        return before

    with tf.train.MonitoredSession(hooks=[noting(tf, log)]) as session:
        while not session.should_stop():
            log.append(session.run_step_fn(body))
    return log


CASES: dict[str, Callable[[Any], Any]] = {
    "by_a_creator": by_a_creator("monitored"),
    "by_a_creator_of_a_singular_one": by_a_creator("singular"),
}
