"""A topology of one's own, asynchronous or with backup workers: replayed or refused."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.exchange import register
from kit.exchange.topologies import topology as table
from kit.exchange.topologies.ps import ParameterServer
from kit.testing import check_topology
from kit.testing.processes import process_cluster
from kit.training.optimizers.rule import Optimizer
from tests.cluster.hub import Hub, forget_topologies
from tests.training.backups import ranks
from tests.training.backups import replayed as replayed_backups
from tests.training.paced import always_one
from tests.training.toy import (
    Params,
    begin,
    fit,
    quick_cluster,
    replayed,
    same_bits,
    trained,
)

STEPS = 24
MISSING = "no topology is called 'hub'; .* register it in the programs of the tasks"


class Served(ParameterServer):
    """A topology of one's own whose owners are the servers."""

    name = "served"


class Mistaken(Hub):
    """Says that it may be what only servers can be; its owner is a worker."""

    name = "mistaken"
    may_be_asynchronous = True
    may_have_backups = True


@pytest.fixture(autouse=True)
def own_topologies(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_topologies(monkeypatch)
    for item in (Served(), Hub(), Mistaken()):
        register(item)


@pytest.mark.slow
def test_tasks_without_a_notebook_that_lack_it_say_where_to_register_it() -> None:
    table.TABLE.pop("hub")
    with process_cluster(ps=0, worker=2) as cluster:
        register(Hub())
        run = begin(cluster, topology="ring", steps=1_000_000)
        with pytest.raises(InvalidArgumentError, match=MISSING):
            run.topology = "hub"
        run.stop()
        run.wait(20)

    assert run.topology == "ring"


def train(n_ps: int, step: Any = fit, **options: Any) -> kit.Run:
    return trained(n_ps, 3, step, **{"steps": STEPS, **options})


def updated(optimizer: Optimizer, n_updates: int) -> Params:
    """Return what plain numpy makes of gradients that are one everywhere."""

    def of_workers(params: Params, _: int) -> list[Params]:
        return [always_one(params, ())[1]]

    return replayed(n_updates, 1, optimizer, of_workers=of_workers)


@pytest.mark.parametrize("n_ps", [1, 2])
def test_asynchronous_steps_have_the_bits_of_their_replay(n_ps: int) -> None:
    # Equal gradients: whoever comes first, the updates are the same.
    optimizer = kit.Adagrad(0.1)

    run = train(n_ps, always_one, topology="served", optimizer=optimizer, sync=False)

    assert same_bits(run.params, updated(optimizer, STEPS))
    assert {row.topology for row in run.trace.epochs} == {"served-async"}


@pytest.mark.slow
def test_a_training_becomes_asynchronous_on_it_and_goes_on_as_a_ring() -> None:
    optimizer, requested = kit.Momentum(0.01), threading.Event()
    # Workers at their own pace go on while the first one, which is told, does not.
    barrier = threading.Barrier(3, timeout=1.0)

    def held(params: Params, batch: Any) -> Any:
        assert requested.wait(30)
        with suppress(threading.BrokenBarrierError):  # the first one is done with it
            barrier.wait()
        return always_one(params, batch)

    with quick_cluster(1, 3) as cluster:
        how: dict[str, Any] = {"steps": STEPS, "optimizer": optimizer}
        run = begin(cluster, held, topology="served", **how)
        run.switch(synchronous=False, at=8)
        run.switch("ring", synchronous=True, at=16)
        requested.set()
        run.wait(30)

    assert same_bits(run.params, updated(optimizer, STEPS))
    hows = [row.topology for row in run.trace.epochs]
    assert hows == ["served", "served-async", "ring"]


@pytest.mark.slow
@pytest.mark.parametrize("n_ps", [1, 2])
def test_backup_workers_have_the_bits_of_their_replay(n_ps: int) -> None:
    optimizer = kit.Adam(0.02)

    run = train(n_ps, topology="served", optimizer=optimizer, aggregate=2)

    assert same_bits(run.params, replayed_backups(ranks(run), 3, optimizer))


@pytest.mark.parametrize("n_ps", [0, 1])
@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("hub", {"sync": False}, "asynchronous .* not on 'hub'; use topology='ps'"),
        ("hub", {"aggregate": 2}, "'hub' needs the gradient of every .*topology='ps'"),
        ("mistaken", {"sync": False}, "says that it .* or use topology='ps'"),
        ("mistaken", {"aggregate": 2}, "says that it .* or use topology='ps'"),
    ],
)
def test_one_that_does_not_meet_at_servers_is_refused(
    n_ps: int, name: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        train(n_ps, topology=name, **options)


@pytest.mark.slow
def test_the_contract_notices_one_that_does_not_meet_at_servers() -> None:
    check_topology(Served(), workers=[2], servers=[1, 2])

    with pytest.raises(AssertionError, match=r"may_be_asynchronous .* servers"):
        check_topology(Mistaken(), workers=[2])
