"""Operations done piece by piece give the same as one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.exchange.execution.bound_operations import BoundCopy, BoundOp, Post, Sum, Take
from kit.exchange.execution.native_executor import NativeExecutor, gathered, joins, loop
from kit.exchange.execution.python_executor import PythonExecutor
from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.port import Expected
from kit.testing.group import local_group
from tests.exchange.pumped import performed

has_loop = pytest.mark.skipif(loop() is None, reason="the compiled loop was not built")
LAYOUT = lay_out([Spec("w", (90, 7), "float32")], 2, 1000)
FIRST = LAYOUT.buckets[0].range


@has_loop
@given(size=st.integers(1, 40_000), shift=st.integers(-20_000, 20_000))
def test_operations_done_piece_by_piece_end_as_one_after_the_other(
    size: int, shift: int
) -> None:
    """Also where one writes what another one reads somewhere else."""
    first = np.random.default_rng(size).standard_normal((4, 80_000)).astype(np.float32)
    results = []
    for way in (NativeExecutor, PythonExecutor):
        memory = first.copy()
        a, b, c = (row[20_000 : 20_000 + size] for row in memory[:3])
        aside = memory[0, 20_000 + shift : 20_000 + shift + size]
        ops: list[BoundOp] = [
            Sum(a, a, b),
            Sum(a, a, c),
            BoundCopy(b, a),
            Sum(c, aside, b),
        ]
        performed(way, ops)
        results.append(memory.tobytes())

    assert results[0] == results[1]


def test_a_mesh_adds_updates_and_hands_out_in_one_go() -> None:
    a, b, out = np.zeros((3, 4), np.float32)
    with local_group(LAYOUT, 2) as members:
        post = Post(members[0].endpoint.ports[1], GRAD, FIRST)
        ops: list[BoundOp] = [
            Sum(a, a, b),
            post,
            BoundCopy(b, a),
            post,
            BoundCopy(out, a),
        ]

        assert gathered(ops) == [ops[0], ops[2], ops[4], post, post]
        assert joins(gathered(ops), 9) == [True, True, False, False, False]
        assert joins(gathered(ops), 2) == [True, False, False, False, False]


def test_a_post_stays_before_a_wait_and_before_work_of_another_size() -> None:
    small, large = np.zeros(4, np.float32), np.zeros(5, np.float32)
    with local_group(LAYOUT, 2) as members:
        port = members[0].endpoint.ports[1]
        post, take = Post(port, GRAD, FIRST), Take(port, 1, Expected(GRAD, FIRST))
        first, two = Sum(small, small, small), Sum(large, large, large)

        orders: list[list[BoundOp]] = [
            [post, first],
            [first, post, take, first],
            [first, post, two],
        ]
        for ops in orders:
            assert gathered(ops) == ops
