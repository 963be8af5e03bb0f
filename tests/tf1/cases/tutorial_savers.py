"""Savers as programs use them: subsets, new names, averages, loops over checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import checkpoints, files
from tests.tf1.look import initialized


def two(tf: Any, a: float = 1.0, b: float = 2.0) -> Any:
    """Make the variables of the guide."""
    v1 = tf.get_variable("v1", [3], initializer=tf.constant_initializer(a))
    v2 = tf.get_variable("v2", [2], initializer=tf.constant_initializer(b))
    return v1, v2


def saved(tf: Any, folder: Path, name: str = "model.ckpt", **values: float) -> str:
    """Save the two variables by a program of its own; return the prefix."""
    with tf.Graph().as_default():
        two(tf, **values)
        saver = tf.train.Saver()
        with initialized(tf) as session:
            return str(saver.save(session, str(folder / name)))


def case_both_variables(tf: Any, folder: Path) -> Any:
    prefix = saved(tf, folder)
    v1, v2 = two(tf, 0.0, 0.0)
    with tf.Session() as session:
        tf.train.Saver().restore(session, prefix)
        return session.run([v1, v2])


def case_a_loop_over_checkpoints(tf: Any, folder: Path) -> Any:
    """Train, save every second step, then evaluate what the state names."""
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(0.0, name="v")
    train = tf.group(v.assign_add(0.5), step.assign_add(1))
    saver = tf.train.Saver(max_to_keep=2)
    with initialized(tf) as session:
        for number in range(7):
            session.run(train)
            if number % 2 == 0:
                saver.save(session, str(folder / "model.ckpt"), global_step=step)
    found: list[Any] = [checkpoints(folder), list(map(name_of, saver.last_checkpoints))]
    with tf.Session() as session:
        state = tf.train.get_checkpoint_state(str(folder))
        if state and state.model_checkpoint_path:
            saver.restore(session, state.model_checkpoint_path)
            number_in_path = state.model_checkpoint_path.split("/")[-1].split("-")[-1]
            found += [number_in_path, tf.train.global_step(session, step)]
            found.append(session.run(v))
        for path in state.all_model_checkpoint_paths:
            saver.restore(session, path)
            found.append([name_of(path), session.run(v)])
    return found


def name_of(path: str) -> str:
    return path.rsplit("/", maxsplit=1)[-1]


def case_programs_that_go_on(tf: Any, folder: Path) -> Any:
    """A program that looks for a checkpoint first, three times."""
    found = []
    for _ in range(3):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            train = step.assign_add(2)
            saver = tf.train.Saver()
            with tf.Session() as session:
                latest = tf.train.latest_checkpoint(str(folder))
                if latest:
                    saver.restore(session, latest)
                else:
                    session.run(tf.global_variables_initializer())
                found.append([latest, session.run(train)])
                saver.save(session, str(folder / "m"), global_step=step)
    return found


def case_averages(tf: Any, folder: Path) -> Any:
    """What was trained is evaluated with its moving averages."""
    with tf.Graph().as_default():
        v = tf.Variable(4.0, name="v")
        average = tf.train.ExponentialMovingAverage(0.5)
        update = average.apply([v])
        with initialized(tf) as session:
            session.run(v.assign(8.0))
            session.run(update)
            prefix = tf.train.Saver().save(session, str(folder / "m"))
    v = tf.Variable(0.0, name="v")
    average = tf.train.ExponentialMovingAverage(0.5)
    names = average.variables_to_restore()
    with tf.Session() as session:
        tf.train.Saver(names).restore(session, prefix)
        return [sorted(names), session.run(v), average.average_name(v)]


def case_an_optimizer_comes_back(tf: Any, folder: Path) -> Any:
    """A training that is interrupted ends where one that is not does."""

    def build() -> Any:
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.25)
        return v, optimizer.minimize(tf.reduce_sum(v * v), global_step=step)

    v, train = build()
    with initialized(tf) as session:
        for _ in range(3):
            session.run(train)
        prefix = tf.train.Saver().save(session, str(folder / "m"), 3)
        for _ in range(3):
            session.run(train)
        whole = session.run(v)
    with tf.Graph().as_default():
        v, train = build()
        with tf.Session() as session:
            tf.train.Saver().restore(session, prefix)
            for _ in range(3):
                session.run(train)
            parted = session.run(v)
    return [bool((whole == parted).all()), sorted(read_names(tf, prefix))]


def read_names(tf: Any, prefix: str) -> list[str]:
    return [name for name, _ in tf.train.list_variables(prefix)]


def case_read_alone(tf: Any, folder: Path) -> Any:
    saved(tf, folder, "m-5")
    path = str(folder)
    return [
        [[name, list(shape)] for name, shape in tf.train.list_variables(path)],
        tf.train.load_variable(path, "v1"),
        tf.train.load_checkpoint(path).get_tensor("v2"),
        attempt(tf, tf.train.load_variable, path, "v3"),
        attempt(tf, tf.train.list_variables, str(folder / "nothing")),
    ]


def case_a_saver_before_all_variables(tf: Any, folder: Path) -> Any:
    """Variables that are made after the saver are not saved."""
    v1, _ = two(tf)
    saver = tf.train.Saver()
    late = tf.get_variable("late", [], initializer=tf.ones_initializer())
    with initialized(tf) as session:
        prefix = saver.save(session, str(folder / "m"))
        session.run([v1.assign([0.0] * 3), late.assign(5.0)])
        saver.restore(session, prefix)
        return [read_names(tf, prefix), session.run([v1, late])]


def case_two_savers(tf: Any, folder: Path) -> Any:
    """Each keeps its own list; the state file is that of the last one."""
    v1, v2 = two(tf)
    savers = [tf.train.Saver([v1], max_to_keep=1), tf.train.Saver([v2])]
    with initialized(tf) as session:
        for number in (1, 2):
            for place, saver in enumerate(savers):
                saver.save(session, str(folder / "ab"[place]), global_step=number)
    state = tf.train.get_checkpoint_state(str(folder))
    return [
        checkpoints(folder),
        [name_of(path) for path in state.all_model_checkpoint_paths],
        [list(map(name_of, one.last_checkpoints)) for one in savers],
    ]


def case_without_meta(tf: Any, folder: Path) -> Any:
    two(tf)
    saver = tf.train.Saver()
    with initialized(tf) as session:
        saver.save(session, str(folder / "m"), 1, write_meta_graph=False)
        saver.save(session, str(folder / "m"), 2, write_state=False)
        saver.save(session, str(folder / "m"), 3, latest_filename="newest")
    return [
        files(folder),
        tf.train.latest_checkpoint(str(folder)),
        tf.train.latest_checkpoint(str(folder), "newest"),
    ]


def case_removed(tf: Any, folder: Path) -> Any:
    prefix = saved(tf, folder)
    found = [tf.train.checkpoint_exists(prefix), len(files(folder))]
    found += [len(tf.train.get_checkpoint_mtimes([prefix, prefix + "x"]))]
    tf.train.remove_checkpoint(prefix)
    found += [tf.train.checkpoint_exists(prefix), files(folder)]
    return [*found, tf.train.latest_checkpoint(str(folder))]


def case_steps_of_all_kinds(tf: Any, folder: Path) -> Any:
    """The step may be a number, a variable, or a tensor."""
    two(tf)
    step = tf.Variable(11, name="step", trainable=False)
    saver = tf.train.Saver()
    with initialized(tf) as session:
        path = str(folder / "m")
        return [
            name_of(str(saver.save(session, path, global_step=one)))
            for one in (4, step, step + 1, None)
        ]
