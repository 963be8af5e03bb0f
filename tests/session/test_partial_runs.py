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


def test_later_parts_use_what_earlier_ones_computed_and_two_runs_do_not_meet(
    target: Any, p: Parts
) -> None:
    with Session(target) as session:
        first, two = (
            session.partial_run_setup([p.a, p.total, p.product], [p.a, p.b])
            for _ in range(2)
        )
        assert session.partial_run(first, [p.a, p.total], {p.a: 2.0}) == [2.0, 3.0]
        assert session.partial_run(two, [], {p.a: 4.0}) == []
        assert session.partial_run(first, {"x": [p.product]}, {p.b: 30.0}) == {
            "x": [90.0]
        }
        assert session.partial_run(two, [p.total, p.product], {p.b: 2.0}) == [5.0, 10.0]


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


def test_what_cannot_be_taken_or_given_is_refused_and_the_run_goes_on(
    target: Any, p: Parts
) -> None:
    with Session(target) as session:
        handle = session.partial_run_setup([p.total, p.product], [p.a, p.b])

        def refused(words: str, fetch: Any, feeds: Any, which: str = handle) -> None:
            with pytest.raises(InvalidArgumentError, match=words):
                session.partial_run(which, fetch, feeds)

        refused("not declared", p.a, {p.a: 1.0})
        refused("before 'b:0'", p.product, {p.a: 1.0})
        refused("run in parts", p.total, {p.a: 1.0}, "moon")
        with pytest.raises(RuntimeError, match="tensors only"):
            session.partial_run(handle, p.total.op, {p.a: 1.0})
        assert session.partial_run(handle, p.total, {p.a: 1.0}) == 2.0
        refused("already", p.product, {p.a: 1.0, p.b: 1.0})
        refused("already", p.total, {p.b: 1.0})
        assert session.partial_run(handle, p.product, {p.b: 3.0}) == 6.0
        refused("run in parts", p.total, {p.a: 1.0})
        handle = session.partial_run_setup([p.total], [p.a])
        refused("b:0", p.total, {p.a: 1.0, p.b: 2.0}, handle)
        for wrong in ((None, [p.a]), ([p.total], ["moon:0"])):
            with pytest.raises(TypeError):
                session.partial_run_setup(*wrong)


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
