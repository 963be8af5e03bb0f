"""The records are whole, and agreement is neither too strict nor too lax."""

from __future__ import annotations

import ast
from collections import OrderedDict, namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cases import for_each
from tests.tf1 import gallery
from tests.tf1.agreement import difference
from tests.tf1.outcome import Absent, outcome_of, plain


class OpError(Exception):
    pass


class InvalidArgumentError(OpError):
    pass


class PlacementError(InvalidArgumentError):
    pass


class FakeGraph:
    def as_default(self) -> FakeGraph:
        return self

    def __enter__(self) -> FakeGraph:
        return self

    def __exit__(self, *_: object) -> None:
        pass


FAKE = SimpleNamespace(Graph=FakeGraph, errors=SimpleNamespace(OpError=OpError))
READ_BY_OLD_PYTHON = [
    *(gallery.HERE / "cases").glob("*.py"),
    *(gallery.HERE / f"{name}.py" for name in ("gallery", "look", "outcome", "record")),
]
Pair = namedtuple("Pair", "a b")


def outcome(value: Any) -> Any:
    def case() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return outcome_of(case, FAKE)


@for_each("topic", gallery.topics())
@for_each("version", gallery.VERSIONS)
def test_every_case_was_recorded_and_nothing_else(topic: str, version: str) -> None:
    expected = gallery.recorded(topic)[version]

    assert [*expected] == [*gallery.cases_of(topic)]


@for_each("topic", gallery.topics())
def test_every_case_is_present_in_one_version_at_least(topic: str) -> None:
    book = gallery.recorded(topic)

    absent = [
        {name for name, text in book[v].items() if "absent" in text} for v in book
    ]

    assert not set.intersection(*absent)


@for_each("path", READ_BY_OLD_PYTHON, ids=lambda path: path.stem)
def test_file_is_understood_by_python_3_7(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), feature_version=(3, 7))


@for_each("topic", gallery.topics())
def test_record_is_small(topic: str) -> None:
    assert gallery.record_path(topic).stat().st_size < 400 * 1024


@for_each("topic", gallery.topics())
def test_record_is_laid_out_as_it_would_be_written_anew(topic: str) -> None:
    text = gallery.record_path(topic).read_text("utf-8")

    assert text == gallery.written(gallery.read(text))


def test_a_recording_is_read_as_it_was_written() -> None:
    book = {
        "v1": {"alike": {"value": [1.0, None]}, "differs": {"value": 1}},
        "v2": {
            "alike": {"value": [1.0, None]},
            "differs": {"value": 1.0},  # equal to 1 for Python, not for a reader
            "second_only": {"is": ["ValueError"], "raises": "ValueError"},
        },
    }

    text = gallery.written(book)

    assert text.splitlines() == [
        "{",
        '"alike": {"value": [1.0, null]},',
        '"differs": {"v1": {"value": 1}, "v2": {"value": 1.0}},',
        '"second_only": {"v2": {"is": ["ValueError"], "raises": "ValueError"}}',
        "}",
    ]
    assert repr(gallery.read(text)) == repr(book)


@for_each(
    ("ours", "theirs"),
    [
        (np.float32(1.000001), np.float32(1.0)),
        (np.float32(1.0), np.array(1.0, np.float32)),
        (np.float32("nan"), np.float32("nan")),
        (b"a", b"a"),
        (np.array([b"a"], object), np.array([b"a"], object)),
        ({"a": [1, (2, None)]}, {"a": [1, (2, None)]}),
        (PlacementError(), InvalidArgumentError()),
        (Absent(), Absent()),
    ],
)
def test_these_agree(ours: Any, theirs: Any) -> None:
    assert difference(outcome(ours), outcome(theirs)) is None


@for_each(
    ("ours", "theirs"),
    [
        (np.float32(1.001), np.float32(1.0)),
        (np.float64(1.000001), np.float64(1.0)),
        (np.float64(1.0), np.float32(1.0)),
        (np.float32(1.0), np.array([1.0], np.float32)),
        (np.int32(1), 1),
        (1.0, 1),
        (True, 1),
        ("a", b"a"),
        ((1,), [1]),
        ([1], [1, 2]),
        (Pair(1, 2), (1, 2)),
        ({"a": 1}, OrderedDict(a=1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (1, ValueError()),
        (ValueError(), 1),
        (ValueError(), TypeError()),
        (InvalidArgumentError(), PlacementError()),
        (Absent(), 1),
    ],
)
def test_these_differ(ours: Any, theirs: Any) -> None:
    assert difference(outcome(ours), outcome(theirs)) is not None


def test_a_namesake_that_is_of_no_kind_of_the_recorded_error_differs() -> None:
    namesake = type("OutOfRangeError", (Exception,), {})
    recorded = {"raises": "OutOfRangeError", "is": ["OpError"]}

    assert difference(outcome(namesake()), recorded) is not None


def test_what_blocked_the_original_must_end_in_a_deadline() -> None:
    deadline = type("DeadlineExceededError", (OpError,), {})

    assert difference(outcome(deadline()), {"blocks": True}) is None
    assert difference(outcome(1), {"blocks": True}) is not None


def test_a_case_that_returns_no_plain_data_is_refused() -> None:
    with pytest.raises(TypeError, match="return numbers"):
        plain(object())
