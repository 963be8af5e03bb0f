"""Options of a training that its replay has, and those that it refuses by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import UnimplementedError
from kit.recording.recomputing import recomputation
from tests.recording.conftest import Recorded
from tests.recording.toy_training import begin
from tests.training.toy import DATA, fit, quick_cluster, same_bits

STEPS = 30


def switched(folder: Path, **options: Any) -> kit.Run:
    with quick_cluster(1, 2) as cluster:
        wanted = kit.Recording(folder, state_every_s=0.02)
        run = begin(cluster, wanted, steps=STEPS, **options)
        run.switch("ring", at=STEPS // 2)
        run.wait(30)
        assert run.params  # fetched while the tasks are there
    return run


def test_local_steps_in_pieces_are_replayed_with_the_slots_of_their_worker(
    tmp_path: Path,
) -> None:
    momentum = kit.Momentum(0.7, 0.9, use_nesterov=True)
    how: dict[str, Any] = {"local_steps": 3, "accumulate": 2, "outer": momentum}
    run = switched(tmp_path / "run", optimizer=kit.Adam(0.01), **how)

    whole = kit.replay(tmp_path / "run", step=fit, data=DATA)
    part = kit.replay(tmp_path / "run", STEPS - 1, step=fit, data=DATA)

    assert whole.mismatch is None
    assert same_bits(whole.params, run.params)
    assert part.mismatch is None


def test_option_that_a_replay_does_not_know_is_refused_by_name(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = switched(tmp_path / "run", accumulate=2)
    expected = recomputation.KNOWN - {"accumulate"}
    monkeypatch.setattr(recomputation, "KNOWN", expected)  # as if it were a later one

    assert kit.load_run(tmp_path / "run").metrics == run.metrics
    with pytest.raises(UnimplementedError, match="accumulate=2 cannot be"):
        kit.replay(tmp_path / "run", step=fit, data=DATA)
    assert kit.replay(recorded.folder, 3, step=fit).step == 3  # it has the default
