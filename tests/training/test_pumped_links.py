"""Trainings over TCP whose links have a thread for each direction."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kit
from kit import machine
from tests.training.toy import BATCH, DATA, quick_cluster

N_ITEMS = 300_000  # 1.2 MB, for which threads pay
STEPS = 6

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 64)


class Step:
    """A step whose gradient has other bits in each place and for each batch."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.go = threading.Event()

    def __call__(self, params: Any, batch: Any) -> Any:
        names = [thread.name for thread in threading.enumerate()]
        self.threads |= {name for name in names if name.startswith("kit-send-")}
        weights = params["w"]
        assert self.go.wait(20)
        gradient = np.sin(np.arange(N_ITEMS, dtype=np.float32) * batch[0].sum())
        return float(weights[0]), {"w": gradient - weights / 3}


def trained(
    transport: str,
    *,
    n_ps: int = 0,
    n_workers: int = 3,
    switches: bool = False,
    sealed: bool = False,
    streams: int = 1,
    **how: Any,
) -> tuple[kit.Run, set[str]]:
    step = Step()
    with quick_cluster(
        n_ps,
        n_workers,
        transport=transport,
        insecure=transport == "tcp" and not sealed,
        streams=streams,
    ) as cluster:
        options: dict[str, Any] = {"steps": STEPS, "batch": BATCH, "seed": 3} | how
        params = {"w": np.zeros(N_ITEMS, np.float32)}
        run = kit.train(step, params, DATA, cluster=cluster, **options)
        if switches:
            run.switch("mesh", at=10)
        step.go.set()
        run.wait(60)
    return run, step.threads


@pytest.mark.parametrize(
    "how",
    [
        {"topology": "ring"},
        {"topology": "mesh"},
        {"topology": "ps", "n_ps": 1},
        {"topology": "ring", "optimizer": kit.Adam()},
        {"topology": "ring", "sealed": True},  # by AES-GCM
        {"topology": "ring", "streams": 2},
        {"topology": "ps", "n_ps": 1, "streams": 3, "sealed": True},
    ],
    ids=str,
)
def test_bits_and_counts_are_those_of_a_training_in_memory(how: Any) -> None:
    near, none = trained("unix", **how)
    far, threads = trained("tcp", **how)

    assert {name.count("-") for name in threads} == {2, 3 if "streams" in how else 2}
    assert not none
    assert np.array_equal(near.params["w"], far.params["w"])
    assert near.traffic == far.traffic


def test_a_switch_to_another_topology_changes_no_bit() -> None:
    how: dict[str, Any] = {"topology": "ring", "steps": 20, "batch": 3}
    near, _ = trained("unix", **how)
    far, threads = trained("tcp", switches=True, **how)

    assert threads
    assert [epoch.topology for epoch in far.trace.epochs] == ["ring", "mesh"]
    assert np.array_equal(near.params["w"], far.params["w"])


def test_an_asynchronous_training_goes_to_its_end() -> None:
    run, threads = trained("tcp", topology="ps", n_ps=1, sync=False)

    assert threads
    assert run.state == "done"
