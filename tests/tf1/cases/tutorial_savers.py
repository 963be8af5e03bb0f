"""Savers as programs use them: subsets, new names, averages, loops over checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import files
from tests.tf1.look import Case, initialized, makes_case, tf


def two(a: float = 1.0, b: float = 2.0) -> Any:
    """Make the variables of the guide."""
    v1 = tf.get_variable("v1", [3], initializer=tf.constant_initializer(a))
    v2 = tf.get_variable("v2", [2], initializer=tf.constant_initializer(b))
    return v1, v2


def saved(folder: Path, name: str = "model.ckpt", **values: float) -> str:
    """Save the two variables by a program of its own; return the prefix."""
    with tf.Graph().as_default():
        two(**values)
        saver = tf.train.Saver()
        with initialized() as session:
            return str(saver.save(session, str(folder / name)))


def name_of(path: str) -> str:
    return path.rsplit("/", maxsplit=1)[-1]


def case_averages(folder: Path) -> Any:
    """What was trained is evaluated with its moving averages."""
    with tf.Graph().as_default():
        v = tf.Variable(4.0, name="v")
        average = tf.train.ExponentialMovingAverage(0.5)
        update = average.apply([v])
        with initialized() as session:
            session.run(v.assign(8.0))
            session.run(update)
            prefix = tf.train.Saver().save(session, str(folder / "m"))
    v = tf.Variable(0.0, name="v")
    average = tf.train.ExponentialMovingAverage(0.5)
    names = average.variables_to_restore()
    with tf.Session() as session:
        tf.train.Saver(names).restore(session, prefix)
        return [sorted(names), session.run(v), average.average_name(v)]


def case_read_alone(folder: Path) -> Any:
    saved(folder, "m-5")
    path = str(folder)
    return [
        [[name, list(shape)] for name, shape in tf.train.list_variables(path)],
        tf.train.load_variable(path, "v1"),
        tf.train.load_checkpoint(path).get_tensor("v2"),
        attempt(tf.train.load_variable, path, "v3"),
        attempt(tf.train.list_variables, str(folder / "nothing")),
    ]


def case_without_meta(folder: Path) -> Any:
    two()
    saver = tf.train.Saver()
    with initialized() as session:
        saver.save(session, str(folder / "m"), 1, write_meta_graph=False)
        saver.save(session, str(folder / "m"), 2, write_state=False)
        saver.save(session, str(folder / "m"), 3, latest_filename="newest")
    return [
        files(folder),
        tf.train.latest_checkpoint(str(folder)),
        tf.train.latest_checkpoint(str(folder), "newest"),
    ]


def case_removed(folder: Path) -> Any:
    prefix = saved(folder)
    result = [tf.train.checkpoint_exists(prefix), len(files(folder))]
    result += [len(tf.train.get_checkpoint_mtimes([prefix, prefix + "x"]))]
    tf.train.remove_checkpoint(prefix)
    result += [tf.train.checkpoint_exists(prefix), files(folder)]
    return [*result, tf.train.latest_checkpoint(str(folder))]


def case_steps_of_all_kinds(folder: Path) -> Any:
    """The step may be a number, a variable, or a tensor."""
    two()
    step = tf.Variable(11, name="step", trainable=False)
    saver = tf.train.Saver()
    with initialized() as session:
        path = str(folder / "m")
        return [
            name_of(str(saver.save(session, path, global_step=item)))
            for item in (4, step, step + 1, None)
        ]


@makes_case
def chosen(folder: Path, make: Callable[[Any, Any], Any]) -> Any:
    """Return a case: a saver of this list restores; then all values are read."""
    prefix = saved(folder)
    v1, v2 = two(7.0, 8.0)
    saver = attempt(tf.train.Saver, make(v1, v2))
    if isinstance(saver, str):
        return saver
    with initialized() as session:
        result = attempt(saver.restore, session, prefix)
        return [result, session.run([v1, v2])]


def case_the_rest_is_not_initialised(folder: Path) -> Any:
    prefix = saved(folder)
    v1, v2 = two()
    with tf.Session() as session:
        tf.train.Saver({"v2": v2}).restore(session, prefix)
        before = [attempt(session.run, v1), session.run(v2)]
        session.run(v1.initializer)
        names = session.run(tf.report_uninitialized_variables())
        return [*before, session.run(v1), list(names)]


def case_what_is_there(folder: Path) -> Any:
    """Restore what name and shape have in common, leave the rest as it was."""
    prefix = saved(folder)
    reader = tf.train.NewCheckpointReader(prefix)
    shapes = reader.get_variable_to_shape_map()
    two(5.0, 6.0)
    tf.get_variable("v3", [2], initializer=tf.constant_initializer(9.0))
    common = [
        global_variable
        for global_variable in tf.global_variables()
        if shapes.get(global_variable.op.name) == global_variable.shape.as_list()
    ]
    with initialized() as session:
        tf.train.Saver(common).restore(session, prefix)
        result = session.run(tf.global_variables())
    names = sorted(tensor.op.name for tensor in common)
    return [names, result, reader.get_tensor("v1"), reader.has_tensor("v3")]


CASES: dict[str, Case] = {
    "one_by_its_name": chosen(lambda v1, v2: {"v2": v2}),
    "one_in_a_list": chosen(lambda v1, v2: [v1]),
    "one_in_a_tuple": chosen(lambda v1, v2: (v2,)),
    "one_alone": chosen(lambda v1, v2: v1),
    "crossed_over": chosen(lambda v1, v2: {"v1": v2, "v2": v1}),
    "under_a_missing_name": chosen(lambda v1, v2: {"v4": v1}),
    "one_twice": chosen(lambda v1, v2: [v1, v1]),
    "one_under_two_names": chosen(lambda v1, v2: {"v1": v1, "again": v1}),
    "a_tensor": chosen(lambda v1, v2: [v1 + 1.0]),
    "a_tensor_by_its_name": chosen(lambda v1, v2: {"v1": v1 * 2.0}),
    "a_text": chosen(lambda v1, v2: ["v1"]),
    "none_in_a_list": chosen(lambda v1, v2: []),
    "none_in_a_dict": chosen(lambda v1, v2: {}),
    "those_of_a_set": chosen(lambda v1, v2: {v1}),
}
