"""Limits of control groups, read from folders that the tests make."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from kit import machine
from kit.machine import Groups, MachineMemory
from tests.cases import for_each

MIB = 1 << 20
NO_LIMIT = str(2**63 - 4096)
MACHINE = MachineMemory(8000, 4000)


def made(folder: Path, own: str, groups: Mapping[str, Mapping[str, str]]) -> Groups:
    """Write the files of groups, by the path of each, and who one is a member of."""
    for path, files in groups.items():
        directory = folder / "tree" / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)
    (folder / "own").write_text(own)
    return Groups(folder / "tree", folder / "own")


def v1(limit: str, usage: int, cache: int = 0) -> dict[str, str]:
    return {
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.usage_in_bytes": f"{usage}\n",
        "memory.stat": f"total_rss 5\ntotal_inactive_file {cache}\n",
    }


def v2(limit: str, usage: int, cache: int = 0) -> dict[str, str]:
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{usage}\n",
        "memory.stat": f"anon 5\ninactive_file {cache}\n",
    }


def quota(each: str) -> dict[str, str]:
    return {"cpu.cfs_quota_us": f"{each}\n", "cpu.cfs_period_us": "100000\n"}


@pytest.fixture(autouse=True)
def large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 8,000 MiB, half of it free, and 64 cores."""
    sizes = type("Sizes", (), {"total": 8000 * MIB, "available": 4000 * MIB})
    monkeypatch.setattr(psutil, "virtual_memory", sizes)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))


@for_each(
    ("own", "groups", "memory"),
    [
        (  # of the second kind, without the cache of files
            "0::/\n",
            {".": v2(str(1000 * MIB), 600 * MIB, cache=100 * MIB)},
            MachineMemory(1000, 500, is_contained=True),
        ),
        (  # of the first kind
            "4:memory:/\n0::/\n",
            {"memory": v1(str(300 * MIB), 200 * MIB, cache=50 * MIB)},
            MachineMemory(300, 150, is_contained=True),
        ),
        ("0::/\n", {".": v2("max", 5)}, MACHINE),
        ("0::/\n", {".": v2(str(9000 * MIB), 5)}, MACHINE),
        ("0::/\n", {".": {}}, MACHINE),
        ("4:memory:/\n", {"memory": v1(NO_LIMIT, 5)}, MACHINE),
        (  # of a job of a batch system: that of a group further out
            "0::/slurm/job_7/step_0\n",
            {
                ".": {},
                "slurm": v2(str(7000 * MIB), 3900 * MIB),
                "slurm/job_7": v2(str(2000 * MIB), 500 * MIB),
                "slurm/job_7/step_0": v2("max", 10 * MIB),
            },
            MachineMemory(2000, 1500, is_contained=True),
        ),
        (  # a path of the machine outside leaves the group at the root
            "4:memory:/docker/abc\n",
            {"memory": v1(str(512 * MIB), 12 * MIB)},
            MachineMemory(512, 500, is_contained=True),
        ),
        (  # more is used than allowed
            "0::/\n",
            {".": v2(str(100 * MIB), 101 * MIB)},
            MachineMemory(100, 0, is_contained=True),
        ),
    ],
)
def test_the_memory_is_what_the_nearest_limit_leaves(
    own: str, groups: dict[str, dict[str, str]], memory: MachineMemory
) -> None:
    with TemporaryDirectory() as folder:
        result = machine.memory(made(Path(folder), own, groups))

    assert result == memory
    assert (result.scope == "this machine") is (memory == MACHINE)


@pytest.mark.parametrize(
    ("own", "path", "files", "cores"),
    [
        ("0::/\n", ".", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", ".", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", ".", {"cpu.max": "max 100000\n"}, 64),
        ("2:cpu,cpuacct:/a\n", "cpu/a", quota("390000"), 3),
        ("2:cpu,cpuacct:/a\n", "cpu/a", quota("-1"), 64),
    ],
)
def test_a_quota_says_how_many_cores_may_be_busy(
    tmp_path: Path, own: str, path: str, files: dict[str, str], cores: int
) -> None:
    assert machine.cores(made(tmp_path, own, {path: files})) == cores


def test_where_nothing_can_be_read_the_machine_is_the_limit(tmp_path: Path) -> None:
    groups = Groups(tmp_path / "none", tmp_path / "neither")

    assert machine.memory(groups) == MACHINE
    assert machine.cores(groups) == 64


def test_hardware_threads_of_one_core_are_one_physical_core(tmp_path: Path) -> None:
    groups = Groups(tmp_path / "nothing", tmp_path / "nothing")
    for number in range(64):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        first = number % 32
        (topology / "thread_siblings_list").write_text(f"{first},{first + 32}\n")

    assert machine.cores(groups) == 64
    assert machine.physical_cores(groups, tmp_path) == 32
    assert machine.physical_cores(groups, tmp_path / "nothing") == 64


def test_a_process_that_is_gone_uses_no_memory() -> None:
    used_mib = machine.used_mib(os.getpid())

    assert used_mib is not None
    assert 1 < used_mib <= psutil.Process().memory_info().rss / MIB
    assert machine.used_mib(2**22 + 1) is None


_RAISES = """
import resource
from kit import machine

kind = resource.RLIMIT_NOFILE
for soft, needed in ((100, None), (100, 200), (100, 400), (250, 200)):
    resource.setrlimit(kind, (soft, 300))
    print(machine.raise_descriptors(needed), resource.getrlimit(kind)[0])
"""


@pytest.mark.slow
def test_open_files_are_raised_to_what_is_needed_or_as_far_as_they_go() -> None:
    output = subprocess.check_output([sys.executable, "-c", _RAISES], text=True)

    assert output.splitlines() == ["300 300", "200 200", "300 300", "250 250"]


def test_a_refused_process_is_explained_by_the_limits_of_its_groups(
    tmp_path: Path,
) -> None:
    groups = made(
        tmp_path,
        "0::/a/b\n",
        {
            "a": {"pids.max": "200\n", "pids.current": "200\n"},
            "a/b": {"pids.max": "max\n", "pids.current": "7\n"},
        },
    )
    refused = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    words = machine.why_no_process(refused, groups)

    assert f"{os.uname().nodename} gave it no process: Resource temp" in words
    full = f"{tmp_path / 'tree/a'} may have 200 processes and threads, and has 200"
    assert full in words
    assert "tree/a/b" not in words
    assert Path("/proc/sys/kernel/threads-max").read_text().strip() in words


def test_a_process_without_memory_is_explained_by_the_memory(tmp_path: Path) -> None:
    groups = made(tmp_path, "0::/\n", {".": v2(str(1000 * MIB), 990 * MIB)})

    words = machine.why_no_process(OSError(errno.ENOMEM, "no memory"), groups)

    assert "(10 of 1000 MiB of this container are free)" in words
