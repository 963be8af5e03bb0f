"""Flags: what is read from the arguments of a program, and what is left for it."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kit import tf1 as tf
from kit.tf1 import app, flags
from tests.cases import for_each

FLAGS = flags.FLAGS


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Flags of a program that has not read its command line yet."""
    before = set(FLAGS)
    monkeypatch.setattr(sys, "argv", ["program"])
    flags.DEFINE_string("job_name", "worker", "which job")
    flags.DEFINE_integer("task_index", 0, "which task")
    flags.DEFINE_float("rate", 0.5)
    flags.DEFINE_boolean("sync", True, docstring="whether to wait")
    flags.DEFINE_enum("mode", "train", ["train", "eval"], "what to do")
    flags.DEFINE_list("ps_hosts", ["a:1"], "where")
    flags.DEFINE_multi_integer(flag_name="sizes", default_value=[1])
    yield
    for name in set(FLAGS) - before:
        delattr(FLAGS, name)
    FLAGS.unparse_flags()


@for_each(
    ("arguments", "name", "value"),
    [
        ([], "job_name", "worker"),
        (["--job_name=ps"], "job_name", "ps"),
        (["-job_name", "ps"], "job_name", "ps"),
        (["--task_index", "3"], "task_index", 3),
        (["--rate=1e-3"], "rate", 1e-3),
        (["--rate=2"], "rate", 2.0),
        (["--sync=false"], "sync", False),
        (["--nosync"], "sync", False),
        (["--nosync", "--sync"], "sync", True),
        (["--", "--task_index=3"], "task_index", 0),
        (["--mode=eval"], "mode", "eval"),
        (["--ps_hosts=a:1,b:2"], "ps_hosts", ["a:1", "b:2"]),
        (["--sizes=3", "--sizes=4"], "sizes", [3, 4]),
    ],
)
def test_flag_has_the_value_of_its_arguments(
    arguments: list[str], name: str, value: object
) -> None:
    FLAGS.unparse_flags()
    for flag in list(FLAGS):
        FLAGS[flag].unparse()
    sys.argv[1:] = arguments

    assert getattr(FLAGS, name) == value
    assert FLAGS.flag_values_dict()[name] == value


def test_all_values_are_those_of_the_command_line_although_none_was_read() -> None:
    sys.argv[1:] = ["--task_index=2"]

    assert FLAGS.flag_values_dict()["task_index"] == 2


def test_what_is_no_flag_is_left() -> None:
    left = FLAGS(["program", "a", "--task_index=1", "--moon=2", "b"], known_only=True)

    assert left == ["program", "a", "--moon=2", "b"]


@for_each(
    ("argument", "error", "words"),
    [
        ("--task=3", tf.app.flags.UnrecognizedFlagError, "'task'.*mean: task_index"),
        ("--moon", tf.app.flags.UnrecognizedFlagError, "'moon'"),
        ("--task_index=x", tf.app.flags.IllegalFlagValueError, "task_index=x"),
        ("--task_index", tf.app.flags.Error, "task_index"),
        ("--sync=moon", tf.app.flags.IllegalFlagValueError, "sync"),
        ("--mode=fly", tf.app.flags.IllegalFlagValueError, "train|eval"),
    ],
)
def test_argument_that_cannot_be_read_is_refused_when_a_flag_is_looked_up(
    argument: str, error: Any, words: str
) -> None:
    sys.argv[1:] = [argument]

    with pytest.raises(error, match=words):
        FLAGS.job_name  # noqa: B018


def test_required_flag_must_be_there() -> None:
    flags.DEFINE_string("data", None, "where the data are")
    flags.mark_flag_as_required("data")

    with pytest.raises(flags.IllegalFlagValueError, match="--data"):
        FLAGS.job_name  # noqa: B018
    FLAGS(["program", "--data=here"])
    assert FLAGS.data == "here"


def test_unknown_flag_has_no_value() -> None:
    with pytest.raises(AttributeError, match="moon"):
        FLAGS.moon  # noqa: B018


def test_flag_can_be_set_by_the_program_alone() -> None:
    FLAGS.task_index = 5

    assert FLAGS.task_index == 5
    with pytest.raises(flags.UnrecognizedFlagError, match="moon"):
        FLAGS.moon = 1


def test_flag_is_not_defined_twice() -> None:
    with pytest.raises(flags.DuplicateFlagError, match="rate"):
        exec('flags.DEFINE_float("rate", 1.0, "")', {"flags": flags})


@for_each("option", ["--help", "-helpshort", "--helpfull"])
def test_help_shows_the_flags_and_ends_the_process(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.argv[1:] = [option]

    with pytest.raises(SystemExit) as caught:
        FLAGS.job_name  # noqa: B018

    shown = capsys.readouterr().out
    assert caught.value.code == 1  # as absl ends it
    assert "--task_index: which task" in shown
    assert "(default: '0')" in shown


def test_command_line_of_a_notebooks_kernel_is_not_that_of_the_program() -> None:
    sys.argv[:] = ["/somewhere/ipykernel_launcher.py", "-f", "kernel.json"]

    assert FLAGS.task_index == 0


def test_flags_are_one_object_however_they_travel() -> None:
    assert copy.deepcopy(FLAGS) is FLAGS
    assert pickle.loads(pickle.dumps(FLAGS)) is FLAGS
    assert tf.flags.FLAGS is tf.app.flags.FLAGS is FLAGS


@for_each("module", [tf.flags, tf.app.flags], ids=lambda module: module.__name__)
def test_name_that_there_is_not_is_an_attribute_error(module: Any) -> None:
    with pytest.raises(AttributeError, match="has no 'DEFINE_moon'"):
        module.DEFINE_moon  # noqa: B018


def test_run_calls_main_with_the_rest_and_ends_the_process() -> None:
    seen: list[list[str]] = []

    def main(rest: list[str]) -> int:
        seen.append([*rest, FLAGS.job_name])
        return 3

    with pytest.raises(SystemExit) as caught:
        app.run(main, ["program", "left", "--moon=1", "--job_name=ps"])

    assert seen == [["program", "left", "--moon=1", "ps"]]
    assert caught.value.code == 3
