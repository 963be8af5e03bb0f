"""Savers: names of files, of tensors, and which checkpoints are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.folders import files, in_folder
from tests.tf1.look import Case, initialized, makes_case, tf


def model() -> Any:
    """Make two variables and a session in which they are initialised."""
    tf.Variable(1.0, name="a")
    tf.Variable([1.0, 2.0], name="b")
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def saved(folder: Path, steps: list[Any], **named: Any) -> Any:
    """Save at each step; tell the prefixes, the files, and what the saver keeps."""
    with model() as session:
        saver = tf.train.Saver(**named)
        path = str(folder / "model")
        prefixes = [saver.save(session, path, global_step=step) for step in steps]
        return [prefixes, files(folder), saver.last_checkpoints]


def at(*steps: Any, **named: Any) -> Case:
    """Return a case that saves at each of the steps."""
    return in_folder(lambda folder: saved(folder, list(steps), **named))


def case_another_suffix_of_the_graph(folder: Path) -> Any:
    with model() as session:
        path = str(folder / "model")
        tf.train.Saver().save(session, path, meta_graph_suffix="graph")
        return files(folder)


def case_relative_paths(folder: Path) -> Any:
    with model() as session:
        saver = tf.train.Saver(save_relative_paths=True)
        for step in (1, 2):
            saver.save(session, str(folder / "model"), global_step=step)
        text = (folder / "checkpoint").read_text()
        return [text, tf.train.latest_checkpoint(str(folder)), saver.last_checkpoints]


def case_kept_by_hours(folder: Path) -> Any:
    """What is old enough when it would be deleted is kept for ever."""
    steps = [1, 2, 3, 4]
    return saved(folder, steps, max_to_keep=2, keep_checkpoint_every_n_hours=1e-9)


def case_a_saver_goes_on_with_another_list(folder: Path) -> Any:
    with model() as session:
        saver = tf.train.Saver(max_to_keep=2)
        result = [saver.last_checkpoints]
        path = str(folder / "model")
        for step in (1, 2):
            saver.save(session, path, global_step=step)
        kept = saver.last_checkpoints
        other = tf.train.Saver(max_to_keep=2)
        other.set_last_checkpoints(kept)
        result += [other.last_checkpoints]
        other.save(session, path, global_step=3)
        return [*result, other.last_checkpoints, files(folder)]


def case_a_saver_recovers_a_list(folder: Path) -> Any:
    with model() as session:
        saver = tf.train.Saver(max_to_keep=2)
        path = str(folder / "model")
        paths = [saver.save(session, path, global_step=step) for step in (1, 2)]
        other = tf.train.Saver(max_to_keep=2)
        other.recover_last_checkpoints([*paths, path + "-9"])
        result = [other.last_checkpoints]
        other.save(session, path, global_step=3)
        return [*result, other.last_checkpoints, files(folder)]


def case_a_list_with_times(folder: Path) -> Any:
    saver = tf.train.Saver([tf.Variable(1.0)])
    saver.set_last_checkpoints_with_time([("one", 1.0), ("two", 2.0)])
    return [saver.last_checkpoints, files(folder)]


@makes_case
def names_in_the_file(folder: Path, make: Case) -> Any:
    """Return a case: what is in the file of a saver of these variables."""
    variables = make()
    with initialized() as session:
        saver = tf.train.Saver(variables)
        prefix = saver.save(session, str(folder / "model"))
    return [[name, list(shape)] for name, shape in tf.train.list_variables(prefix)]


def of_an_optimizer() -> Any:
    a = tf.Variable([1.0, 2.0], name="a")
    step = tf.train.get_or_create_global_step()
    tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(a * a), step)


def partitioned() -> Any:
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        tf.get_variable("p", [5, 2], initializer=tf.ones_initializer())


def partitioned_as_list() -> Any:
    partitioner = tf.fixed_size_partitioner(3)
    part = tf.get_variable("p", [7], partitioner=partitioner)
    return list(part)


CASES: dict[str, Case] = {
    "without_a_step": at(None),
    "at_a_step": at(3),
    "at_steps_beyond_those_kept": at(1, 2, 3, 4, 5, 6, 7),
    "two_are_kept": at(1, 2, 3, max_to_keep=2),
    "one_is_kept": at(1, 2, max_to_keep=1),
    "all_are_kept_by_none": at(1, 2, 3, max_to_keep=None),
    "all_are_kept_by_zero": at(1, 2, 3, max_to_keep=0),
    "the_same_step_twice": at(1, 2, 1),
    "padded_steps": at(5, 123456789, pad_step_number=True),
    "sharded": at(2, sharded=True),
    "sharded_and_padded": at(2, sharded=True, pad_step_number=True),
    "step_zero": at(0),
    "names_of_all_variables": names_in_the_file(of_an_optimizer),
    "names_of_a_dict": names_in_the_file(
        lambda: {"x": tf.Variable(1.0), "y/z": tf.Variable([1.0])}
    ),
    "names_of_a_partitioned_variable": names_in_the_file(partitioned),
    "names_of_the_parts": names_in_the_file(partitioned_as_list),
}
