"""Disks that are really full: a small one in memory, and a limit on a file's size.

    python -m benchmarks.checkpoint_full_disk limit
    unshare -Urm python -m benchmarks.checkpoint_full_disk tmpfs

Prints one line of JSON. It is a process of its own, because such limits hold for all of
a process. `outcome` starts it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.checkpoint_scene import Tally, problem_after_next, problem_of, save
from kit.errors import KitError

LIMIT_BYTES = 64 << 10
TOO_MANY_ROWS = 4000
KINDS = ("limit", "tmpfs")
_TIMEOUT_S = 60


def outcome(kind: str) -> dict[str, Any] | None:
    """Return the `Tally` of one kind, as plain data; None where it cannot be had.

    A disk in memory needs root or a user namespace.
    """
    command = [sys.executable, "-m", "benchmarks.checkpoint_full_disk", kind]
    if kind == "tmpfs":
        unshare = shutil.which("unshare")
        if unshare is None:
            return None
        command = [unshare, "-m" if os.geteuid() == 0 else "-Urm", *command]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode:
        return None if kind == "tmpfs" else {"tried": 0, "wrong": [done.stderr]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    kind = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="full-disk-") as folder:
        if kind == "tmpfs":
            size = f"size={LIMIT_BYTES}"
            mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder]
            subprocess.run(mount, check=True)
        try:
            print(json.dumps(filled(Path(folder) / "run", kind).to_plain()))
        finally:
            if kind == "tmpfs":
                subprocess.run(["umount", folder], check=True)


def filled(path: Path, kind: str) -> Tally:
    """Save a step that fits, one that does not, and one that fits again."""
    tally = Tally()
    save(path, 1)
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    for step in (2, 3):
        try:
            save(path, step, rows=TOO_MANY_ROWS)
        except KitError as exc:
            tally.count(type(exc).__name__)
        else:
            tally.check("too large", "it was saved")
        tally.check("the one before it", problem_of(path, 1, 1))
        left = [item.name for item in path.iterdir() if ".tmp-" in item.name]
        tally.check("leftovers", f"{left}" if left else None)
    tally.check("the next that fits", problem_after_next(path, 4))
    return tally


if __name__ == "__main__":
    main()
