"""What checkpoints survive, and what they cost beside a plain copy of the same bytes.

    python -m benchmarks.checkpoints [--quick] [--seed N] [--json FILE]

First faults: single bits, truncated, missing and swapped files, a disk that refuses or
is full, every image that a crash may leave, and processes killed while they save. Then
times: saving and loading, beside writing and reading the same bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import checkpoint_faults as faults
from benchmarks.checkpoint_full_disk import KINDS, outcome
from benchmarks.checkpoint_scene import Tally, is_equal
from benchmarks.results import Table, arguments, median, ratio, report, size_text
from kit.checkpoint import Folder

_TIMEOUT_S = 600


class Amount(NamedTuple):
    """How much of each fault is tried."""

    flips: int
    lengths: int
    kills: int
    sizes: tuple[int, ...]
    rounds: int


LONG = Amount(1000, 200, 300, (1 << 20, 16 << 20, 128 << 20), 9)
QUICK = Amount(160, 30, 20, (1 << 20, 16 << 20), 5)


def all_faults(amount: Amount, seed: int) -> dict[str, dict[str, Any] | None]:
    """Make all faults; returns what was tried and what went wrong, by name."""
    flips = amount.flips
    calls: dict[str, Callable[[], Tally]] = {
        "single bits": lambda: faults.flipped_bits(flips, seed),
        "single bits, under a prefix": lambda: faults.flipped_bits_under_a_prefix(
            flips, seed
        ),
        "truncated files": lambda: faults.truncated(amount.lengths, seed),
        "missing and swapped files": faults.missing_and_swapped,
        "calls that fail": faults.refused_calls,
        "crash images": lambda: faults.crash_images(seed),
    }
    result: dict[str, dict[str, Any] | None] = {
        name: call().to_plain() for name, call in calls.items()
    }
    result |= {f"full disk: {kind}": outcome(kind) for kind in KINDS}
    return result | {"killed while saving": killed(amount.kills, seed)}


def killed(kills: int, seed: int) -> dict[str, Any]:
    """Kill processes while they save; returns what came out, as plain data."""
    options = ["--kills", str(kills), "--seed", str(seed)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.checkpoint_kills", *options],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def times(n_bytes: int, rounds: int, seed: int) -> dict[str, list[float]]:
    """Return the seconds of each way to write and to read some bytes, in turns."""
    rng = np.random.default_rng(seed)
    values = {
        f"w{i}": rng.integers(0, 255, n_bytes // 8, np.uint8).view(np.float32)
        for i in range(8)
    }
    result: dict[str, list[float]] = {}
    with faults.a_folder(on_disk=True) as path:
        folder, plain = Folder(path, keep=2), path.with_name("plain")
        ways: dict[str, Callable[[int], Any]] = {
            "write": lambda _: _write_plainly(plain, values),
            "save": lambda step: folder.save(step, values),
            "read": lambda _: _read_plainly(plain, values),
            "load": lambda _: folder.load_newest()[1],
        }
        for step in range(rounds + 1):
            for name, way in ways.items():
                begin = time.perf_counter()
                loaded = way(step)
                took = time.perf_counter() - begin
                if step:  # the first turn warms up
                    result.setdefault(name, []).append(took)
            assert is_equal(loaded, values), "a load gave other values"
    return result


def _write_plainly(path: Path, values: dict[str, Any]) -> None:
    with path.open("wb", buffering=0) as file:
        for value in values.values():
            file.write(value.data)
        os.fsync(file.fileno())


def _read_plainly(path: Path, values: dict[str, Any]) -> None:
    with path.open("rb", buffering=0) as file:
        for value in values.values():
            file.readinto(np.empty_like(value).data)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    amount = QUICK if options.quick else LONG
    tried = all_faults(amount, options.seed)
    took = {size: times(size, amount.rounds, options.seed) for size in amount.sizes}
    figures = {"seed": options.seed, "faults": tried, "seconds": took}
    report(_table(tried, took), figures, options.json)
    sys.exit(1 if any(value and value["wrong"] for value in tried.values()) else 0)


def _table(tried: dict[str, Any], took: dict[int, dict[str, list[float]]]) -> Table:
    rows = [
        (name, "-", "cannot be had here")
        if row is None
        else (name, str(row["tried"]), str(len(row["wrong"])))
        for name, row in tried.items()
    ]
    for size, by_way in took.items():
        middle = {way: median(all_) for way, all_ in by_way.items()}
        for ours, theirs in (("save", "write"), ("load", "read")):
            rows.append(
                (
                    f"{ours} {size_text(size)}: ms, and {theirs} alone",
                    f"{middle[ours] * 1e3:.1f}",
                    f"{middle[theirs] * 1e3:.1f} "
                    f"({ratio(middle[ours], middle[theirs])})",
                )
            )
    return Table(
        "Checkpoints",
        ("Faults: how many were made, and how many not met as promised.",),
        ("what", "tried", "wrong"),
        tuple(rows),
    )


if __name__ == "__main__":
    main()
