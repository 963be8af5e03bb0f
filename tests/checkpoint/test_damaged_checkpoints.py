"""Faults of disks and processes: each is noticed, and the checkpoint before it serves.

The faults are those of `python -m benchmarks.checkpoints`, made fewer times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import checkpoint_faults as faults
from benchmarks.checkpoint_scene import Tally

FAULTS: dict[str, tuple[Callable[[], Tally], int]] = {
    "bits": (lambda: faults.flipped_bits(40, seed=2), 40),
    "bits under a prefix": (lambda: faults.flipped_bits_under_a_prefix(40, seed=2), 40),
    "lengths": (lambda: faults.truncated(20, seed=2), 20),
    "files missing and swapped": (faults.missing_and_swapped, 10),
    "calls that fail": (lambda: faults.refused_calls(every=3), 10),
}


@pytest.mark.parametrize("name", FAULTS)
def test_damage_is_noticed_and_nothing_is_loaded_in_part(name: str) -> None:
    make, least = FAULTS[name]

    tally = make()

    assert tally.tried >= least
    assert tally.wrong == []


@pytest.mark.slow
def test_every_crash_leaves_the_newest_announced_checkpoint() -> None:
    tally = faults.crash_images(seed=2, most=60)

    assert tally.tried >= 60
    assert tally.wrong == []


@pytest.mark.slow
def test_crash_images_show_a_disk_that_ignores_syncs() -> None:
    assert faults.crash_images(seed=2, is_synced=False, most=200).wrong


@pytest.mark.slow
def test_process_killed_while_it_saves_leaves_the_checkpoint_before() -> None:
    command = [sys.executable, "-m", "benchmarks.checkpoint_kills", "--kills", "12"]
    root = Path(__file__).parents[2]

    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=90)

    result = json.loads(done.stdout)
    assert result["tried"] >= 12
    assert result["wrong"] == []
