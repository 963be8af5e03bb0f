"""Stages of any dtypes are summed up by any topology, in the promised order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.exchange.compression.stages import (
    hand_out,
    lay_out_stages,
    plan_of,
    stages_of,
    traffic_of,
)
from kit.exchange.execution.program import Program
from kit.exchange.layout import ITEMSIZE, Layout, Spec, lay_out
from kit.exchange.plan import GRAD, NEXT
from kit.exchange.topologies.topology import (
    by_name,
    has_own_order,
    per_member,
    registered,
)
from kit.testing.group import LocalMember, local_group, run_together
from tests.exchange import replay
from tests.exchange.models import SHAPES, group_on, models

STEPS = 3
ARRAYS = st.lists(
    st.tuples(SHAPES, st.sampled_from([*ITEMSIZE])), min_size=1, max_size=5
).map(lambda result: tuple(Spec(f"a{n}", *item) for n, item in enumerate(result)))


def values(specs: Any, worker: int, step: int, stage: int) -> dict[str, Any]:
    dice = np.random.default_rng([worker, step, stage])
    return {
        name: (dice.normal(size=shape) * 9).astype(dtype)
        for name, shape, dtype in specs
    }


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 2)  # up to nine threads each
@given(
    specs=models(2),
    specs_of=st.lists(ARRAYS, min_size=1, max_size=3).map(tuple),
    n=st.integers(1, 6),
    n_ps=st.integers(1, 3),
    name=st.sampled_from(
        [topology.name for topology in registered() if topology.agrees]
    ),
    bucket=st.sampled_from([0, 3, 64]),
    in_place=st.booleans(),
    overwrites=st.booleans(),
)
def test_each_stage_hands_its_sum_to_every_worker(
    specs: Any,
    specs_of: Any,
    n: int,
    n_ps: int,
    name: str,
    bucket: int,
    in_place: bool,
    overwrites: bool,
) -> None:
    plain = lay_out(specs, n, bucket)
    layout = Layout(
        plain.leaves, plain.buckets, plain.n_bytes, lay_out_stages(specs_of, n, bucket)
    )
    group = group_on(layout, n_ps, n)
    stages, topology = stages_of(layout, group, "greedy"), by_name(name)
    wanted = [
        [
            replay.total([values(arrays, w, step, stage) for w in range(n)], bucket)
            for stage, arrays in enumerate(specs_of)
        ]
        for step in range(STEPS)
    ]

    def work(member: LocalMember) -> None:
        plan = plan_of(topology, layout, stages, member.number)
        if plan is None:
            return
        stamp, memory = member.endpoint.stamp, member.memory
        stamp.overwrites = overwrites and plan.overwrites
        program = Program(plan, member.endpoint, memory, member.meter, update=hand_out)
        for step in range(STEPS):
            stamp.step, stamp.parity = step, step & 1
            for stage, arrays in enumerate(specs_of):
                if member.number in group.workers:
                    inputs = values(arrays, member.number - n_ps, step, stage)
                    places = memory.stage(stamp.where(GRAD), stage)
                    for item, value in inputs.items():
                        np.copyto(places[item], value)
                program.reduce(stage)
                program.finish()
                if member.number in group.workers:
                    result = memory.stage(stamp.where(NEXT), stage)
                    for item, value in wanted[step][stage].items():
                        if has_own_order(topology) and n > 2:  # of other last bits
                            # n values of 9 to 40 are added, which may cancel out.
                            most = 0.1 if value.dtype == np.float16 else 1e-4
                            np.testing.assert_allclose(result[item], value, 1e-2, most)
                        else:
                            assert result[item].tobytes() == value.tobytes(), (
                                stage,
                                item,
                            )

    with local_group(layout, n_ps + n, in_place=in_place) as members:
        run_together(members, work)
        formula = traffic_of(topology, stages)
        for member in members:
            moved = sum(int(row["bytes"]) for row in member.meter.totals())
            assert moved == STEPS * per_member(formula, member.number)[1]
