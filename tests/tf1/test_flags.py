"""Flags: what is read from the arguments of a program, and what is left for it."""

from __future__ import annotations

import pytest

from kit.tf1 import app
from kit.tf1.flags import FlagValues, _truth
from tests.cases import for_each


def flags() -> FlagValues:
    made = FlagValues()
    made.define("job_name", "worker", str)
    made.define("task_index", 0, int)
    made.define("rate", 0.5, float)
    made.define("sync", True, _truth)
    return made


@for_each(
    ("arguments", "name", "value"),
    [
        ([], "job_name", "worker"),
        (["--job_name=ps"], "job_name", "ps"),
        (["-job_name", "ps"], "job_name", "ps"),
        (["--task_index", "3"], "task_index", 3),
        (["--rate=1e-3"], "rate", 1e-3),
        (["--sync=false"], "sync", False),
        (["--nosync"], "sync", False),
        (["--nosync", "--sync"], "sync", True),
        (["--", "--task_index=3"], "task_index", 0),
    ],
)
def test_flag_has_the_value_of_its_last_argument(
    arguments: list[str], name: str, value: object
) -> None:
    made = flags()

    made(["program", *arguments])

    assert getattr(made, name) == value


def test_what_is_no_flag_is_left() -> None:
    left = flags()(["program", "a", "--task_index=1", "--moon=2", "b"], known_only=True)

    assert left == ["program", "a", "--moon=2", "b"]


@pytest.mark.parametrize(
    "arguments", [["--moon=2"], ["--task_index=x"], ["--task_index"], ["--sync=moon"]]
)
def test_argument_that_cannot_be_read_is_refused(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match="flag"):
        flags()(["program", *arguments])


def test_unknown_flag_has_no_value() -> None:
    with pytest.raises(AttributeError, match="moon"):
        flags().moon  # noqa: B018


def test_flag_is_not_defined_twice() -> None:
    made = flags()

    with pytest.raises(ValueError, match="twice"):
        made.define("rate", 1.0, float)


def test_run_calls_main_with_the_rest_and_ends_the_process() -> None:
    seen: list[list[str]] = []

    def main(rest: list[str]) -> int:
        seen.append(rest)
        return 3

    with pytest.raises(SystemExit) as caught:
        app.run(main, ["program", "left"])

    assert seen == [["program", "left"]]
    assert caught.value.code == 3
