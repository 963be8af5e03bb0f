"""Two recordings that the tests of a file look at, and copies of them to damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import kit
from tests.recording.toy_training import begin
from tests.training.toy import quick_cluster

STEPS = 120


@dataclass
class Recorded:
    """A training and the folder that it was recorded to."""

    run: kit.Run
    folder: Path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Give a training with three workers that went from servers to a ring."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    with quick_cluster(2, 3) as cluster:
        wanted = kit.Recording(folder, store_data=True, state_every_s=0.05)
        run = begin(cluster, wanted, optimizer=kit.Adam(0.01), steps=STEPS)
        run.switch("ring", link="1gbit", at=50)
        run.wait(30)
        assert run.params  # fetched while the tasks are there
    return Recorded(run, folder)


@pytest.fixture
def copied(recorded: Recorded, tmp_path: Path) -> Callable[[], Path]:
    """Return a function that gives a copy of the recording."""

    def copy() -> Path:
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(recorded.folder, folder)
        return folder

    return copy
