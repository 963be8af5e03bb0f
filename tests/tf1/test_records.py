"""The records are whole, and agreement is neither too strict nor too lax."""

from __future__ import annotations

import ast
import json
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
from tests.tf1.record import lines_of


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
    *(gallery.HERE / f"{name}.py" for name in ("gallery", "outcome", "record")),
]
Pair = namedtuple("Pair", "a b")


def outcome(value: Any) -> Any:
    def case(_: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return outcome_of(case, FAKE)


@for_each("topic", gallery.topics())
@for_each("version", gallery.VERSIONS)
def test_every_case_was_recorded_and_nothing_else(topic: str, version: str) -> None:
    known = gallery.recorded(topic)[version]

    assert [*known] == [*gallery.cases_of(topic)]


@for_each("topic", gallery.topics())
def test_every_case_is_present_in_one_version_at_least(topic: str) -> None:
    book = gallery.recorded(topic)

    absent = [{name for name, one in book[v].items() if "absent" in one} for v in book]

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

    assert text == "\n".join(lines_of(json.loads(text))) + "\n"


@for_each(
    "value",
    [
        [],
        {},
        "long " * 40,
        {"long " * 40: []},
        [-1.5e-05, 1e300, 2, -0.0, float("inf")] * 40,
        [[1.0, -2], [], {}, None] * 20,
        {"b": [True, None, "a, b"] * 20, "a": {"c": list(range(200))}},
    ],
)
def test_layout_keeps_every_value(value: Any) -> None:
    text = "\n".join(lines_of(value))

    assert repr(json.loads(text)) == repr(json.loads(json.dumps(value, sort_keys=True)))


def test_numbers_fill_lines_and_other_items_have_one_each() -> None:
    numbers = [*lines_of({"values": [-0.5] * 100})]
    texts = [*lines_of(["a" * 60, {"b": "c" * 60}, [1, 2]])]

    assert numbers[:2] + numbers[-2:] == ["{", ' "values": [', " ]", "}"]
    assert numbers[2:-2] == [
        *["  " + "-0.5, " * 15 + "-0.5,"] * 6,
        "  -0.5, -0.5, -0.5, -0.5",
    ]
    assert [text[:6] for text in texts] == ["[", ' "aaaa', ' {"b":', " [1, 2", "]"]


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
