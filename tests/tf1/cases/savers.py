"""Savers: what is refused, comes back and stays; subsets, new names, averages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.folders import files, in_folder
from tests.tf1.look import Case, initialized, makes_case, tf


def saving(path: str, name: str = "v", **named: Any) -> Any:
    """Save one initialised variable under the path."""
    v = tf.Variable([1.0, 2.0], name=name)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(v.initializer)
        return saver.save(session, path, **named)


def restoring(folder: Path, variables: Case) -> Any:
    """Restore the variable `v`, two numbers, into others; tell what became of them."""
    with tf.Graph().as_default():
        prefix = saving(str(folder / "m"))
    variables()
    with initialized() as session:
        result = attempt(tf.train.Saver().restore, session, prefix)
        return [result, session.run(tf.global_variables())]


def into(variables: Case) -> Case:
    return in_folder(lambda folder: restoring(folder, variables))


@makes_case
def restored_from(folder: Path, name: Any) -> Any:
    """Return a case: restore from something where nothing was saved."""
    tf.Variable(1.0)
    path = str(folder / name) if isinstance(name, str) else name
    with tf.Session() as session:
        return tf.train.Saver().restore(session, path)


def case_saved_while_uninitialised(folder: Path) -> Any:
    tf.Variable(1.0)
    with tf.Session() as session:
        result = attempt(tf.train.Saver().save, session, str(folder / "m"))
    return [result, [name for name in files(folder) if "temp" not in name]]


def case_saved_with_no_session(folder: Path) -> Any:
    tf.Variable(1.0)
    return tf.train.Saver().save("no session", str(folder / "m"))


def case_saved_where_a_file_is(folder: Path) -> Any:
    (folder / "file").write_text("no folder")
    return saving(str(folder / "file" / "m"))


def case_saved_by_a_saver_that_is_not_built(folder: Path) -> Any:
    saver = tf.train.Saver(defer_build=True)
    tf.Variable(1.0)
    with tf.Session() as session:
        return saver.save(session, str(folder / "m"))


def in_a_final_graph() -> Any:
    tf.Variable(1.0)
    tf.get_default_graph().finalize()
    return tf.train.Saver()


def same_names() -> Any:
    tensor = tf.Variable(1.0, name="v")
    return tf.train.Saver({"a": tensor, "b": tf.Variable(2.0)}).last_checkpoints


def twice_in_a_list() -> Any:
    tensor = tf.Variable(1.0, name="v")
    return tf.train.Saver([tensor, tensor])


MADE: dict[str, Case] = {
    "nothing": lambda: tf.train.Saver(),
    "an_empty_list": lambda: tf.train.Saver([]),
    "an_empty_dict": lambda: tf.train.Saver({}),
    "nothing_where_that_is_allowed": lambda: (
        tf.train.Saver(allow_empty=True).last_checkpoints
    ),
    "one_variable_twice": twice_in_a_list,
    "a_tensor": lambda: tf.train.Saver([tf.constant(1.0)]),
    "a_tensor_by_name": lambda: tf.train.Saver({"a": tf.constant(1.0)}),
    "a_number": lambda: tf.train.Saver([1.0]),
    "a_name": lambda: tf.train.Saver("v"),
    "one_variable_without_a_list": lambda: tf.train.Saver(tf.Variable(1.0)),
    "variables_by_name": same_names,
    "a_final_graph": in_a_final_graph,
}

PATHS: dict[str, dict[str, Any]] = {
    "the_name_of_the_state": {"path": "checkpoint"},
    "the_name_of_another_state": {"path": "m", "latest_filename": "m"},
    "a_state_in_a_folder": {"path": "m", "latest_filename": "deep/state"},
    "a_step_of_text": {"path": "m", "global_step": "seven"},
    "a_step_of_float": {"path": "m", "global_step": 1.5},
    "a_step_less_than_zero": {"path": "m", "global_step": -1},
    "no_name": {"path": ""},
}


def at_path(path: str, **named: Any) -> Case:
    return in_folder(lambda folder: saving(f"{folder}/{path}", **named))


def two_variables() -> None:
    tf.Variable([5.0, 6.0], name="v")
    tf.Variable(7.0, name="w")


@makes_case
def there_and_back(folder: Path, make: Case) -> Any:
    """Return a case: save, build the same in a new graph, restore, and read all."""
    with tf.Graph().as_default():
        make()
        with initialized() as session:
            prefix = tf.train.Saver().save(session, str(folder / "m"))
    with tf.Graph().as_default():
        make()
        saver = tf.train.Saver()
        with tf.Session() as session:
            none = saver.restore(session, prefix)
            missing = session.run(tf.report_uninitialized_variables())
            values = session.run(tf.global_variables())
    return [none, missing.tolist(), values]


def of_every_dtype() -> None:
    for name in ("float16", "float32", "float64", "int32", "int64", "uint8", "int8"):
        tf.Variable(np.arange(6).reshape(2, 3).astype(name), name=name)
    tf.Variable([True, False], name="bool")
    tf.Variable(["a", "bc", ""], name="string")


def of_odd_shapes() -> None:
    tf.Variable(np.zeros((0, 3), np.float32), name="empty")
    tf.Variable(3.5, name="scalar")
    tf.Variable(np.full((1, 1, 2, 1), 7, np.int32), name="deep")


def of_special_values() -> None:
    tf.Variable([np.inf, -np.inf, 0.0, 1e-45, 3.4e38], name="v")


def case_into_another_name(folder: Path) -> Any:
    """A dict restores a tensor into a variable of another name."""
    with tf.Graph().as_default():
        prefix = saving(str(folder / "m"), "old")
    w = tf.Variable([0.0, 0.0], name="new")
    with tf.Session() as session:
        tf.train.Saver({"old": w}).restore(session, prefix)
        return session.run(w)


def case_restored_by_an_empty_saver(session: Any) -> Any:
    return attempt(tf.train.Saver(allow_empty=True).restore, session, "m")


def case_some_of_them(folder: Path) -> Any:
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    with initialized() as session:
        prefix = tf.train.Saver().save(session, str(folder / "m"))
    with tf.Session() as session:
        tf.train.Saver([w]).restore(session, prefix)
        result = session.run(tf.report_uninitialized_variables()).tolist()
        return [result, session.run(w), attempt(session.run, v)]


def case_read_without_a_graph(folder: Path) -> Any:
    """A checkpoint is read without a graph."""
    tf.Variable([[1.0, 2.0]], name="a")
    tf.Variable(3, name="scope/b")
    with initialized() as session:
        prefix = tf.train.Saver().save(session, str(folder / "m"), 1)
    listed = [[key, list(shape)] for key, shape in tf.train.list_variables(prefix)]
    reader = tf.train.NewCheckpointReader(prefix)
    shapes = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
    return [
        *(listed, tf.train.load_variable(prefix, "a"), reader.get_tensor("scope/b")),
        *([[key, list(shapes[key]), dtypes[key].name] for key in sorted(shapes)],),
        *(reader.has_tensor("a"), reader.has_tensor("b")),
        *(tf.train.load_variable(str(folder), "scope/b"),),
        tf.train.load_checkpoint(str(folder)).get_tensor("a"),
    ]


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
    **{f"made_of_{name}": make for name, make in MADE.items()},
    **{f"saved_to_{name}": at_path(**named) for name, named in PATHS.items()},
    "restored_from_none": restored_from(None),
    "restored_from_a_missing_one": restored_from("m-7"),
    "restored_from_a_folder": restored_from(""),
    "restored_from_no_name": restored_from(17),
    "restored_without_one_variable": into(two_variables),
    "restored_into_another_shape": into(lambda: tf.Variable([1.0] * 3, name="v")),
    "restored_into_another_rank": into(lambda: tf.Variable([[1.0, 1]], name="v")),
    "restored_into_another_dtype": into(lambda: tf.Variable([1, 2], name="v")),
    "restored_into_another_name": into(lambda: tf.Variable([1.0, 2.0], name="u")),
    "restored_into_its_own": into(lambda: tf.Variable([8.0, 9.0], name="v")),
    "every_dtype": there_and_back(of_every_dtype),
    "odd_shapes": there_and_back(of_odd_shapes),
    "special_values": there_and_back(of_special_values),
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
