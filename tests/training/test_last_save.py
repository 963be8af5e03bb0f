"""The last state of a training is saved, whatever was being written before."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.core.coordinator import TrainingCoordinator
from tests.training.saved import MANY, train


@pytest.mark.slow
def test_stopped_training_is_saved_though_news_of_the_save_before_came_late(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear, was_late = TrainingCoordinator._saved, list[int]()

    def late(coordinator: TrainingCoordinator, step: int, good: bool) -> None:
        """Keep the news of the second save back until the third has begun."""
        if coordinator.save_coordinator.status()["n_saved"] == 2 and not was_late:
            until(
                lambda: coordinator.save_coordinator.status()["saving"] is not None, 10
            )
            was_late.append(step)
            run.stop()
        hear(coordinator, step, good)

    monkeypatch.setattr(TrainingCoordinator, "_saved", late)
    run = train(cluster, tmp_path, MANY, every=1)
    run.wait(30)

    assert was_late
    assert kit.load_checkpoint(tmp_path).step == run.step
