"""Monitored sessions as programs make them: scaffolds, folders, creators, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import checkpoints
from tests.tf1.look import makes_case


def counting(tf: Any, by: float = 1.0) -> Any:
    """Make a variable and a step; return the variable and what counts both."""
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    return v, tf.group(v.assign_add(by), step.assign_add(1))


@makes_case
def by_a_creator(tf: Any, folder: Path, kind: str) -> Any:
    """Return a case: a session of a creator, with a folder, twice."""
    result = []
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
                result.append(session.run(v))
    return [result, checkpoints(folder)]


def case_after_an_error(tf: Any, folder: Path) -> Any:
    """The first program fails in its fifth step; the second goes on."""
    result: list[Any] = []
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

            result += [attempt(tf, program), checkpoints(folder)]
    return result


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


CASES = {
    "by_a_creator": by_a_creator("monitored"),
    "by_a_creator_of_a_singular_one": by_a_creator("singular"),
}
