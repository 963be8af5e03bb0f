"""The cost model: it finds again what times were made of, and counts what plans do."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import Add, Apply, Receive
from kit.exchange.topologies.time_model import (
    Case,
    CostModel,
    Point,
    Rates,
    Regime,
    Sharing,
    fit,
    load,
)
from kit.exchange.topologies.topology import by_name
from tests.cases import for_each
from tests.exchange.models import group_on

ALL = ("hierarchical", "mesh", "ps", "ring", "ring-whole")
RATE = st.floats(1e-12, 1e-3)
RATES = st.builds(Rates, RATE, RATE, RATE, RATE, RATE)
SHARING = tuple(Sharing)
MANY_CORES = 64


def grid(topology: str) -> list[Case]:
    servers = (1, 2, 4) if topology == "ps" else (0,)
    return [
        Case(topology, n, size, n_ps)
        for n in (1, 2, 3, 4, 8, 16)
        for n_ps in servers
        for size in (1 << 10, 1 << 14, 3 << 18, 1 << 22, 5 << 24, 1 << 28)
    ]


# As far apart as on real machines: microseconds, and nanoseconds for a byte.
KNOWN = st.builds(
    Rates, st.floats(1e-6, 1e-4), st.floats(1e-6, 1e-4), *[st.floats(1e-11, 1e-8)] * 3
)


@pytest.mark.parametrize("name", ALL)
@given(rates=KNOWN)
def test_rates_that_made_the_times_are_found_again(name: str, rates: Rates) -> None:
    made = CostModel({(name, Sharing.NONE): rates}, MANY_CORES)
    points = [Point(case, made.predict(case)) for case in grid(name)]

    result = fit(points, MANY_CORES).rates[name, Sharing.NONE]

    assert list(result) == pytest.approx(list(rates), rel=1e-5)


@settings(max_examples=settings().max_examples // 3)
@given(
    rates=st.fixed_dictionaries({(name, s): KNOWN for name in ALL for s in SHARING}),
    cores=st.sampled_from([1, 2, 4, 32]),
)
def test_what_made_the_times_is_predicted_for_what_was_not_measured(
    rates: dict[Regime, Rates], cores: int
) -> None:
    made = CostModel(rates, cores)
    points = [Point(case, made.predict(case)) for name in ALL for case in grid(name)]

    result = fit(points[::2], cores)

    # Where all tasks share one core, bytes moved and worked on grow alike: the rates of
    # a parameter server cannot be told apart, but the times are right.
    assert result.error(points[1::2]) < 1e-6


def test_times_that_scatter_give_rates_near_those_that_made_them() -> None:
    dice = random.Random(3)
    made = CostModel(
        {("ring", Sharing.NONE): Rates(2e-5, 3e-5, 2e-10, 1e-10, 1e-10)}, MANY_CORES
    )
    points = [
        Point(case, made.predict(case) * dice.uniform(0.95, 1.05))
        for case in grid("ring") * 5
    ]

    result = fit(points, MANY_CORES)

    wanted = list(made.rates["ring", Sharing.NONE])
    assert list(result.rates["ring", Sharing.NONE]) == pytest.approx(wanted, rel=0.25)
    assert result.error(points) < 0.05


def test_rates_are_never_negative() -> None:
    # A step that gets faster with each worker: a plain fit would pay for messages.
    points = [Point(case, 1e-3 / case.n_workers) for case in grid("mesh")]

    result = fit(points, MANY_CORES).rates["mesh", Sharing.NONE]

    assert min(result) >= 0
    assert max(result) > 0


@given(
    st.sampled_from(ALL),
    RATES,
    st.integers(1, 16),
    st.integers(1, 4),
    st.integers(0, 1 << 28),
    st.integers(1, 8),
    st.integers(1, 16),
)
def test_more_bytes_more_workers_and_fewer_cores_never_cost_less(
    name: str, rates: Rates, n: int, n_ps: int, size: int, more: int, cores: int
) -> None:
    both = {(name, shares): rates for shares in SHARING}
    model = CostModel(both, cores)
    time = model.predict(Case(name, n, size, n_ps, 1))

    assert model.predict(Case(name, n, size + more, n_ps, 1)) >= time
    assert model.predict(Case(name, n + more, size, n_ps, 1)) >= time
    assert model.predict(Case(name, n, size, n_ps, 1 + more)) >= time
    roomy = CostModel(both, cores + more)
    assert roomy.predict(Case(name, n, size, n_ps, 1)) <= time


@for_each(
    ("name", "n", "n_ps"),
    [
        *product(["mesh", "ring", "ring-whole"], [1, 2, 3, 8], [0]),
        *product(["ps"], [1, 3], [1, 2, 4]),
    ],
)
def test_formulas_count_what_plans_do(name: str, n: int, n_ps: int) -> None:
    """Those of a worker; with servers, those of a server and then a worker."""
    layout = lay_out([Spec("w", (8 * 840,), "float32")], n, 4 * 840)
    plans = by_name(name).plans(layout, group_on(layout, n_ps, n))

    result = load(Case(name, n, 8 * 4 * 840, n_ps, 8), MANY_CORES)

    ops = [op for member in {0, n_ps} for op in plans[member].ops]
    taken = [op.range.size for op in ops if isinstance(op, Receive) and op.range.size]
    added = [(len(op.terms) - 1) * op.range.size for op in ops if isinstance(op, Add)]
    applied = [op.range.size for op in ops if isinstance(op, Apply)]
    assert len(layout.buckets) == 8
    assert result.messages == len(taken)
    assert result.moved == sum(taken)
    assert result.worked == sum(added) + sum(applied)


@for_each("size", [1, 1 << 10, 5 << 20, (5 << 20) + 4])
@for_each("n", [1, 2, 5])
def test_buckets_are_counted_as_the_layout_makes_them(n: int, size: int) -> None:
    layout = lay_out([Spec("w", (-(-size // 4),), "float32")], n)

    assert Case("ring", n, layout.payload_bytes).buckets == len(layout.buckets)


def test_tasks_that_share_cores_take_turns() -> None:
    rates = Rates(0, 1e-5, 1e-9, 1e-9)
    model, alone = (
        CostModel({("ring", Sharing.WORKERS): rates}, 2),
        CostModel({("ring", Sharing.NONE): rates}, 8),
    )
    case = Case("ring", 8, 1 << 20)

    assert model.predict(case) == pytest.approx(4 * alone.predict(case))


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("trie", 2, 8), "'trie'.*hierarchical, mesh, ps.*Did you mean 'tree'"),
        (Case("ring", 0, 8), "one worker"),
        (Case("ps", 2, 8), "a server"),
    ],
)
def test_case_that_cannot_be_is_refused(case: Case, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        load(case, 2)


def test_topology_that_was_not_measured_is_not_predicted() -> None:
    model = fit([Point(Case("ring", 2, 1024), 1e-4)], 2)

    with pytest.raises(
        InvalidArgumentError, match=r"'mesh' with 2 workers among 2 tasks"
    ):
        model.predict(Case("mesh", 2, 1024))
    with pytest.raises(
        InvalidArgumentError, match=r"'ring' with 3 workers among 3 tasks"
    ):
        model.predict(Case("ring", 3, 1024))


def test_bytes_beyond_the_cache_cost_more() -> None:
    model = CostModel(
        {("ring", Sharing.NONE): Rates(0, 0, 0, 1e-9, 2e-9)}, 2, cache_bytes=1000
    )

    assert model.predict(Case("ring", 1, 1000)) == pytest.approx(1000e-9)
    assert model.predict(Case("ring", 1, 1500)) == pytest.approx(1500e-9 + 500 * 2e-9)


def test_servers_share_the_cores_with_the_workers() -> None:
    model = CostModel({}, cores=3)

    assert model.regime(Case("ps", 2, 8, n_ps=1)) == ("ps", Sharing.NONE)
    assert model.regime(Case("ps", 2, 8, n_ps=2)) == ("ps", Sharing.SERVERS)
    assert model.regime(Case("ps", 4, 8, n_ps=2)) == ("ps", Sharing.WORKERS)
    assert model.regime(Case("ring", 3, 8, n_ps=2)) == ("ring", Sharing.NONE)
    assert model.regime(Case("ring", 4, 8, n_ps=2)) == ("ring", Sharing.WORKERS)


def test_no_points_and_times_of_nothing_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no points"):
        fit([], 2)
    with pytest.raises(InvalidArgumentError, match=r"take 0\.0 s"):
        fit([Point(Case("ring", 2, 8), 0.0)], 2)
