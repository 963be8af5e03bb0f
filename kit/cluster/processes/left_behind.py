"""The clusters of this user on this machine: those in use, and those left behind.

Each cluster's folder has a record of its processes, each as pid and start time, which
the notebook that owns the cluster keeps up to date. Nothing is ever looked up by name,
and only clusters with a dead notebook are ended here. A folder may be shared with a
container, where process ids mean other processes: clusters of another container are
listed, but never touched.

A record holds commands, and its folder's name is known: in a shared folder anybody may
put a link or a folder of that name. Only a folder that is this user's alone is read,
and nothing is read through a link.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from kit.cluster.processes import reaper
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import bases
from kit.errors import KitError
from kit.regular_file import open_regular
from kit.system import pid_namespace
from kit.wire.handshake.private import open_private_folder

_FILE = "cluster.json"
_MOST_BYTES = 1 << 22
_GRACE_S = 2.0


class Owner(StrEnum):
    """What takes care of a cluster."""

    HERE = "this process"
    OTHER = "another process"
    ELSEWHERE = "another container"
    REAPER = "its reaper, which ends it when the lease runs out"
    NOBODY = "nobody"


@dataclass(frozen=True)
class LeftBehind:
    """A cluster of this user. `jobs` is like `ps=1, worker=3`."""

    folder: Path
    jobs: str
    kernel: Process
    reaper: Process | None
    processes: frozenset[Process]
    at_end: tuple[tuple[str, ...], ...] = ()  # commands, such as a job's cancelling
    pids_of: str = ""  # the namespace that its process numbers are of

    @property
    def owner(self) -> Owner:
        """What takes care of it now."""
        # First: the pids of another namespace may be those of unrelated processes here.
        if self.pids_of not in ("", pid_namespace()):
            return Owner.ELSEWHERE
        if self.kernel == reaper.find(os.getpid()):
            return Owner.HERE
        if self.kernel.is_running:
            return Owner.OTHER
        is_kept = self.reaper is not None and self.reaper.is_running
        return Owner.REAPER if is_kept else Owner.NOBODY

    @property
    def n_running(self) -> int:
        """How many of its recorded processes are running now."""
        return sum(process.is_running for process in self.processes)

    def __str__(self) -> str:
        if self.owner is Owner.ELSEWHERE:
            return f"{self.folder.name}: {self.jobs}, of {self.owner}"
        plural = "es" if self.n_running != 1 else ""
        name = f"{self.folder.name}: {self.jobs}, {self.n_running} process{plural}"
        if self.owner is Owner.HERE:
            return f"{name}, of this notebook"
        if self.owner is Owner.OTHER:
            return f"{name}, of the process {self.kernel.pid}"
        return f"{name}, left behind by {self.kernel.pid}; kept by {self.owner}"


def record(
    folder: Path,
    jobs: str,
    kept_by: int,
    processes: Iterable[Process],
    at_end: Iterable[Sequence[str]] = (),
) -> None:
    """Write the record for `find`, whole or not at all; errors are ignored."""
    draft = folder / f"{_FILE}.new"
    with contextlib.suppress(OSError):
        plain = {
            "jobs": jobs,
            "kernel": reaper.find(os.getpid()),
            "reaper": reaper.find(kept_by),
            "processes": sorted(processes),
            "at_end": [*map(list, at_end)],
            "pids_of": pid_namespace(),
        }
        draft.touch(mode=0o600)  # whatever the umask: `find` reads no other
        draft.write_text(json.dumps(plain), encoding="utf-8")
        draft.replace(folder / _FILE)


def find(environment: Mapping[str, str] = os.environ) -> list[LeftBehind]:
    """Return all clusters of this user, by name.

    Damaged records, links and what belongs to others or is open to them are passed
    over.
    """
    folders = [f for base in {*bases(environment)} for f in Path(base).glob("psring-*")]
    records = [_read(folder) for folder in sorted(folders)]
    return [item for item in records if item is not None]


def _read(folder: Path) -> LeftBehind | None:
    try:
        plain = json.loads(_record_of(folder))
        kept_by = plain["reaper"]
        return LeftBehind(
            folder,
            str(plain["jobs"]),
            Process(*map(int, plain["kernel"])),
            None if kept_by is None else Process(*map(int, kept_by)),
            frozenset(Process(*map(int, row)) for row in plain["processes"]),
            tuple(tuple(map(str, command)) for command in plain.get("at_end", ())),
            str(plain.get("pids_of", "")),
        )
    except (OSError, KitError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _record_of(folder: Path) -> bytes:
    """Return the record in a folder that is this user's alone, itself of this user."""
    fd = open_private_folder(folder)
    try:
        # Below the folder that was checked, not by its name: that may be another now.
        path = f"/proc/self/fd/{fd}/{_FILE}"
        with open_regular(path, most_bytes=_MOST_BYTES) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise PermissionError(f"{folder}/{_FILE} may be written by others")
            return file.read(_MOST_BYTES)
    finally:
        os.close(fd)


def is_left_behind(cluster: LeftBehind) -> bool:
    """Whether its notebook is gone."""
    return cluster.owner in (Owner.REAPER, Owner.NOBODY)


def clean(environment: Mapping[str, str] = os.environ) -> list[LeftBehind]:
    """End all clusters with a dead notebook and remove their folders; blocks.

    Returns those clusters, with the processes that this user may not end, such as what
    a task has started by sudo. A cluster that its reaper keeps would end by itself; it
    ends sooner this way.
    """
    ended = []
    gone = [item for item in find(environment) if is_left_behind(item)]
    for cluster in gone:
        reaper.run_all(cluster.at_end)
        left = reaper.end(cluster.processes, _GRACE_S, folder=str(cluster.folder))
        if cluster.reaper is not None:  # last: if this fails halfway, it does the rest
            reaper.end([cluster.reaper], _GRACE_S)
        shutil.rmtree(cluster.folder, ignore_errors=True)
        ended.append(replace(cluster, processes=frozenset(left)))
    return ended
