"""Savers: what is refused, when they are made, when they save, when they restore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import files, in_folder
from tests.tf1.look import initialized, makes_case


def saving(tf: Any, path: str, **named: Any) -> Any:
    """Save one initialised variable under the path."""
    v = tf.Variable([1.0, 2.0], name="v")
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(v.initializer)
        return saver.save(session, path, **named)


def restoring(tf: Any, folder: Path, variables: Callable[[Any], Any]) -> Any:
    """Restore the variable `v`, two numbers, into others; tell what became of them."""
    with tf.Graph().as_default():
        prefix = saving(tf, str(folder / "m"))
    variables(tf)
    with initialized(tf) as session:
        result = attempt(tf, tf.train.Saver().restore, session, prefix)
        return [result, session.run(tf.global_variables())]


def into(variables: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return in_folder(lambda tf, folder: restoring(tf, folder, variables))


@makes_case
def restored_from(tf: Any, folder: Path, name: Any) -> Any:
    """Return a case: restore from something where nothing was saved."""
    tf.Variable(1.0)
    path = str(folder / name) if isinstance(name, str) else name
    with tf.Session() as session:
        return tf.train.Saver().restore(session, path)


def case_saved_while_uninitialised(tf: Any, folder: Path) -> Any:
    tf.Variable(1.0)
    with tf.Session() as session:
        result = attempt(tf, tf.train.Saver().save, session, str(folder / "m"))
    return [result, [name for name in files(folder) if "temp" not in name]]


def case_saved_with_no_session(tf: Any, folder: Path) -> Any:
    tf.Variable(1.0)
    return tf.train.Saver().save("no session", str(folder / "m"))


def case_saved_where_a_file_is(tf: Any, folder: Path) -> Any:
    (folder / "file").write_text("no folder")
    return saving(tf, str(folder / "file" / "m"))


def case_saved_by_a_saver_that_is_not_built(tf: Any, folder: Path) -> Any:
    saver = tf.train.Saver(defer_build=True)
    tf.Variable(1.0)
    with tf.Session() as session:
        return saver.save(session, str(folder / "m"))


def in_a_final_graph(tf: Any) -> Any:
    tf.Variable(1.0)
    tf.get_default_graph().finalize()
    return tf.train.Saver()


def case_restored_by_an_empty_saver(tf: Any, folder: Path) -> Any:
    saver = tf.train.Saver(allow_empty=True)
    with tf.Session() as session:
        return attempt(tf, saver.restore, session, str(folder / "m"))


def same_names(tf: Any) -> Any:
    tensor = tf.Variable(1.0, name="v")
    return tf.train.Saver({"a": tensor, "b": tf.Variable(2.0)}).last_checkpoints


def twice_in_a_list(tf: Any) -> Any:
    tensor = tf.Variable(1.0, name="v")
    return tf.train.Saver([tensor, tensor])


MADE: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda tf: tf.train.Saver(),
    "an_empty_list": lambda tf: tf.train.Saver([]),
    "an_empty_dict": lambda tf: tf.train.Saver({}),
    "nothing_where_that_is_allowed": lambda tf: (
        tf.train.Saver(allow_empty=True).last_checkpoints
    ),
    "one_variable_twice": twice_in_a_list,
    "a_tensor": lambda tf: tf.train.Saver([tf.constant(1.0)]),
    "a_tensor_by_name": lambda tf: tf.train.Saver({"a": tf.constant(1.0)}),
    "a_number": lambda tf: tf.train.Saver([1.0]),
    "a_name": lambda tf: tf.train.Saver("v"),
    "one_variable_without_a_list": lambda tf: tf.train.Saver(tf.Variable(1.0)),
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


def at_path(path: str, **named: Any) -> Callable[[Any], Any]:
    return in_folder(lambda tf, folder: saving(tf, f"{folder}/{path}", **named))


def two_variables(tf: Any) -> None:
    tf.Variable([5.0, 6.0], name="v")
    tf.Variable(7.0, name="w")


CASES: dict[str, Callable[[Any], Any]] = {
    **{f"made_of_{name}": make for name, make in MADE.items()},
    **{f"saved_to_{name}": at_path(**named) for name, named in PATHS.items()},
    "restored_from_none": restored_from(None),
    "restored_from_a_missing_one": restored_from("m-7"),
    "restored_from_a_folder": restored_from(""),
    "restored_from_no_name": restored_from(17),
    "restored_without_one_variable": into(two_variables),
    "restored_into_another_shape": into(lambda tf: tf.Variable([1.0] * 3, name="v")),
    "restored_into_another_rank": into(lambda tf: tf.Variable([[1.0, 1]], name="v")),
    "restored_into_another_dtype": into(lambda tf: tf.Variable([1, 2], name="v")),
    "restored_into_another_name": into(lambda tf: tf.Variable([1.0, 2.0], name="u")),
    "restored_into_its_own": into(lambda tf: tf.Variable([8.0, 9.0], name="v")),
}
