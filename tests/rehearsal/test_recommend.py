"""Recommendations: the quickest of what the tasks can form, and a training with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.topologies import topology as topologies
from kit.exchange.topologies.ring import Ring
from kit.exchange.topologies.time_model import Rates
from kit.exchange.topologies.topology import registered
from kit.testing.cluster import LocalCluster, local_cluster
from tests.cases import for_each
from tests.cluster.hub import forget_topologies

FREE = Rates(0.0, 0.0, 0.0, 0.0)


def step(params: Any, batch: Any) -> Any:
    return 0.0, {name: np.zeros_like(value) for name, value in params.items()}


def train(cluster: LocalCluster, **more: Any) -> kit.Run:
    params, data = {"w": np.zeros(1000, np.float32)}, (np.zeros((4, 1)),)
    return kit.train(step, params, data, steps=2, batch=4, cluster=cluster, **more)


@for_each(
    ("asked", "best"),
    [
        # A server takes the gradients of all; each of many servers a sixteenth.
        ({"model_or_sizes": 4_000_000, "ps": 1, "link": "100mbit"}, "mesh"),
        ({"model_or_sizes": [(6_250,)] * 16, "ps": 16, "link": "100mbit"}, "ps"),
        # There and back, where a ring of four has six messages in a row.
        ({"model_or_sizes": 40, "hosts": 4, "link": "5ms"}, "mesh"),
    ],
)
def test_quickest_is_the_one_that_its_formulas_say(
    asked: dict[str, Any], best: str
) -> None:
    result = kit.recommend(worker=4, rates=FREE, **asked)

    assert result.topology == best
    assert result.best.seconds == min(r.seconds for r in result.rehearsals.values())
    assert result.reason.startswith(f"{best}: predicted ")


@pytest.mark.slow
def test_what_cannot_be_formed_is_left_out_and_said() -> None:
    result = kit.recommend(4000, worker=2, rates=FREE)

    can = {
        topology.name
        for topology in registered()
        if topology.agrees and not topology.needs_ps
    }
    can -= {"tree", "recursive-doubling"}  # which have other last bits
    assert {*result.rehearsals} == can
    assert "needs a parameter server" in result.left_out["ps"]
    assert {*result.frame().index} == can


def test_topology_of_ones_own_is_recommended_where_it_is_quicker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Skips(Ring):
        name = "own-skips"

        def plan(self, layout: Any, group: Any, member: int) -> Any:
            plan = super().plan(layout, group, member)
            return plan and plan._replace(reduce=tuple(() for _ in plan.reduce))

    forget_topologies(monkeypatch)
    topologies.register(Skips())

    result = kit.recommend(400_000, worker=4, link="10mbit", rates=FREE)

    assert result.topology == "own-skips"
    assert "bytes, not" in result.reason


@pytest.mark.slow
def test_training_that_is_to_choose_says_what_it_chose_and_why() -> None:
    with local_cluster(ps=1, worker=4) as cluster:
        run = train(cluster, topology="auto", link="1mbit").wait(60)
        asked = kit.recommend({"w": np.zeros(1000, np.float32)}, ps=1, link="1mbit")

        assert run.recommendation is not None
        assert run.job.topology == run.recommendation.topology == asked.topology
        assert run.trace.epochs[0].topology == asked.topology
        assert run.recommendation.reason in run._repr_html_()
        for wrong in ({"sync": False}, {"aggregate": 2}):
            with pytest.raises(InvalidArgumentError, match="name the topology"):
                train(cluster, topology="auto", **wrong)
        with pytest.raises(InvalidArgumentError, match="batch of 2"):
            kit.train(
                *(step, {"w": np.zeros(4)}, (np.zeros((4, 1)),)),
                topology="auto",
                batch=2,
                cluster=cluster,
            )


def test_auto_is_no_topology_by_itself() -> None:
    class Auto(Ring):
        name = "auto"

    with pytest.raises(InvalidArgumentError, match="is not 'auto'"):
        topologies.register(Auto())
    with pytest.raises(InvalidArgumentError, match=r"kit\.recommend"):
        topologies.by_name("auto")


def test_of_equally_quick_ones_that_with_fewer_messages_in_a_row_is_named() -> None:
    result = kit.recommend(446_428, worker=14, link="50mbit", rates=FREE)

    near = [
        rehearsal
        for rehearsal in result.rehearsals.values()
        if rehearsal.seconds < 1.02 * min(r.seconds for r in result.rehearsals.values())
    ]
    assert {item.topology: item.n_in_row for item in near} == {"mesh": 2, "ring": 26}
    assert result.topology == "mesh"
