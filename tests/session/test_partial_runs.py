"""One run in several parts: what may be given and taken when, and what runs once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.graph.op import Tensor
from kit.graph.ops.state.source import identity, placeholder
from kit.graph.variable import initialize_all
from kit.session.client.session import Session
from tests.session.scene import PS, W0, W1, at, variable


class Parts(NamedTuple):
    a: Tensor
    b: Tensor
    total: Tensor  # a + 1
    product: Tensor  # total * b


@pytest.fixture
def p() -> Parts:
    with at(PS):
        a, b = placeholder("float32", (), "a"), placeholder("float32", (), "b")
        total = a + np.float32(1)
    with at(W1):
        return Parts(a, b, total, total * b)


def test_a_later_part_uses_what_an_earlier_one_computed(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total, p.product], [p.a, p.b])
        first = session.partial_run(handle, p.total, {p.a: 2.0})
        second = session.partial_run(handle, {"x": [p.product]}, {p.b: 10 * first})

    assert (first, second) == (3.0, {"x": [90.0]})


def test_feeds_may_come_before_anything_is_fetched(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total, p.product], [p.a, p.b])
        assert session.partial_run(handle, [], {p.a: 2.0}) == []
        result = session.partial_run(handle, [p.total, p.product], {p.b: 10.0})

    assert result == [3.0, 30.0]


def test_two_runs_in_parts_do_not_meet(target: Any, p: Parts) -> None:
    with Session(target) as session:
        first, two = (
            session.partial_run_setup([p.total, p.product], [p.a, p.b])
            for _ in range(2)
        )
        session.partial_run(first, p.total, {p.a: 1.0})
        session.partial_run(two, p.total, {p.a: 2.0})
        assert session.partial_run(first, p.product, {p.b: 1.0}) == 2.0
        assert session.partial_run(two, p.product, {p.b: 1.0}) == 3.0


def test_no_op_runs_twice_in_all_parts(target: Any) -> None:
    count = variable(PS, "count")
    more = count.assign_add(np.float32(1))
    with at(W0):
        x = placeholder("float32", ())
        late = more + x
    with count.graph.control_dependencies([more.op]):
        after = identity(x)
    with Session(target) as session:
        session.run(initialize_all())
        handle = session.partial_run_setup([more, late, after], [x])
        assert session.partial_run(handle, more) == 1.0
        assert session.partial_run(handle, [late, after], {x: 5.0}) == [6.0, 5.0]
        assert session.run(count) == 1.0


def test_a_declared_op_runs_when_its_feeds_are_there(target: Any, p: Parts) -> None:
    v = variable(W0, "v")
    kept = v.assign(p.total)
    with Session(target) as session:
        session.run(initialize_all())
        handle = session.partial_run_setup([kept.op, p.product], [p.a, p.b])
        session.partial_run(handle, [], {p.a: 4.0})
        assert session.run(v) == 5.0
        session.partial_run(handle, p.product, {p.b: 1.0})


def test_a_fetch_may_be_a_feed(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.a, p.total], [p.a])
        assert session.partial_run(handle, [p.a, p.total], {p.a: 2.0}) == [2.0, 3.0]


def test_what_was_not_declared_is_refused(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total], [p.a])
        with pytest.raises(InvalidArgumentError, match="b:0"):
            session.partial_run(handle, p.total, {p.a: 1.0, p.b: 2.0})
        with pytest.raises(InvalidArgumentError, match="not declared"):
            session.partial_run(handle, p.product, {p.a: 1.0})
        assert session.partial_run(handle, p.total, {p.a: 1.0}) == 2.0


def test_nothing_is_given_or_taken_twice(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total, p.product], [p.a, p.b])
        session.partial_run(handle, p.total, {p.a: 1.0})
        with pytest.raises(InvalidArgumentError, match="already"):
            session.partial_run(handle, p.product, {p.a: 1.0, p.b: 1.0})
        with pytest.raises(InvalidArgumentError, match="already"):
            session.partial_run(handle, p.total, {p.b: 1.0})


def test_a_fetch_cannot_come_before_its_feeds(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total, p.product], [p.a, p.b])
        with pytest.raises(InvalidArgumentError, match="before 'b:0'"):
            session.partial_run(handle, p.product, {p.a: 1.0})


def test_a_finished_run_has_no_handle_any_more(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total], [p.a])
        session.partial_run(handle, p.total, {p.a: 1.0})
        for gone in (handle, "moon"):
            with pytest.raises(InvalidArgumentError, match="run in parts"):
                session.partial_run(gone, p.total, {p.a: 1.0})


def test_a_part_that_fails_ends_the_run(target: Any, p: Parts) -> None:
    v = variable(PS, "v")
    with at(PS):
        bad = v + p.a
    with Session(target) as session:
        handle = session.partial_run_setup([bad, p.product], [p.a, p.b])
        with pytest.raises(FailedPreconditionError):
            session.partial_run(handle, bad, {p.a: 1.0})
        with pytest.raises(InvalidArgumentError):
            session.partial_run(handle, p.product, {p.b: 1.0})


def test_an_op_in_a_part_and_none_in_a_setup_are_refused(target: Any, p: Parts) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total], [p.a])
        with pytest.raises(RuntimeError, match="tensors only"):
            session.partial_run(handle, p.total.op, {p.a: 1.0})
        with pytest.raises(TypeError):
            session.partial_run_setup(None, [p.a])
        with pytest.raises(TypeError):
            session.partial_run_setup([p.total], ["moon:0"])
