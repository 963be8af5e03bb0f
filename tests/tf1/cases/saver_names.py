"""Savers: names of files and tensors, what is kept, and the file that tells of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
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


TEXT = """model_checkpoint_path: "m-2"
all_model_checkpoint_paths: "m-1"
all_model_checkpoint_paths: "m-2"
"""


def contents(state: Any) -> Any:
    """Tell what is in a state that was read."""
    if state is None:
        return None
    paths = list(state.all_model_checkpoint_paths)
    return [state.model_checkpoint_path, paths]


@makes_case
def read(folder: Path, text: str) -> Any:
    """Return a case: a state of that text is read."""
    (folder / "checkpoint").write_text(text)
    result = attempt(tf.train.get_checkpoint_state, str(folder))
    latest = attempt(tf.train.latest_checkpoint, str(folder))
    return [result if isinstance(result, str) else contents(result), latest]


def case_a_file_of_another_name(folder: Path) -> Any:
    (folder / "state").write_text(TEXT)
    states = [
        tf.train.get_checkpoint_state(str(folder)),
        tf.train.get_checkpoint_state(str(folder), "state"),
        tf.train.get_checkpoint_state(str(folder), latest_filename="state"),
    ]
    return [contents(state) for state in states]


@makes_case
def updated(folder: Path, *arguments: Any, **named: Any) -> Any:
    """Return a case: a state is written; tell its text and what is read."""
    paths = [_below(folder, argument) for argument in arguments]
    tf.train.update_checkpoint_state(str(folder), *paths, **named)
    name = named.get("latest_filename", "checkpoint")
    state = tf.train.get_checkpoint_state(str(folder), name)
    return [(folder / name).read_text(), contents(state), files(folder)]


def _below(folder: Path, value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("<here>", str(folder))
    return [_below(folder, item) for item in value] if value is not None else None


def case_written_into_a_missing_folder(folder: Path) -> Any:
    missing = folder / "missing"
    result = attempt(tf.train.update_checkpoint_state, str(missing), "m-1")
    return [result, files(folder)]


def case_written_with_times(folder: Path) -> Any:
    tf.train.update_checkpoint_state(
        *(str(folder), "m-2", ["m-1", "m-2"]),
        all_model_checkpoint_timestamps=[1.0, 2.0],
        last_preserved_timestamp=0.5,
    )
    state = tf.train.get_checkpoint_state(str(folder))
    text = (folder / "checkpoint").read_text().splitlines()
    times = list(state.all_model_checkpoint_timestamps)
    return [text, times, state.last_preserved_timestamp, contents(state)]


@makes_case
def seen(folder: Path, text: str) -> Any:
    """Return a case: a state of that text is told_of."""
    (folder / "checkpoint").write_text(text, "utf-8")
    result = attempt(tf.train.get_checkpoint_state, str(folder))
    if result is None or isinstance(result, str):
        return result
    paths = list(result.all_model_checkpoint_paths)
    times = list(result.all_model_checkpoint_timestamps)
    return [
        *(result.model_checkpoint_path, paths),
        *(times, result.last_preserved_timestamp),
    ]


LATEST = "model_checkpoint_path"
ALL = "all_model_checkpoint_paths"
TIMES = "all_model_checkpoint_timestamps"


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
    "relative_paths_are_made_absolute": read(TEXT),
    "absolute_paths_stay": read(TEXT.replace("m-", "/other/m-")),
    "no_older_ones": read('model_checkpoint_path: "m-2"\n'),
    "an_empty_file": read(""),
    "no_newest_one": read('all_model_checkpoint_paths: "m-1"\n'),
    "a_text_that_is_none": read("This is not a state."),
    "an_unknown_field": read(TEXT + 'colour: "blue"\n'),
    "single_quotes_and_spaces": read("model_checkpoint_path :  'm-2'  # newest\n"),
    "escaped_signs": read('model_checkpoint_path: "a\\"b\\\\c"\n'),
    "written": updated("<here>/m-2", ["<here>/m-1", "<here>/m-2"]),
    "written_without_older_ones": updated("<here>/m-2"),
    "written_with_relative_paths": updated("m-2", ["m-1", "m-2"]),
    "written_with_paths_of_another_folder": updated("/other/m-2", ["/other/m-1"]),
    "written_under_another_name": updated("<here>/m-2", latest_filename="state"),
    "in_one_line": seen(f'{LATEST}: "m-2" {ALL}: "m-1" {ALL}: "m-2"'),
    "without_blanks": seen(f'{LATEST}:"m-2"{ALL}:"m-1"'),
    "with_tabs_and_other_ends_of_lines": seen(f'{LATEST}:\t"m-2"\r\n{ALL}: "m-1"\r\n'),
    "with_commas": seen(f'{LATEST}: "m-2", {ALL}: "m-1",'),
    "with_semicolons": seen(f'{LATEST}: "m-2"; {ALL}: "m-1";'),
    "with_two_commas": seen(f'{LATEST}: "m-2",, {ALL}: "m-1"'),
    "with_a_comma_first": seen(f', {LATEST}: "m-2"'),
    "in_brackets": seen(f'{LATEST}: "m-2" {ALL}: ["m-1", "m-2"]'),
    "in_empty_brackets": seen(f'{LATEST}: "m-2" {ALL}: []'),
    "in_brackets_and_without": seen(f'{LATEST}: "m-2" {ALL}: ["a"] {ALL}: "b"'),
    "in_brackets_that_stay_open": seen(f'{LATEST}: "m-2" {ALL}: ["m-1"'),
    "in_brackets_with_a_comma_last": seen(f'{LATEST}: "m-2" {ALL}: ["m-1",]'),
    "one_value_in_brackets": seen(f'{LATEST}: ["m-2"]'),
    "given_twice": seen(f'{LATEST}: "m-1" {LATEST}: "m-2"'),
    "texts_beside_each_other": seen(f'{LATEST}: "m" \'-\' "2"\n'),
    "texts_in_two_lines": seen(f'{LATEST}: "m"\n  "-2"\n'),
    "a_text_over_two_lines": seen(f'{LATEST}: "m\n-2"\n'),
    "a_text_that_stays_open": seen(f'{LATEST}: "m-2\n'),
    "a_quote_in_other_quotes": seen(f"{LATEST}: 'a\"b' {ALL}: \"a'b\""),
    "escaped_by_numbers": seen(f'{LATEST}: "\\155\\x2d2\\t\\303\\244"'),
    "escaped_without_need": seen(f'{LATEST}: "m\\-2"'),
    "escaped_quotes": seen(f"{LATEST}: 'a\\'b\\\"'"),
    "letters_of_other_alphabets": seen(f'{LATEST}: "größe-2"'),
    "comments_alone": seen("# one\n  # two"),
    "comments_amid": seen(f'{LATEST}: # here it is\n "m-2" # "m-3"\n# end'),
    "a_sign_of_comments_in_a_text": seen(f'{LATEST}: "m#2"'),
    "without_a_colon": seen(f'{LATEST} "m-2"'),
    "without_quotes": seen(f"{LATEST}: m-2"),
    "a_number_for_a_text": seen(f"{LATEST}: 2"),
    "an_empty_text": seen(f'{LATEST}: ""'),
    "a_name_alone": seen(LATEST),
    "a_message_for_a_text": seen(f"{LATEST} {{ }}"),
    "times": seen(f'{LATEST}: "m" {TIMES}: 1 {TIMES}: 2.5 {TIMES}: -3e2'),
    "times_in_brackets": seen(f'{LATEST}: "m" {TIMES}: [1, .5, 2.]'),
    "times_with_an_f": seen(f'{LATEST}: "m" {TIMES}: [1.5f, 2f]'),
    "times_without_end": seen(f'{LATEST}: "m" {TIMES}: [inf, -infinity]'),
    "a_time_in_quotes": seen(f'{LATEST}: "m" {TIMES}: "1.0"'),
    "a_time_that_is_a_word": seen(f'{LATEST}: "m" {TIMES}: soon'),
    "the_last_that_was_preserved": seen(f'last_preserved_timestamp: 7 {LATEST}: "m"'),
    "an_unknown_field_last": seen(f'{LATEST}: "m-2" tag: 1'),
    "names_are_not_shouted": seen(f'{LATEST.upper()}: "m-2"'),
    "the_older_ones_after_the_newest_alone": seen(f'{ALL}: "m-1"\n{LATEST}: "m-0"\n'),
}
