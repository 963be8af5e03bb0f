"""A step that yields its gradients: the same bits, and the exchange beside it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import kit
from kit.trace.traffic import Phase, TransferKind
from kit.training.core.part import Overlap
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    begin,
    fit,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow

RING = dict.fromkeys(["ring", "ring-whole", "mesh"], TransferKind.REDUCE)
FIRST = {"ps": TransferKind.PUSH, **RING}


def one_by_one(params: Params, batch: Any) -> Generator[Any, None, float]:
    loss, gradients = fit(params, batch)
    yield from reversed(gradients.items())
    return float(loss)


@pytest.mark.parametrize("topology", sorted(FIRST))
def test_first_bucket_travels_while_the_rest_computes(topology: str) -> None:
    def slow(params: Params, batch: Any) -> Generator[Any, None, float]:
        yield "last", np.ones(64, np.float32)
        total = 0.0
        for _ in range(40):  # some milliseconds, in which the interpreter is let go
            total += float(np.sort(np.arange(40_000.0)[::-1]).sum())
        yield "first", np.ones(64, np.float32)
        return total

    params = {name: np.zeros(64, np.float32) for name in ("first", "last")}
    with quick_cluster(1, 2, bucket_bytes=256) as cluster:
        run = kit.train(
            slow, params, DATA, topology=topology, steps=4, batch=BATCH, cluster=cluster
        ).wait(20)

    trace = run.trace
    sent = trace.transfers[trace.transfers["kind"] == FIRST[topology]]
    computing = trace.spans[trace.spans["phase"] == Phase.COMPUTE]
    early = [
        sent[sent["step"] == step]["start"].min()
        < computing[computing["step"] == step]["end"].min()
        for step in range(4)
    ]
    assert sum(early) >= 2  # a busy machine may let the other thread wait for once


def wait_for(event: threading.Event) -> None:
    assert event.wait(20)


def test_exchange_beside_the_computation_has_no_deadline_but_those_of_its_waits() -> (
    None
):
    go, ended = threading.Event(), threading.Event()
    exchange = Overlap(lambda _: wait_for(go), 1, "kit-exchange-test")
    exchange.ready(0)

    def finish() -> None:
        exchange.finish()
        ended.set()

    waiting = threading.Thread(target=finish)
    waiting.start()
    assert not ended.wait(0.05)
    go.set()
    wait_for(ended)
    waiting.join()
    exchange.close()


def test_step_may_yield_in_some_steps_only() -> None:
    def mixed(params: Params, batch: Any) -> Any:
        early = float(params["scale"]) == 1.0
        return one_by_one(params, batch) if early else fit(params, batch)

    with quick_cluster() as cluster:
        run = begin(cluster, mixed, steps=4).wait(10)

    assert same_bits(run.params, replayed(4, 2, kit.GradientDescent()))
