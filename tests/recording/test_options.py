"""Options of a training that its replay has, and those that it refuses by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import UnimplementedError
from tests.training.toy import BATCH, DATA, fit, initial, quick_cluster, same_bits

STEPS = 30


def train(folder: Path, **options: Any) -> kit.Run:
    with quick_cluster(1, 2) as cluster:
        run = kit.train(
            fit,
            initial(),
            DATA,
            steps=STEPS,
            batch=BATCH,
            record=kit.Recording(folder, state_every_s=0.02),
            cluster=cluster,
            **options,
        )
        run.switch("ring", at=STEPS // 2)
        run.wait(30)
        assert run.params  # fetched while the tasks are there
    return run


def test_local_steps_in_pieces_are_replayed_with_the_slots_of_their_worker(
    tmp_path: Path,
) -> None:
    momentum = kit.Momentum(0.7, 0.9, use_nesterov=True)
    how: dict[str, Any] = {"local_steps": 3, "accumulate": 2, "outer": momentum}
    run = train(tmp_path / "run", optimizer=kit.Adam(0.01), **how)

    whole = kit.replay(tmp_path / "run", step=fit, data=DATA)
    part = kit.replay(tmp_path / "run", STEPS - 1, step=fit, data=DATA)

    assert whole.mismatch is None
    assert same_bits(whole.params, run.params)
    assert part.mismatch is None


def test_compressed_training_can_be_loaded_and_not_replayed(tmp_path: Path) -> None:
    run = train(tmp_path / "run", compress="float16")

    assert kit.load_run(tmp_path / "run").metrics == run.metrics
    with pytest.raises(UnimplementedError, match="compress='float16' cannot be"):
        kit.replay(tmp_path / "run", step=fit, data=DATA)
