"""The text file that says which checkpoints there are, as people write it by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case


@makes_case
def read(tf: Any, folder: Path, text: str) -> Any:
    """Return a case: a state of that text is read."""
    (folder / "checkpoint").write_text(text, "utf-8")
    result = attempt(tf, tf.train.get_checkpoint_state, str(folder))
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
    "in_one_line": read(f'{LATEST}: "m-2" {ALL}: "m-1" {ALL}: "m-2"'),
    "without_blanks": read(f'{LATEST}:"m-2"{ALL}:"m-1"'),
    "with_tabs_and_other_ends_of_lines": read(f'{LATEST}:\t"m-2"\r\n{ALL}: "m-1"\r\n'),
    "with_commas": read(f'{LATEST}: "m-2", {ALL}: "m-1",'),
    "with_semicolons": read(f'{LATEST}: "m-2"; {ALL}: "m-1";'),
    "with_two_commas": read(f'{LATEST}: "m-2",, {ALL}: "m-1"'),
    "with_a_comma_first": read(f', {LATEST}: "m-2"'),
    "in_brackets": read(f'{LATEST}: "m-2" {ALL}: ["m-1", "m-2"]'),
    "in_empty_brackets": read(f'{LATEST}: "m-2" {ALL}: []'),
    "in_brackets_and_without": read(f'{LATEST}: "m-2" {ALL}: ["a"] {ALL}: "b"'),
    "in_brackets_that_stay_open": read(f'{LATEST}: "m-2" {ALL}: ["m-1"'),
    "in_brackets_with_a_comma_last": read(f'{LATEST}: "m-2" {ALL}: ["m-1",]'),
    "one_value_in_brackets": read(f'{LATEST}: ["m-2"]'),
    "given_twice": read(f'{LATEST}: "m-1" {LATEST}: "m-2"'),
    "texts_beside_each_other": read(f'{LATEST}: "m" \'-\' "2"\n'),
    "texts_in_two_lines": read(f'{LATEST}: "m"\n  "-2"\n'),
    "a_text_over_two_lines": read(f'{LATEST}: "m\n-2"\n'),
    "a_text_that_stays_open": read(f'{LATEST}: "m-2\n'),
    "a_quote_in_other_quotes": read(f"{LATEST}: 'a\"b' {ALL}: \"a'b\""),
    "escaped_by_numbers": read(f'{LATEST}: "\\155\\x2d2\\t\\303\\244"'),
    "escaped_without_need": read(f'{LATEST}: "m\\-2"'),
    "escaped_quotes": read(f"{LATEST}: 'a\\'b\\\"'"),
    "letters_of_other_alphabets": read(f'{LATEST}: "größe-2"'),
    "comments_alone": read("# one\n  # two"),
    "comments_amid": read(f'{LATEST}: # here it is\n "m-2" # "m-3"\n# end'),
    "a_sign_of_comments_in_a_text": read(f'{LATEST}: "m#2"'),
    "without_a_colon": read(f'{LATEST} "m-2"'),
    "without_quotes": read(f"{LATEST}: m-2"),
    "a_number_for_a_text": read(f"{LATEST}: 2"),
    "an_empty_text": read(f'{LATEST}: ""'),
    "a_name_alone": read(LATEST),
    "a_message_for_a_text": read(f"{LATEST} {{ }}"),
    "times": read(f'{LATEST}: "m" {TIMES}: 1 {TIMES}: 2.5 {TIMES}: -3e2'),
    "times_in_brackets": read(f'{LATEST}: "m" {TIMES}: [1, .5, 2.]'),
    "times_with_an_f": read(f'{LATEST}: "m" {TIMES}: [1.5f, 2f]'),
    "times_without_end": read(f'{LATEST}: "m" {TIMES}: [inf, -infinity]'),
    "a_time_in_quotes": read(f'{LATEST}: "m" {TIMES}: "1.0"'),
    "a_time_that_is_a_word": read(f'{LATEST}: "m" {TIMES}: soon'),
    "the_last_that_was_preserved": read(f'last_preserved_timestamp: 7 {LATEST}: "m"'),
    "an_unknown_field_last": read(f'{LATEST}: "m-2" tag: 1'),
    "names_are_not_shouted": read(f'{LATEST.upper()}: "m-2"'),
    "the_older_ones_after_the_newest_alone": read(f'{ALL}: "m-1"\n{LATEST}: "m-0"\n'),
}
