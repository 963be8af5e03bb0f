"""Processes that are killed while they save, at random moments.

    python -m benchmarks.checkpoint_kills --kills 300 --seed 1

Prints one line of JSON. It is a process of its own, because it forks: a saver inherits
numpy and need not import it anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
from pathlib import Path

from benchmarks.checkpoint_faults import a_folder
from benchmarks.checkpoint_scene import Tally, problem_after_next, problem_of, save
from kit.checkpoint import Folder

ROWS = 2000  # 128 KB of values: about as long to write as to sync
LONGEST_S = 0.06


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(kills(arguments.kills, arguments.seed).to_plain()))


def kills(count: int, seed: int) -> Tally:
    """Kill a process that saves one step after the other, again and again."""
    tally, rng = Tally(), random.Random(seed)
    with a_folder(on_disk=True) as path:
        save(path, 1, rows=ROWS)
        for number in range(count):
            last = Folder(path).steps()[-1]
            announced = _killed(path, last + 1, rng.uniform(0, LONGEST_S))
            drafts = [item for item in path.iterdir() if ".tmp-" in item.name]
            tally.count("in the middle of a save" if drafts else "between two saves")
            tally.check(
                f"kill {number}",
                problem_of(
                    path,
                    max(last, announced),
                    announced + 1 if announced else last + 1,
                    rows=ROWS,
                ),
            )
        newest = Folder(path).steps()[-1]
        tally.check("the save after all", problem_after_next(path, newest + 1))
    return tally


def _killed(path: Path, first: int, after_s: float) -> int:
    """Let a process save from a step on; return the last step that it announced."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _save_for_ever(path, first, writer)
    os.close(writer)
    os.read(reader, 8)  # it has begun
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    announced = 0
    while data := os.read(reader, 8):
        announced = int.from_bytes(data, "little")
    os.close(reader)
    return announced


def _save_for_ever(path: Path, first: int, writer: int) -> None:
    try:
        os.write(writer, bytes(8))
        step = first
        while True:
            save(path, step, rows=ROWS)
            os.write(writer, step.to_bytes(8, "little"))
            step += 1
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
