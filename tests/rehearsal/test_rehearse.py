"""Rehearsals: bytes as in real trainings, times as by formulas and a plain replay."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kit
from kit.errors import InvalidArgumentError, ResourceExhaustedError
from kit.exchange.layout import Layout, Range, Spec
from kit.exchange.plan import GRAD, Apply, Group, Op, Plan, Receive, Send
from kit.exchange.topologies import topology as topologies
from kit.exchange.topologies.mesh import Mesh
from kit.exchange.topologies.ring import Ring
from kit.exchange.topologies.ring_whole import WholeRing
from kit.exchange.topologies.time_model import Rates
from kit.exchange.topologies.topology import Topology, by_name
from kit.rehearsal import schedule as schedules
from kit.rehearsal.rehearsal import Rehearsal
from kit.testing.cluster import LocalCluster, local_cluster
from kit.trace.traffic import Phase, TransferKind
from tests.cases import for_each
from tests.cluster.hub import forget_topologies
from tests.exchange.models import models
from tests.rehearsal.line_by_line import play

TOPOLOGIES = ["ring", "ps", "ring-whole", "mesh", "hierarchical"]
FREE = Rates(0.0, 0.0, 0.0, 0.0)
LINKS = ["", "1mbit", "3ms", "2mbit,1ms", "500kbit,1ms,2ms"]
MIB = 1 << 20


def arrays(specs: list[Spec]) -> dict[str, Any]:
    return {spec.name: np.zeros(spec.shape, spec.dtype) for spec in specs}


def rehearsed(
    specs: list[Spec], name: str, n: int, n_ps: int, hosts: int | None, **more: Any
) -> Rehearsal:
    """Rehearse a model of small buckets, on no more hosts than there are tasks."""
    hosts = hosts and min(hosts, n + n_ps)
    if (hosts or 1) == 1:
        more.pop("link_within", None)
    with kit.settings(bucket_bytes=64):
        return kit.rehearse(arrays(specs), name, ps=n_ps, worker=n, hosts=hosts, **more)


HOSTS = st.sampled_from([None, 1, 2, 3])
COMPRESS = st.sampled_from([None, None, "float16", "int8"])
SLOW = Rates(1e-4, 2e-5, 3e-6, 1.7e-6)


@pytest.mark.slow
@given(
    models(),
    st.sampled_from(TOPOLOGIES),
    st.integers(1, 6),
    st.integers(1, 2),
    HOSTS,
    COMPRESS,
)
def test_bytes_and_messages_are_those_of_the_formulas(
    specs: list[Spec],
    name: str,
    n: int,
    n_ps: int,
    hosts: int | None,
    compress: str | None,
) -> None:
    result = rehearsed(specs, name, n, n_ps, hosts, compress=compress, rates=FREE)

    job, names, topology = result.job, result.trace.names, by_name(name)
    formula = job.traffic(topology)
    assert result.traffic() == {
        (names[source], names[target], kind.name): size
        for (source, target, kind), size in formula.items()
        if size
    }
    assert result.n_bytes == sum(formula.values())
    stages = job.payload.stages
    assert result.n_messages == sum(topology.n_messages(*stage) for stage in stages)


@pytest.mark.slow
@given(
    models(4),
    st.sampled_from(TOPOLOGIES),
    st.integers(1, 5),
    st.integers(1, 2),
    HOSTS,
    st.lists(st.floats(0, 0.01), min_size=5, max_size=5),
    st.fixed_dictionaries(
        {
            "link": st.sampled_from(LINKS),
            "link_within": st.sampled_from(LINKS),
            "optimizer": st.sampled_from(["gradient_descent", "adagrad"]),
            "rates": st.sampled_from([FREE, SLOW]),
            "compress": COMPRESS,
        }
    ),
)
def test_steps_end_when_those_of_a_replay_of_one_operation_after_the_other_do(
    specs: list[Spec],
    name: str,
    n: int,
    n_ps: int,
    hosts: int | None,
    compute: list[float],
    more: dict[str, Any],
) -> None:
    result = rehearsed(specs, name, n, n_ps, hosts, compute=compute[:n], **more)

    steps = result.trace.steps
    n_steps = int(steps["step"].max()) + 1
    seconds = dict.fromkeys(range(n_ps), 0.0) | dict(enumerate(compute[:n], n_ps))
    within = more["link_within"] if len(set(result.job.group.hosts)) > 1 else ""
    replay = play(result.job, seconds, more["rates"], n_steps, within)
    for row in steps:
        assert row["end"] == replay[row["step"]][row["task"]]


@pytest.mark.usefixtures("table")
@pytest.mark.slow
@pytest.mark.parametrize("kind", [Ring, Mesh, WholeRing])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    models(4),
    st.integers(1, 6),
    HOSTS,
    st.sampled_from(["gradient_descent", "adam"]),
    COMPRESS,
)
def test_what_one_plan_tells_of_all_workers_is_what_their_own_plans_say(
    kind: type[Topology],
    specs: list[Spec],
    n: int,
    hosts: int | None,
    optimizer: str,
    compress: str | None,
) -> None:
    derived = type("Derived", (kind,), {"name": "derived"})  # its plans are all made
    topologies.register(derived())
    more: dict[str, Any] = {"link": "1mbit,1ms", "rates": SLOW}
    more |= {"optimizer": optimizer, "compress": compress}

    by_one, by_each = (
        rehearsed(specs, name, n, 0, hosts, **more) for name in (kind.name, "derived")
    )

    assert by_one.memory == by_each.memory
    for table in ("steps", "transfers", "totals"):
        first, other = (getattr(item.trace, table) for item in (by_one, by_each))
        assert first.tobytes() == other.tobytes()


def test_all_workers_of_a_ring_need_one_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, plan = list[int](), Ring.plan

    def counted(self: Ring, layout: Layout, group: Group, member: int) -> Any:
        made.append(member)
        return plan(self, layout, group, member)

    monkeypatch.setattr(Ring, "plan", counted)
    with kit.settings(bucket_bytes=4000):
        result = kit.rehearse(4000, "ring", worker=100, rates=FREE)

    assert result.n_messages == 2 * 99 * 100
    assert len(made) <= 2  # and one that tells how large the step is


@for_each("n", [2, 3, 8])
def test_ring_takes_its_bytes_over_the_bandwidth_and_its_hops_times_the_latency(
    n: int,
) -> None:
    n_bytes = 4 * 840 * n
    result = kit.rehearse(
        n_bytes, "ring", worker=n, link="8mbit,5ms", compute=0.25, rates=FREE
    )

    moved = 2 * (n - 1) * (n_bytes / n / 1e6 + 0.005)
    assert result.seconds == pytest.approx(0.25 + moved, rel=1e-6)
    assert result.exchange == pytest.approx(moved, rel=1e-6)


def test_hops_of_a_ring_over_two_hosts_are_as_late_as_their_links() -> None:
    n_bytes = 4 * 4000
    links: dict[str, Any] = {"link": "8mbit,5ms", "link_within": "80mbit,1ms"}
    result = kit.rehearse(n_bytes, "ring", worker=4, hosts=2, rates=FREE, **links)

    between, within = n_bytes / 4 / 1e6 + 0.005, n_bytes / 4 / 1e7 + 0.001
    assert result.seconds == pytest.approx(3 * (between + within), rel=1e-6)
    assert "8mbit,5ms between hosts and 80mbit,1ms within" in str(result)


def test_a_hierarchy_is_advised_for_fast_cards_and_not_for_slow_ones() -> None:
    cards: dict[str, Any] = {"worker": 8, "hosts": 2, "link": "10gbit,50us"}
    fast = kit.recommend(MIB, **cards, link_within="800gbit,5us", rates=FREE)
    slow = kit.recommend(MIB, **cards, link_within="1gbit,5us", rates=FREE)

    assert fast.topology == "hierarchical"
    assert slow.rehearsals["hierarchical"].seconds > 2 * slow.best.seconds


def test_server_takes_the_gradients_of_its_workers_one_after_the_other() -> None:
    result = kit.rehearse(
        100_000, "ps", ps=1, worker=3, link="8mbit,5ms", optimizer="adam", rates=FREE
    )

    # In, three times; out, three times; the last one is pulled as it is pushed.
    first = result.trace.steps["end"][:4].max() * 1e-9
    assert first == pytest.approx(6 * 0.1 + 2 * 0.005, rel=1e-6)


@pytest.mark.slow
def test_slow_worker_keeps_the_others_waiting_for_what_it_computes_longer() -> None:
    result = kit.rehearse(
        4000, "mesh", worker=3, compute={"worker:1": 0.5, "worker:2": 0.2}, rates=FREE
    )

    table = result.frame()
    assert result.seconds == pytest.approx(0.5)
    assert table["predicted_compute"].tolist() == pytest.approx([0.0, 0.5, 0.2])
    assert table["predicted_wait"].tolist() == pytest.approx([0.5, 0.0, 0.3])


@for_each(
    ("name", "optimizer", "expected"),
    [
        ("ring", "gradient_descent", [2 * MIB] * 4),
        ("ring", "adam", [2 * MIB + 2 * MIB // 4] * 4),
        ("ring-whole", "gradient_descent", [(2 + 3) * MIB] * 4),
        ("ps", "adagrad", [3 * MIB] + [2 * MIB] * 4),
    ],
)
def test_memory_is_parameters_gradients_slots_and_what_is_kept(
    name: str, optimizer: str, expected: list[int]
) -> None:
    n_ps = int(name == "ps")
    result = kit.rehearse(MIB, name, ps=n_ps, worker=4, optimizer=optimizer, rates=FREE)

    assert list(result.memory.values()) == expected


def test_gradients_from_another_host_are_kept_apart() -> None:
    near, far = (
        kit.rehearse(MIB, "ring", worker=4, hosts=hosts, rates=FREE).memory
        for hosts in (1, 4)
    )

    # Two places take turns, as gradients and parameters do.
    assert {far[task] - near[task] for task in near} == {2 * (MIB - MIB // 4)}


def test_trace_tells_without_a_gap_what_each_member_did() -> None:
    result = kit.rehearse(
        4 * MIB, "ring", worker=3, link="1gbit,1ms", compute=0.01, rates=FREE
    )

    trace = result.trace
    assert trace.predicted
    assert not len(trace.losses()[0])
    assert len(trace.transfers) == result.n_messages * trace.n_steps(1)
    assert trace.transfers["bytes"].sum() == trace.totals["bytes"].sum()
    for task in range(3):
        spans = np.sort(trace.spans[trace.spans["task"] == task], order="start")
        assert (spans["start"][1:] == spans["end"][:-1]).all()
        assert spans["end"][-1] == trace.steps["end"][trace.steps["task"] == task][-1]
    computed = trace.phase_time()[:, Phase.COMPUTE]
    assert computed.tolist() == [10_000_000 * trace.n_steps(1)] * 3


def test_trace_of_a_large_step_keeps_its_last_step_for_the_first_tasks() -> None:
    with kit.settings(trace_rows=100):
        trace = kit.rehearse(
            4 * MIB, "ring", worker=8, link="1gbit,1ms", compute=0.01, rates=FREE
        ).trace

    last = trace.n_steps(1) - 1
    assert trace.kept.details == last
    assert 0 < len(trace.spans) <= 100
    assert {*trace.spans["step"].tolist()} == {last}


class Own(Topology):
    """Two workers that send each other one message, or do what `arranged` says."""

    name = "own-exchange"

    def __init__(self, arranged: Callable[[list[Op]], list[Op]] = list) -> None:
        self._arranged = arranged

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        other = next(worker for worker in group.workers if worker != member)
        whole, kind = Range(0, layout.n_bytes), TransferKind.REDUCE
        about = other, GRAD, whole, kind
        ops: list[Op] = [Send(*about), Receive(*about)]
        arranged = self._arranged(ops)
        return Plan((tuple(arranged),), (Apply(whole),)) if arranged else None


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_topologies(monkeypatch)


@pytest.mark.usefixtures("table")
def test_topology_of_ones_own_is_rehearsed_by_its_plan_alone() -> None:
    topologies.register(Own())

    result = kit.rehearse(
        100_000, "own-exchange", worker=2, link="8mbit,5ms", rates=FREE
    )

    assert (result.n_bytes, result.n_messages) == (200_000, 2)
    assert result.seconds == pytest.approx(0.1 + 0.005)


@pytest.mark.usefixtures("table")
@for_each(
    ("arranged", "said"),
    [
        (lambda ops: ops[::-1], "never end"),
        (lambda ops: ops[:1], "do not fit"),
        (lambda ops: [], "none of the tasks"),
    ],
    ids=["waiting", "deaf", "idle"],
)
def test_plans_that_cannot_be_carried_out_are_refused(
    arranged: Callable[[list[Op]], list[Op]], said: str
) -> None:
    topologies.register(Own(arranged))

    with pytest.raises(InvalidArgumentError, match=said):
        kit.rehearse(4000, "own-exchange", worker=2)


@for_each(
    ("more", "said"),
    [
        ({"model_or_sizes": 4001}, "multiple of 4"),
        ({"model_or_sizes": 0}, "multiple of 4"),
        ({"model_or_sizes": "resnet"}, "says no sizes"),
        ({"model_or_sizes": []}, "says no sizes"),
        ({"model_or_sizes": [(3, -1)]}, "whole numbers of 0 or more"),
        ({"model_or_sizes": [7]}, "says no sizes"),
        ({"model_or_sizes": {"w": np.zeros(3, np.int32)}}, "float32 or float64"),
        ({"topology": "rign"}, "Did you mean 'ring'"),
        ({"topology": "ps"}, "needs a parameter server"),
        ({"worker": 0}, "worker of 1 or more"),
        ({"ps": -1}, "ps of 0 or more"),
        ({"worker": 70_000}, "65,536 tasks"),
        ({"worker": 2.5}, "whole number"),
        ({"link": "fast"}, "neither a bandwidth"),
        ({"link_within": "1gbit"}, "say how many with hosts="),
        ({"link_within": "1gbit", "hosts": 1}, "say how many with hosts="),
        ({"compute": -1.0}, "seconds of 0 or more"),
        ({"compute": [0.1]}, "1 times for 2 workers"),
        ({"compute": {"worker:9": 1.0}}, "compute names worker:9"),
        ({"hosts": 3}, "cannot be on 3 hosts"),
        ({"hosts": ["a"]}, "hosts names 1 of 2"),
        ({"optimizer": "adm"}, "did you mean"),
        ({"placement": "even"}, "no placement"),
        ({"rates": 1e-9}, "Rates"),
        ({"rates": Rates(0.0, -1.0, 0.0, 0.0)}, "seconds of 0 or more"),
        ({"compress": "int9"}, "Did you mean 'int8'"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(more: dict[str, Any], said: str) -> None:
    asked = {"model_or_sizes": 4000, "worker": 2, "rates": FREE, **more}

    with pytest.raises(InvalidArgumentError, match=said):
        kit.rehearse(**asked)


@for_each(("name", "n_ps"), [("ring", 0), ("ps", 1), ("mesh", 0)])
def test_step_of_too_many_operations_is_refused(
    name: str, n_ps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MOST_ROWS", 100)

    with pytest.raises(ResourceExhaustedError, match="bucket_bytes"):
        kit.rehearse(64 * MIB, name, ps=n_ps, worker=16, rates=FREE)


def test_model_of_too_many_pieces_is_refused_before_they_are_cut() -> None:
    with pytest.raises(ResourceExhaustedError, match="pieces"):
        kit.rehearse(4 * 10**15, worker=1000, rates=FREE)


def train_step(params: Any, batch: Any) -> Any:
    return 0.0, {name: np.zeros_like(value) for name, value in params.items()}


def touched_bytes(cluster: LocalCluster) -> list[int]:
    """Return how much of each member's arena of the last training has been used."""
    mapped: dict[str, os.stat_result] = {}
    for fd in [*Path("/proc/self/fd").iterdir()]:
        with suppress(FileNotFoundError):  # another thread closes some meanwhile
            mapped[str(fd.readlink())] = fd.stat()
    names = [f"/memfd:kit-kit-{task.short} (deleted)" for task in cluster.tasks]
    return [mapped[name].st_blocks * 512 for name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_ps", "n", "compress"),
    [
        ("ps", 2, 3, None),
        ("ring-whole", 0, 4, None),
        ("hierarchical", 0, 3, None),
        ("ring", 0, 3, "int8"),
    ],
)
def test_real_training_moves_the_rehearsed_bytes_in_the_rehearsed_memory(
    name: str, n_ps: int, n: int, compress: str | None
) -> None:
    params = {"a": np.zeros((512, 700), np.float32), "b": np.zeros(11)}
    asked: dict[str, Any] = {
        "topology": name,
        "optimizer": "adam",
        "compress": compress,
    }
    with kit.settings(bucket_bytes=2**18), local_cluster(n_ps, n) as cluster:
        predicted = kit.rehearse(params, ps=n_ps, worker=n, **asked)
        run = kit.train(
            train_step,
            params,
            (np.zeros((n, 1)),),
            steps=predicted.trace.n_steps(1),
            batch=n,
            cluster=cluster,
            **asked,
        )
        measured = run.wait(60).trace.totals
        used = touched_bytes(cluster)

    in_steps = measured[measured["kind"] != TransferKind.BROADCAST]
    in_order = np.sort(in_steps, order=["source", "destination", "kind"])
    assert in_order.tolist() == predicted.trace.totals.tolist()
    # Beside the buffers an arena holds counters, a few pages for each neighbour.
    for task, result in zip(predicted.tasks, used, strict=True):
        assert 0 <= result - predicted.memory[task] < 100_000
