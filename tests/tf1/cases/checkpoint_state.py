"""The text file that says which checkpoints there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import files
from tests.tf1.look import makes_case

TEXT = """model_checkpoint_path: "m-2"
all_model_checkpoint_paths: "m-1"
all_model_checkpoint_paths: "m-2"
"""


def told(state: Any) -> Any:
    """Tell what is in a state that was read."""
    if state is None:
        return None
    paths = list(state.all_model_checkpoint_paths)
    return [state.model_checkpoint_path, paths]


@makes_case
def read(tf: Any, folder: Path, text: str) -> Any:
    """Return a case: a state of that text is read."""
    (folder / "checkpoint").write_text(text)
    result = attempt(tf, tf.train.get_checkpoint_state, str(folder))
    latest = attempt(tf, tf.train.latest_checkpoint, str(folder))
    return [result if isinstance(result, str) else told(result), latest]


def case_a_file_of_another_name(tf: Any, folder: Path) -> Any:
    (folder / "state").write_text(TEXT)
    states = [
        tf.train.get_checkpoint_state(str(folder)),
        tf.train.get_checkpoint_state(str(folder), "state"),
        tf.train.get_checkpoint_state(str(folder), latest_filename="state"),
    ]
    return [told(state) for state in states]


@makes_case
def updated(tf: Any, folder: Path, *arguments: Any, **named: Any) -> Any:
    """Return a case: a state is written; tell its text and what is read."""
    paths = [_below(folder, argument) for argument in arguments]
    tf.train.update_checkpoint_state(str(folder), *paths, **named)
    name = named.get("latest_filename", "checkpoint")
    state = tf.train.get_checkpoint_state(str(folder), name)
    return [(folder / name).read_text(), told(state), files(folder)]


def _below(folder: Path, value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("<here>", str(folder))
    return [_below(folder, item) for item in value] if value is not None else None


def case_written_into_a_missing_folder(tf: Any, folder: Path) -> Any:
    missing = folder / "missing"
    result = attempt(tf, tf.train.update_checkpoint_state, str(missing), "m-1")
    return [result, files(folder)]


def case_written_with_times(tf: Any, folder: Path) -> Any:
    tf.train.update_checkpoint_state(
        *(str(folder), "m-2", ["m-1", "m-2"]),
        all_model_checkpoint_timestamps=[1.0, 2.0],
        last_preserved_timestamp=0.5,
    )
    state = tf.train.get_checkpoint_state(str(folder))
    text = (folder / "checkpoint").read_text().splitlines()
    times = list(state.all_model_checkpoint_timestamps)
    return [text, times, state.last_preserved_timestamp, told(state)]


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
}
