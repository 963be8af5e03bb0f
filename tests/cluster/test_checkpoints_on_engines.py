"""Checkpoints and hooks of trainings in engines: what a notebook's user sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.hooks import (
    CheckpointSaverHook,
    LoggingTensorHook,
    SessionRunHook,
    StopAtStepHook,
)
from kit.testing.cluster import local_cluster
from tests.cluster.engine_training import assert_replayed, begin
from tests.training.graph_models import Model
from tests.training.toy import same_bits

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    with kit.Cluster(ps=1, worker=2) as running:
        yield running


@pytest.mark.lasting("descriptor", "thread")
def test_engines_go_on_from_their_checkpoint_and_one_engine_from_theirs(
    cluster: kit.Cluster, tmp_path: Path
) -> None:
    saved = kit.Checkpoints(str(tmp_path), every_steps=10)
    begin(cluster, topology="ps", steps=25, checkpoint=saved).wait(60)
    run = begin(cluster, topology="ring", steps=40, checkpoint=saved).wait(60)

    assert run.resumed_from is not None
    assert (run.resumed_from.step, run.resumed_from.lost_steps) == (25, 0)
    assert_replayed(run)
    assert same_bits(dict(kit.load_checkpoint(tmp_path)), run.params)
    assert [row.error for row in run.trace.saves][-1] == ""
    with local_cluster(0, 1) as alone:
        again = begin(alone, steps=40, checkpoint=tmp_path).wait(60)
    assert same_bits(again.params, run.params)


@pytest.mark.lasting("descriptor", "thread")
def test_hooks_travel_to_the_engines_with_tensors_by_name(
    cluster: kit.Cluster, tmp_path: Path
) -> None:
    model = Model()
    hooks: list[SessionRunHook] = [
        StopAtStepHook(last_step=4),
        LoggingTensorHook({"loss": model.loss, "b": model.b}, every_n_iter=2),
        CheckpointSaverHook(str(tmp_path), save_steps=2),
    ]

    run = kit.train(
        model.loss, model.data, steps=99, batch=8, cluster=cluster, hooks=hooks
    ).wait(60)

    assert run.step == 4
    lines = [message for message in run.messages if message.startswith("b = ")]
    assert len(lines) == 2
    assert all("loss = " in text for text in lines)
    assert kit.load_checkpoint(tmp_path).step == 4


@pytest.mark.lasting("descriptor", "thread")
def test_hook_that_fails_in_an_engine_is_named_and_the_engines_train_again(
    cluster: kit.Cluster,
) -> None:
    class Failing(SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            raise ValueError("boom")

    run = begin(cluster, hooks=[Failing()])

    with pytest.raises(
        kit.errors.StepFailed, match=r"Failing\.after_run\(\) raised Val"
    ):
        run.wait(60)
    assert_replayed(begin(cluster, steps=3).wait(60))
