"""The error that a training is known to have failed with is the one that is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kit
from kit.errors import PeerLost, StepFailed
from kit.exchange.ports import endpoint
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Port
from kit.testing.cluster import local_cluster
from tests.training.backups import Marked
from tests.training.toy import BATCH, Params, fit, initial


class Deaf:
    """In the place of what an endpoint calls when a link ends: nothing happens."""

    def __get__(self, *_: object) -> Callable[[], None]:
        return lambda: None

    def __set__(self, *_: object) -> None:
        """Keep nothing."""


def test_closed_link_does_not_hide_the_error_of_the_step_that_closed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met, gone = [], Endpoint._gone

    def noted(self: Endpoint, port: Port) -> PeerLost:
        met.append(self.names[self.me])
        return gone(self, port)

    def stumble(params: Params, batch: Any) -> Any:
        (worker, step), *examples = batch
        if (worker, step) == (1, 3):
            raise ZeroDivisionError("a mistake of mine")
        return fit(params, examples)

    # No news comes before the closed link is noticed.
    monkeypatch.setattr(endpoint, "GRACE_S", 0.0)
    monkeypatch.setattr(Endpoint, "on_loss", Deaf(), raising=False)
    monkeypatch.setattr(Endpoint, "_gone", noted)
    chosen = kit.settings(heartbeat_s=20, suspect_after_s=30, dead_after_s=400)
    with chosen as settings, local_cluster(0, 3, settings=settings) as cluster:
        options: dict[str, Any] = {"steps": 9, "batch": BATCH, "topology": "ring"}
        run = kit.train(stumble, initial(), Marked(), cluster=cluster, **options)
        with pytest.raises(StepFailed, match="a mistake of mine") as caught:
            run.wait(10)

    assert "/job:worker/task:2" in met  # the coordinator, worker 0, knows the cause
    assert "in stumble" in str(caught.value.remote_traceback)
