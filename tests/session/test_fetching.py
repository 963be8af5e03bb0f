"""What a run gives back, and what it may be fed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit.errors import (
    InvalidArgumentError,
)
from kit.graph.ops.state.source import constant
from kit.graph.variable import initialize_all
from kit.session.client.session import Session
from tests.session.scene import (
    PS,
    W1,
    at,
    value,
    variable,
)


def test_a_fetch_twice_is_computed_once_and_given_twice(target: Any) -> None:
    count = variable(PS, "count")
    more = count.assign_add(np.float32(1))

    with Session(target) as session:
        session.run(initialize_all())
        assert session.run([more, more]) == [1.0, 1.0]


def test_a_fed_value_replaces_any_tensor(target: Any) -> None:
    x = value(PS, 2)
    with at(W1):
        y = x * np.float32(10)

    with Session(target) as session:
        assert session.run([x, y], {x: 3.0}) == [3.0, 30.0]
        assert session.run([x, y]) == [2.0, 20.0]


def test_changing_a_fed_variable_is_refused(target: Any) -> None:
    v = variable(PS, "v")
    more = v.assign_add(np.float32(1))

    with Session(target) as session:
        session.run(initialize_all())
        with pytest.raises(InvalidArgumentError, match="itself"):
            session.run(more, {v: 7.0})


def test_constants_of_all_dtypes_come_back_as_they_are(target: Any) -> None:
    names = ["bool", "int8", "int64", "uint16", "float16", "float64", "complex64"]
    with at(PS):
        tensors = [constant(np.ones((2, 1), name)) for name in names]
        text = constant(["a", "bc"])
    with Session(target) as session:
        *arrays, texts = session.run([*tensors, text])

    assert [str(array.dtype) for array in arrays] == names
    assert all(array.tolist() == [[1], [1]] for array in arrays)
    assert texts.tolist() == [b"a", b"bc"]
