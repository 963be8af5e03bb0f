"""Live servers under mutated frames: a small form of `benchmarks.fuzz`."""

from __future__ import annotations

import json
import logging
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

import kit
from benchmarks import fuzz_mutations as mutations
from benchmarks.fuzz import fuzz, servers
from benchmarks.fuzz_server import PS, Faults, Life, _queue
from kit.errors import LinkLost, UnknownError
from kit.exchange.layout import specs_of
from kit.session.transport.serialization import pack
from kit.settings import current
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from kit.training.core.epoch import EpochRunner
from kit.training.core.job import Job
from kit.training.core.member import Member
from kit.wire.message import pack_message, unpack_message
from tests.training.toy import BATCH, DATA, fit, initial, quick_cluster

# 1,000 frames of each transport, 1,600 in CI, 80,000 at night.
N_FRAMES = max(1_000, 40 * hypothesis.settings().max_examples)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["unix", "tcp", "tls"])
def test_servers_outlive_mutated_frames(transport: str) -> None:
    report = fuzz(transport, N_FRAMES, seed=1)

    assert report.failures == []
    assert report.frames >= N_FRAMES
    # Frames of many kinds have reached the handlers, and damaged ones the link.
    assert len(report.kinds) > 15
    assert report.outcomes["InvalidArgumentError"] > N_FRAMES // 20
    assert report.outcomes["answered"] > N_FRAMES // 50
    assert report.outcomes["raw"] > N_FRAMES // 100


@pytest.mark.slow
def test_servers_tell_again_and_again_where_all_their_threads_are() -> None:
    with servers("unix") as where:
        where.wait_until(lambda result: result["runs"] > 0, "no life")
        for _ in range(50):  # while all of them work
            text = "\n".join(where.stacks())

    threads = text.split("Thread ")
    assert len(threads) > 5
    assert any(
        "fuzz_server.py" in thread and " in main" in thread for thread in threads
    )
    assert any(" in _again" in thread for thread in threads)


@pytest.mark.slow
def test_servers_that_have_ended_are_told_at_once_with_what_they_wrote_last() -> None:
    with servers("unix") as where:
        where.process.send_signal(signal.SIGSEGV)
        where.process.wait(20)  # until then it may answer
        for _ in range(2):
            with pytest.raises(LinkLost, match="the servers have ended"):
                where.tell()
        assert "Segmentation fault" in "\n".join(where.stacks())


def fill_queue(cluster: LocalCluster) -> None:
    """Put as many elements into the queue of `Life` as it takes."""
    with kit.Graph().as_default() as graph, kit.device(PS):
        put, _ = _queue(graph)
    with kit.Session(cluster.target("worker:0"), graph=graph) as session:
        for _ in range(9):
            session.run(put, deadline_s=10)


def hold_server(cluster: LocalCluster) -> None:
    """Begin a training on the parameter server that waits for long."""
    job = Job(
        run="ab" * 16,
        tasks=tuple(cluster.tasks),
        specs=specs_of({"w": np.zeros(3, np.float32)}),
        optimizer=kit.Adam(),
        topology="ps",
        steps=9,
        batch=8,
        settings=current().replace(start_deadline_s=1e6),
    )
    cluster.servers[0].trainings.begin(job, None)


@pytest.mark.slow
@pytest.mark.parametrize("hinder", [fill_queue, hold_server])
def test_training_and_session_go_on_although_a_holder_of_the_key_hinders_them(
    hinder: Callable[[LocalCluster], None], faults: Faults, tmp_path: Path
) -> None:
    with local_cluster() as cluster:
        hinder(cluster)
        with closing(Life(cluster, str(tmp_path), faults)) as life:
            until(lambda: life.steps > 0 and life.runs > 0)

    assert not faults.seen


def parts(*pieces: object) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]


ONE = {"op": "run.arrive", "run": "ab" * 16, "member": 1, "key": [3, 0]}
OTHER = {"op": "run.fail", "error": {"type": "PeerLost", "message": "gone"}}
CHANGES: list[tuple[Callable[..., bytes], bytes, bytes]] = [
    (mutations.message, parts(*pack_message(ONE, b"xy")), parts(*pack_message(OTHER))),
    (
        mutations.session_message,
        parts(*pack(ONE, [np.arange(3)])),
        parts(*pack(OTHER, [])),
    ),
]


@pytest.mark.parametrize(
    ("change", "body", "second"), CHANGES, ids=["message", "session_message"]
)
def test_mutations_follow_from_their_dice_and_nearly_all_change_something(
    change: Callable[..., bytes], body: bytes, second: bytes
) -> None:
    first, again = (
        [change(body, second, random.Random(seed)) for seed in range(300)]
        for _ in range(2)
    )

    assert first == again
    assert sum(item != body for item in first) > 200
    assert len(set(first)) > 100


def test_changed_messages_are_still_messages() -> None:
    change, first, other = CHANGES[0]

    for seed in range(300):
        values, _ = unpack_message(bytearray(change(first, other, random.Random(seed))))
        json.dumps(values)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(Member, "_fail", vars(Member)["_fail"])
    faults = Faults()
    yield faults
    logging.getLogger().removeHandler(faults)


def test_only_errors_that_are_not_declared_are_faults(faults: Faults) -> None:
    logging.getLogger("kit.server").warning("a link was refused")
    assert not faults.seen

    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        logging.getLogger("kit.server").exception("'run.poll' failed")
    thread = threading.Thread(target=lambda: dict[str, int]()["missing"])
    thread.start()
    thread.join()

    result = " ".join(faults.seen)
    assert "ZeroDivisionError: a bug" in result
    assert "KeyError: 'missing'" in result


def begin(cluster: LocalCluster) -> kit.Run:
    return kit.train(fit, initial(), DATA, steps=100_000, batch=BATCH, cluster=cluster)


def test_python_error_that_ends_a_training_is_a_fault(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(EpochRunner, "run", broken)
    with quick_cluster() as cluster, pytest.raises(UnknownError):
        begin(cluster).wait(20)

    assert "ZeroDivisionError: a bug" in " ".join(faults.seen)


def test_reported_error_of_an_unknown_type_is_no_fault(faults: Faults) -> None:
    with quick_cluster() as cluster:
        run = begin(cluster)
        with closing(cluster.dial(Task("worker", 0), "")) as link:
            error = {"type": "ValueError", "message": "x", "traceback": "ValueError: x"}
            link.call("run.fail", 10, {"run": run.job.run, "error": error})
        with pytest.raises(UnknownError):
            run.wait(20)

    assert not faults.seen
