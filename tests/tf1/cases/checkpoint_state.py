"""The text file that says which checkpoints there are, written by hand, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import files
from tests.tf1.look import makes_case, tf

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


CASES = {
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
