"""Monitored sessions as programs make them: scaffolds, folders, creators, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import checkpoints
from tests.tf1.look import makes_case, tf


def counting(by: float = 1.0) -> Any:
    """Make a variable and a step; return the variable and what counts both."""
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    return v, tf.group(v.assign_add(by), step.assign_add(1))


@makes_case
def by_a_creator(folder: Path, kind: str) -> Any:
    """Return a case: a session of a creator, with a folder, twice."""
    result = []
    for _ in range(2):
        with tf.Graph().as_default():
            v, train = counting()
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


def case_after_an_error(folder: Path) -> Any:
    """The first program fails in its fifth step; the second goes on."""
    result: list[Any] = []
    for fails in (True, False):
        with tf.Graph().as_default():
            _, train = counting()

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

            result += [attempt(program), checkpoints(folder)]
    return result


def case_quiet(folder: Path) -> Any:
    """Nothing is saved, counted or summed up."""
    _, train = counting()
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(folder),
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
    ) as session:
        session.run(train)
    return checkpoints(folder)


def pretrained(folder: Path, value: float) -> str:
    """Save `v` in a program of its own; return the prefix."""
    with tf.Graph().as_default():
        v = tf.get_variable("v", [], initializer=tf.constant_initializer(value))
        with tf.Session() as session:
            session.run(v.initializer)
            return str(tf.train.Saver([v]).save(session, str(folder / "pretrained")))


def case_begun_from_another_training(folder: Path) -> Any:
    """A function of the scaffold restores what was trained before, once."""
    prefix = pretrained(folder, 5.0)
    result = []
    for _ in range(2):
        with tf.Graph().as_default():
            v, train = counting()
            saver = tf.train.Saver([v])
            calls: list[str] = []

            def init(scaffold: Any, session: Any) -> None:
                calls.append("init")  # noqa: B023 - called in this turn
                saver.restore(session, prefix)  # noqa: B023

            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder / "run"),
                scaffold=tf.train.Scaffold(init_fn=init),
                save_checkpoint_steps=2,
            ) as session:
                session.run(train)
                session.run(train)
                result.append([calls, session.run(v)])
    return [*result, checkpoints(folder / "run")]


def case_local_parts() -> Any:
    """Own operations for the local part, with tables as programs have them."""
    _, train = counting()
    local = tf.get_local_variable("local", [], initializer=tf.ones_initializer())
    own = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
    scaffold = tf.train.Scaffold(
        init_op=tf.global_variables_initializer(),
        local_init_op=own,
        ready_op=tf.report_uninitialized_variables(),
    )
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        session.run(train)
        return [session.run(local), scaffold.local_init_op is own]


def case_ready_for_some() -> Any:
    """A ready operation that does not look at all variables."""
    v, train = counting()
    forgotten = tf.get_variable("forgotten", [], initializer=tf.ones_initializer())
    some = [
        global_variable
        for global_variable in tf.global_variables()
        if global_variable is not forgotten
    ]
    scaffold = tf.train.Scaffold(
        init_op=tf.variables_initializer(some),
        ready_op=tf.report_uninitialized_variables(some),
        ready_for_local_init_op=tf.report_uninitialized_variables(some),
    )
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
        session.run(train)
        return [session.run(v), attempt(session.run, forgotten)]


CASES = {
    "by_a_creator": by_a_creator("monitored"),
    "by_a_creator_of_a_singular_one": by_a_creator("singular"),
}
