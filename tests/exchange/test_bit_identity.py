"""The heart of the suite: whatever the topology and the switches, the same bits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.exchange import state_transfer
from kit.exchange.execution.program import Program
from kit.exchange.layout import Layout, Spec, lay_out
from kit.exchange.plan import GRAD, NOW, Group, Owned, Plan
from kit.exchange.ports.memory import physical
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import by_name, per_member
from kit.testing.group import LocalMember, local_group, run_together
from kit.trace.traffic import TransferKind
from tests.exchange import replay
from tests.exchange.models import models

Array = npt.NDArray[Any]
RATE = 0.5


def gradient(specs: Sequence[Spec], worker: int, step: int) -> dict[str, Array]:
    """Return values of very different sizes, so that another order gives other bits."""
    dice = np.random.default_rng([worker, step])
    return {
        spec.name: np.asarray(
            dice.standard_normal(spec.shape) * 10.0 ** dice.integers(-6, 6, spec.shape)
        ).astype(spec.dtype)
        for spec in specs
    }


def momentum(
    now: Array, total: Array, slots: Sequence[Array], out: Array, step: int, n: int
) -> None:
    mean = total * total.dtype.type(1 / n) if n > 1 else total
    slots[0][...] = slots[0] * slots[0].dtype.type(0.9) + mean
    np.subtract(now, slots[0] * now.dtype.type(RATE), out=out)


def oracle(specs: Sequence[Spec], n: int, steps: int, bucket: int) -> dict[str, Array]:
    def update(now: Array, mean: Array, state: dict[str, Array], _: int) -> Array:
        kind = now.dtype.type
        state["m"] = state.get("m", np.zeros_like(now)) * kind(0.9) + mean
        return np.asarray(now - state["m"] * kind(RATE))

    return replay.train(
        gradient(specs, 99, 0),
        steps,
        lambda _, step: [gradient(specs, worker, step) for worker in range(n)],
        update,
        bucket,
    )


def work(
    member: LocalMember,
    specs: Sequence[Spec],
    layout: Layout,
    group: Group,
    schedule: Sequence[str],
    boundary: threading.Barrier,
    overwrites: bool = False,
) -> None:
    """What a member does in a training, with a barrier for a coordinator."""
    stamp, memory = member.endpoint.stamp, member.memory
    stamp.overwrites = overwrites
    root = group.workers[0]
    if member.number == root:
        for name, value in gradient(specs, 99, 0).items():
            memory.leaves(NOW)[name][...] = value
    owners: tuple[Owned, ...] = ()
    programs: dict[str, Program] = {}
    for step, name in enumerate(schedule):
        stamp.step, stamp.parity = step, step & 1
        topology = by_name(name)
        if step == 0 or name != schedule[step - 1]:
            after = topology.owners(layout, group)
            handed = (
                state_transfer.handover(owners, after, 1, group)
                if step
                else state_transfer.broadcast(layout, group, root)
            )
            owners = after
            stamp.epoch += 1
            boundary.wait(60)
            once = Plan((), tuple(state_transfer.ops(handed, member.number)))
            Program(once, member.endpoint, memory, member.meter, once=True).step()
            plan = topology.plan(layout, group, member.number)
            programs.clear()
            boundary.wait(60)
            if plan:
                programs[name] = Program(
                    plan,
                    member.endpoint,
                    memory,
                    member.meter,
                    update=partial(momentum, n=len(group.workers)),
                    n_slots=1,
                )
        if member.number in group.workers:
            worker = group.workers.index(member.number)
            for leaf, value in gradient(specs, worker, step).items():
                memory.leaves(stamp.where(GRAD))[leaf][...] = value
        if name in programs:
            programs[name].step()


def run(
    specs: Sequence[Spec],
    n: int,
    n_ps: int,
    schedule: Sequence[str],
    *,
    bucket: int = 64,
    in_place: bool = True,
    native: bool = True,
    strategy: str = "round_robin",
    overwrites: bool = False,
    hosts: tuple[int, ...] = (),
) -> list[dict[str, Array]]:
    """Return each worker's final parameters."""
    layout = lay_out(specs, n, bucket)
    ps, workers = tuple(range(n_ps)), tuple(range(n_ps, n_ps + n))
    group = Group(ps, workers, shards_of(layout, n_ps, strategy), hosts)
    with local_group(
        layout, n + n_ps, in_place=in_place, hosts=hosts, native=native
    ) as members:
        boundary = threading.Barrier(n + n_ps)
        run_together(
            members,
            lambda m: work(m, specs, layout, group, schedule, boundary, overwrites),
        )
        check_account(members, layout, group, schedule)
        last = physical(NOW, len(schedule) & 1, overwrites)
        return [
            {k: v.copy() for k, v in members[w].memory.leaves(last).items()}
            for w in workers
        ]


