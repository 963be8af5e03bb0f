"""The compiled loop does what Python does: bits, messages, records, waits, wake-ups."""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import DeadlineExceededError
from kit.exchange.execution.bound_operations import Descend, Sum
from kit.exchange.execution.native_executor import NativeExecutor, loop
from kit.exchange.execution.program import Program
from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import GRAD, Plan, Receive, Send
from kit.testing.group import local_group
from kit.trace.traffic import TransferKind
from kit.training.optimizers.rule import MeanUpdate
from kit.training.optimizers.rules import GradientDescent, Momentum
from tests.exchange.pumped import performed, three_steps

has_loop = pytest.mark.skipif(loop() is None, reason="the compiled loop was not built")
SPECS = [Spec("w", (90, 7), "float32"), Spec("b", (90,), "float64")]
LAYOUT = lay_out(SPECS, 3, 1000)
FIRST, SECOND = (bucket.range for bucket in LAYOUT.buckets[:2])


@has_loop
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["a", "b", "apart"])
@given(size=st.integers(0, 200), skip=st.integers(0, 17), seed=st.integers(0, 99))
def test_a_sum_has_the_bits_of_numpy_wherever_it_begins(
    kind: Any, target: str, size: int, skip: int, seed: int
) -> None:
    dice = np.random.default_rng(seed)
    memory = dice.standard_normal((3, skip + size + 20)).astype(kind)
    memory *= kind(10.0) ** dice.integers(-30, 30, memory.shape)
    memory[0, ::7], memory[1, ::14] = np.inf, -np.inf
    a, b, is_apart = (row[skip : skip + size] for row in memory)
    out = {"a": a, "b": b, "apart": is_apart}[target]
    with np.errstate(all="ignore"):
        want, around = a + b, memory.copy()

    performed(NativeExecutor, [Sum(out, a, b)])

    assert out.tobytes() == want.tobytes()
    row = {"a": 0, "b": 1, "apart": 2}[target]
    around[row, skip : skip + size] = want
    assert memory.tobytes() == around.tobytes()  # and nothing else was touched


@has_loop
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(
    size=st.integers(1, 200),
    n=st.integers(1, 9),
    rate=st.floats(1e-9, 1e9),
    seed=st.integers(0, 99),
)
def test_gradient_descent_has_the_bits_of_the_optimizer(
    kind: Any, size: int, n: int, rate: float, seed: int
) -> None:
    dice = np.random.default_rng(seed)
    now, total = (
        dice.standard_normal((2, size)) * 10.0 ** dice.integers(-9, 9)
    ).astype(kind)
    want, out = np.empty_like(now), np.empty_like(now)
    update = MeanUpdate(GradientDescent(rate), n)
    factors = update.descent(now.dtype)
    assert factors is not None

    performed(NativeExecutor, [Descend(lambda: None, out, now, total, *factors)])
    update(now, total, (), want, 0)

    assert out.tobytes() == want.tobytes()


def test_a_rule_derived_from_gradient_descent_is_not_taken_for_it() -> None:
    class Other(GradientDescent):
        """Might do anything."""

    single = np.dtype(np.float32)
    assert MeanUpdate(Other(0.1), 2).descent(single) is None
    assert MeanUpdate(Momentum(0.1), 2).descent(single) is None
    result = MeanUpdate(GradientDescent(0.1), 2).descent(single)
    assert result is not None
    assert tuple(map(float, result)) == (0.5, float(np.float32(0.1)))


@has_loop
@pytest.mark.parametrize("name", ["ring", "mesh"])
def test_it_records_what_python_records(name: str) -> None:
    recorded = []
    for native in (True, False):
        with local_group(LAYOUT, 3, native=native) as members:
            results = three_steps(members, LAYOUT, name, GradientDescent(0.1))
        rows = [member.meter.spans.since(0)[0] for member in members]
        rows += [member.meter.transfers.since(0)[0] for member in members]
        # The last two columns are times.
        plain = [row[list(row.dtype.names or ())[:-2]].tolist() for row in rows]
        recorded.append((results, plain))

        assert all((row["start"] <= row["end"]).all() for row in rows)
        assert all((row["start"] > 0).all() for row in rows[:3])

    assert recorded[0] == recorded[1]


@has_loop
def test_a_wait_in_vain_names_the_task_and_keeps_the_account_of_what_came() -> None:
    with local_group(LAYOUT, 3, deadline_s=0.05) as members:
        first, other = members[0], members[1]
        ops = (
            Receive(1, GRAD, FIRST, TransferKind.REDUCE),
            Receive(1, GRAD, SECOND, TransferKind.REDUCE),
        )
        program = Program(
            Plan((ops,), ()), first.endpoint, first.memory, first.meter, once=True
        )
        other.endpoint.ports[0].post(GRAD, FIRST)

        with pytest.raises(DeadlineExceededError, match="task:1, which sent nothing"):
            program.reduce(0)

        (total,) = first.meter.totals()
        rows, _ = first.meter.transfers.since(0)
        assert (int(total["bytes"]), int(total["messages"])) == (FIRST.size, 1)
        assert rows["bytes"].tolist() == [FIRST.size]


@has_loop
def test_it_goes_on_where_it_was_when_a_message_comes_late() -> None:
    with local_group(LAYOUT, 2) as members:
        first, other = members
        ops = (
            Receive(1, GRAD, FIRST, TransferKind.REDUCE),
            Send(1, GRAD, FIRST, TransferKind.REDUCE),
        )
        program = Program(
            Plan((ops, ops[::-1]), ()), first.endpoint, first.memory, first.meter
        )
        port = other.endpoint.ports[0]
        result: list[bool] = []

        def post_when_it_sleeps() -> None:
            end = time.monotonic() + 10
            while not first.endpoint.asleep[0] and time.monotonic() < end:
                os.sched_yield()
            result.append(bool(first.endpoint.asleep[0]))
            port.post(GRAD, FIRST)

        thread = threading.Thread(target=post_when_it_sleeps)
        thread.start()
        program.reduce(0)
        thread.join()

        assert result == [True]  # so the loop had been left
        assert port.n_arrived() == 1


@has_loop
def test_posting_rings_for_a_member_that_sleeps_and_for_no_other() -> None:
    with local_group(LAYOUT, 2) as members:
        first, other = members
        ops = (Send(1, GRAD, FIRST, TransferKind.REDUCE),)
        program = Program(Plan((ops,), ()), first.endpoint, first.memory, first.meter)
        program.reduce(0)
        bell = other.endpoint.doorbell.fd
        assert not select.select([bell], [], [], 0)[0]

        other.endpoint.asleep[0] = 1
        program.reduce(0)

        assert select.select([bell], [], [], 0)[0]


@has_loop
def test_a_halt_travels_with_the_messages() -> None:
    with local_group(LAYOUT, 2) as members:
        first, other = members
        first.endpoint.stamp.halt = 7
        for member, op in (
            (first, Send(1, GRAD, FIRST, TransferKind.REDUCE)),
            (other, Receive(0, GRAD, FIRST, TransferKind.REDUCE)),
        ):
            plan = Plan(((op,),), ())
            Program(plan, member.endpoint, member.memory, member.meter).reduce(0)

        assert other.endpoint.stamp.halt == 7
