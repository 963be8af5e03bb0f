"""A topology of one's own, written in this file alone, as a user sees it everywhere."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.errors import InvalidArgumentError, PeerLost
from kit.exchange import register
from kit.exchange.topologies.topology import per_member
from kit.testing import check_topology
from kit.testing.task_process import until
from kit.training.client.run import Run
from tests.cluster.engine_training import assert_replayed, begin
from tests.cluster.hub import Hub, define, forget_topologies, titles
from tests.widgets.insides import bundle_of
from widgets import ExchangeStepper, Section, TrafficBoard, write_report
from widgets.board.choices import formable

pytestmark = [pytest.mark.engines, pytest.mark.slow]
STEPS, MANY = 20, 1_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    """Give engines that were started before there was a hub."""
    with pytest.MonkeyPatch.context() as patch:
        forget_topologies(patch)
        with kit.Cluster(ps=0, worker=3) as result:
            register(Hub())
            yield result


@pytest.fixture(scope="module")
def trained(cluster: kit.Cluster) -> Run:
    """Give a training over the hub that is done, on engines that are still there."""
    return begin(cluster, topology="hub", steps=STEPS).wait()


def formula(run: Run) -> dict[str, tuple[int, int]]:
    """Return the bytes of a step by the formula of its class, sent and received."""
    traffic = Hub().traffic(run.job.layout, run.job.group)
    return {
        task.short: per_member(traffic, number)
        for number, task in enumerate(run.job.tasks)
    }


def test_it_keeps_the_contract() -> None:
    check_topology(Hub())


def test_its_parameters_and_bytes_are_those_of_numpy_and_of_its_own_formula(
    trained: Run,
) -> None:
    size = 26 * 4  # of all parameters

    assert_replayed(trained)
    assert formula(trained)["worker:0"] == (2 * size, 2 * size)
    for entry in trained.traffic:
        sent, received = formula(trained)[entry.task]
        assert (entry.sent, entry.received) == (STEPS * sent, STEPS * received)


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


def test_its_report_names_it(trained: Run, tmp_path: Path) -> None:
    section = Section("A hub", "", trained.trace, formula(trained))

    write_report(tmp_path / "report.html", [section])

    page = (tmp_path / "report.html").read_text("utf-8")
    assert "under hub: it sends" in page
    assert "All 6 measured values equal the formula to the byte" in page


def test_a_switch_to_it_is_offered_and_stepped_through(trained: Run) -> None:
    ours = ["ring", "mesh", "ring-whole", "hierarchical", "recursive-doubling", "tree"]
    assert formable(trained) == [*ours, "hub"]

    stepper = ExchangeStepper("hub", n=3)

    assert "All-reduce by a hub: 3 workers" in bundle_of(stepper)["text/html"]
    assert len(stepper.messages) == stepper.formula.n_messages == 4


def test_one_of_a_cell_reaches_the_engines_and_the_newest_definition_counts(
    cluster: kit.Cluster,
) -> None:
    for text in ("first", "second"):
        define("circle", text)
        run = begin(cluster, topology="circle", steps=STEPS).wait()

        assert cluster.call("all", titles, "circle") == [text] * 3
        assert run.trace.epochs[-1].topology == "circle"
    assert_replayed(run)


def test_one_of_a_module_that_the_engines_lack_is_switched_to(
    cluster: kit.Cluster,
) -> None:
    run = begin(cluster, topology="ring", steps=MANY)
    define("late", "of a module", "not_on_engines")
    try:
        run.topology = "late"
        until(lambda: run.topology == "late" or run.done, 20)
    finally:
        run.stop()
        del sys.modules["not_on_engines"]
    run.wait()

    assert run.topology == "late"
    assert cluster.call("all", titles, "late") == ["of a module"] * 3


def test_one_that_holds_a_lock_is_refused_before_anything_is_sent(
    cluster: kit.Cluster,
) -> None:
    hub = Hub()
    hub.name = "locked"
    hub.lock = threading.Lock()  # type: ignore[attr-defined]
    register(hub)

    with pytest.raises(
        InvalidArgumentError, match=r"'locked' cannot be sent.*TypeError"
    ):
        begin(cluster, topology="locked", steps=STEPS)


def test_tasks_that_are_started_later_have_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_topologies(monkeypatch)
    define("circle", "of a cell")
    with kit.Cluster(ps=0, worker=2) as cluster:
        begin(cluster, topology="circle", steps=2).wait()
        cluster.restart("worker:1")
        cluster.add("worker")

        assert cluster.call("all", titles, "circle") == ["of a cell"] * 3


def test_where_all_tasks_are_lost_it_is_the_loss_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_topologies(monkeypatch)
    define("circle", "of a cell")
    with kit.Cluster(ps=0, worker=1) as cluster:
        cluster.kill("worker:0")
        until(lambda: cluster.status[0].state == "lost", 30.0)

        with pytest.raises(PeerLost, match="worker:0"):
            begin(cluster, topology="circle", steps=2)