def check_account(
    members: Sequence[LocalMember],
    layout: Layout,
    group: Group,
    schedule: Sequence[str],
) -> None:
    """Compare what members received in steps with the formulas, exactly."""
    once = {TransferKind.BROADCAST, TransferKind.MOVE}
    used = [by_name(name) for name in schedule]
    n_messages = 0
    for member in members:
        rows = [row for row in member.meter.totals() if int(row["kind"]) not in once]
        traffic = [topology.traffic(layout, group) for topology in used]
        formula = sum(per_member(item, member.number)[1] for item in traffic)
        assert sum(int(row["bytes"]) for row in rows) == formula
        n_messages += sum(int(row["messages"]) for row in rows)
    assert n_messages == sum(item.n_messages(layout, group) for item in used)


def assert_same_bits(got: dict[str, Array], want: dict[str, Array]) -> None:
    assert got.keys() == want.keys()
    for name in want:
        assert got[name].tobytes() == want[name].tobytes(), name


SCHEDULES = st.lists(
    st.sampled_from(["ring", "ps", "ring-whole", "mesh", "hierarchical"]),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 3 // 4)  # eleven threads at most
@given(
    specs=models(),
    n=st.integers(1, 8),
    n_ps=st.integers(1, 3),
    schedule=SCHEDULES,
    bucket=st.sampled_from([0, 16, 64, 1000]),
    strategy=st.sampled_from(["round_robin", "greedy"]),
    native=st.booleans(),
    overwrites=st.booleans(),
    where=st.none() | st.lists(st.integers(0, 2), min_size=11, max_size=11),
    in_place=st.booleans(),
)
def test_any_switching_on_any_hosts_gives_the_bits_of_the_numpy_replay(
    specs: list[Spec],
    n: int,
    n_ps: int,
    schedule: list[str],
    bucket: int,
    strategy: str,
    native: bool,
    overwrites: bool,
    where: list[int] | None,
    in_place: bool,
) -> None:
    want = oracle(specs, n, len(schedule), bucket)
    hosts = tuple(where[: n + n_ps]) if where else ()  # none: one, or each its own
    how: dict[str, Any] = {"bucket": bucket, "strategy": strategy, "native": native}
    how |= {"overwrites": overwrites, "hosts": hosts, "in_place": in_place}

    for got in run(specs, n, n_ps, schedule, **how):
        assert_same_bits(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("overwrites", [False, True])
@pytest.mark.parametrize("way", ["compiled loop", "python", "streams"])
def test_a_larger_model_crosses_several_buckets(way: str, overwrites: bool) -> None:
    specs = [Spec("w", (700, 300), "float32"), Spec("b", (300,), "float32")]
    schedule = ["ps", "ring", "mesh", "mesh", "ps"]
    want = oracle(specs, 3, 5, 100_000)

    for got in run(
        specs,
        3,
        2,
        schedule,
        bucket=100_000,
        in_place=way != "streams",
        native=way == "compiled loop",
        overwrites=overwrites,
    ):
        assert_same_bits(got, want)


def test_the_order_of_addition_matters_for_these_gradients() -> None:
    """Without this the tests above could not fail."""
    specs = [Spec("w", (50,), "float32")]
    gradients = [gradient(specs, worker, 0) for worker in range(4)]

    promised = replay.total(gradients)["w"]
    backwards = gradients[3]["w"].copy()
    for worker in (2, 1, 0):
        backwards += gradients[worker]["w"]

    assert promised.tobytes() != backwards.tobytes()
