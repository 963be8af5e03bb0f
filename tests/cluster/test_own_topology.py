"""A topology of one's own, written in this file alone, as a user sees it everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.exchange import Topology, register
from kit.exchange.layout import Bucket, Layout
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    Add,
    Apply,
    Copy,
    Group,
    Op,
    Plan,
    Receive,
    Send,
    Term,
    chain,
)
from kit.exchange.topologies import topology as table
from kit.exchange.topologies.counting import Traffic
from kit.exchange.topologies.topology import per_member
from kit.testing import check_topology
from kit.trace.traffic import TransferKind
from kit.training.client.run import Run
from tests.cluster.test_training_on_engines import begin, replayed
from widgets import ExchangeStepper, Section, TrafficBoard, write_report
from widgets.board.controls import formable

STEPS = 20


class Hub(Topology):
    """All workers send their gradients to the first one and get parameters back."""

    name = "hub"
    title = "All-reduce by a hub"
    hue = 5

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        hub, *others = group.workers
        if member in group.ps:
            return None
        if member == hub:
            sums = tuple(tuple(add_up(one, group.workers)) for one in layout.buckets)
            return Plan(sums, tuple(hand_out(layout, others)))
        sends = tuple(
            (Send(hub, GRAD, one.range, TransferKind.REDUCE),) for one in layout.buckets
        )
        return Plan(sends, tuple(take(layout, hub)))

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        hub, *others = group.workers
        size = layout.payload_bytes
        up = {(other, hub, TransferKind.REDUCE): size for other in others}
        down = {(hub, other, TransferKind.GATHER): size for other in others}
        return up | down

    def rows(self, group: Group) -> tuple[tuple[int, ...], ...]:
        return group.workers[:1], group.workers[1:]


def add_up(bucket: Bucket, workers: tuple[int, ...]) -> Iterator[Op]:
    hub, *others = workers
    for other in others:
        yield Receive(other, GRAD, bucket.range, TransferKind.REDUCE)
    for number, chunk in enumerate(bucket.chunks):
        order = (workers[rank] for rank in chain(number, len(workers)))
        yield Add(chunk, tuple(Term(SELF if w == hub else w, GRAD) for w in order))


def hand_out(layout: Layout, others: list[int]) -> Iterator[Op]:
    for bucket in layout.buckets:
        yield Apply(bucket.range)
        for other in others:
            yield Send(other, NEXT, bucket.range, TransferKind.GATHER)


def take(layout: Layout, hub: int) -> Iterator[Op]:
    for bucket in layout.buckets:
        yield Receive(hub, NEXT, bucket.range, TransferKind.GATHER)
        yield Copy(Term(hub, NEXT), NEXT, bucket.range)


@pytest.fixture(scope="module")
def trained() -> Iterator[Run]:
    """Give a training over the hub that is done, on engines that are still there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_table", dict(table._table))
        register(Hub())
        with kit.Cluster(ps=0, worker=3) as cluster:
            cluster.call("all", register, Hub())
            yield begin(cluster, topology="hub", steps=STEPS).wait()


def formula(run: Run) -> dict[str, tuple[int, int]]:
    """Return the bytes of a step by the formula of its class, sent and received."""
    traffic = Hub().traffic(run.job.layout, run.job.group)
    return {
        task.short: per_member(traffic, number)
        for number, task in enumerate(run.job.tasks)
    }


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    check_topology(Hub())


@pytest.mark.slow
@pytest.mark.engines
def test_its_parameters_are_those_of_the_numpy_replay(trained: Run) -> None:
    want = replayed(STEPS, n_workers=3)

    for name, value in trained.params.items():
        assert value.tobytes() == want[name].tobytes()


@pytest.mark.slow
@pytest.mark.engines
def test_its_bytes_are_those_of_its_own_formula(trained: Run) -> None:
    size = 26 * 4  # of all parameters
    assert formula(trained)["worker:0"] == (2 * size, 2 * size)

    for entry in trained.traffic:
        sent, received = formula(trained)[entry.task]
        assert (entry.sent, entry.received) == (STEPS * sent, STEPS * received)


@pytest.mark.slow
@pytest.mark.engines
def test_its_board_draws_it(trained: Run, tmp_path: Path) -> None:
    TrafficBoard(trained).save(tmp_path / "board.html")
    page = (tmp_path / "board.html").read_text("utf-8")

    assert "Topology hub with 3 tasks" in page
    links = set(re.findall(r'data-link="(\d-\d)"', page))
    assert links == {"0-1", "0-2", "1-0", "2-0"}
    assert re.search(r'class="ps-region" style="fill:var\(--ps-h5\)".*?>hub<', page)
    heights = re.findall(r'class="ps-name" x="[\d.]+" y="([\d.]+)">worker', page)
    hub, *others = map(float, heights)
    assert hub < min(others) == max(others)


@pytest.mark.slow
@pytest.mark.engines
def test_its_report_names_it(trained: Run, tmp_path: Path) -> None:
    section = Section("A hub", "", trained.trace, formula(trained))

    write_report(tmp_path / "report.html", [section])

    page = (tmp_path / "report.html").read_text("utf-8")
    assert "under hub: it sends" in page
    assert "All 6 measured values equal the formula to the byte" in page


@pytest.mark.slow
@pytest.mark.engines
def test_a_switch_to_it_is_offered_and_stepped_through(trained: Run) -> None:
    assert formable(trained) == ["ring", "mesh", "ring-whole", "hierarchical", "hub"]

    stepper = ExchangeStepper("hub", n=3)

    assert "All-reduce by a hub: 3 workers" in stepper._bundle()["text/html"]
    assert len(stepper.messages) == stepper.formula.n_messages == 4
