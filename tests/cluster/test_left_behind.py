"""Clusters of this user are found by their records; only abandoned ones are ended."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.cluster import runtime as runtime_module
from kit.cluster.processes import left_behind, reaper
from kit.cluster.processes.left_behind import Owner
from kit.cluster.processes.reaper import Process

GONE = Process(2, 1)  # there is a process 2, and it was not started then


@pytest.fixture(autouse=True)
def no_clusters_of_others(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in the temporary folders of this machine are not seen, and not ended."""
    monkeypatch.setattr(tempfile, "tempdir", str(runtime))
    monkeypatch.setattr(runtime_module, "SHORT_FOLDER", str(runtime))


@contextmanager
def sleeper() -> Iterator[Process]:
    child = subprocess.Popen(["sleep", "60"])
    try:
        result = reaper.find(child.pid)
        assert result is not None
        yield result
    finally:
        child.kill()
        child.wait()


def write(
    runtime: Path,
    kernel: Process,
    kept_by: Process | None = None,
    processes: tuple[Process, ...] = (),
    at_end: Sequence[Sequence[str]] = (),
) -> Path:
    folder = runtime / "psring-test"
    folder.mkdir(mode=0o700)
    plain = {
        "jobs": "ps=1, worker=2",
        "kernel": kernel,
        "reaper": kept_by,
        "processes": processes,
        "at_end": at_end,
    }
    (folder / "cluster.json").write_text(json.dumps(plain))
    return folder


def leftovers(runtime: Path) -> list[left_behind.LeftBehind]:
    return left_behind.find({"XDG_RUNTIME_DIR": str(runtime)})


def recorded(runtime: Path, *processes: Process) -> Path:
    folder = runtime / "psring-mine"
    folder.mkdir(mode=0o700)
    left_behind.record(folder, "ps=1, worker=2", os.getpid(), processes)
    return folder


def test_a_record_is_found_as_it_was_written_whatever_the_umask_was(
    runtime: Path,
) -> None:
    me = reaper.find(os.getpid())
    assert me is not None
    before = os.umask(0o002)
    try:
        folder = recorded(runtime, me)
    finally:
        os.umask(before)

    (item,) = leftovers(runtime)
    assert (item.folder, item.jobs, item.owner) == (
        folder,
        "ps=1, worker=2",
        Owner.HERE,
    )
    assert item.processes == frozenset([me])
    assert str(item) == "psring-mine: ps=1, worker=2, 1 process, of this notebook"
    message = json.loads((folder / "cluster.json").read_text())
    assert message["pids_of"] == str(Path("/proc/self/ns/pid").readlink())


def test_a_cluster_without_a_notebook_is_ended_with_its_folder_and_its_reaper(
    runtime: Path,
) -> None:
    for with_reaper in False, True:
        with sleeper() as kept_by, sleeper() as process:
            by = kept_by if with_reaper else GONE
            folder = write(runtime, GONE, by, (process,))

            (ended,) = left_behind.clean({"XDG_RUNTIME_DIR": str(runtime)})

            assert ended.folder == folder
            assert not process.is_running
            assert kept_by.is_running != with_reaper
            assert not folder.exists()


def test_a_cluster_of_a_living_notebook_is_not_touched(runtime: Path) -> None:
    with sleeper() as notebook, sleeper() as process:
        folder = write(runtime, notebook, None, (process,))

        assert left_behind.clean({"XDG_RUNTIME_DIR": str(runtime)}) == []

        assert process.is_running
        assert folder.exists()
        assert "of the process" in str(leftovers(runtime)[0])


def test_a_cluster_of_another_container_is_not_touched(runtime: Path) -> None:
    """Its processes are not seen from here, whether they run or not."""
    folder = write(runtime, GONE, GONE)
    reply = json.loads((folder / "cluster.json").read_text())
    (folder / "cluster.json").write_text(json.dumps(reply | {"pids_of": "pid:[1]"}))

    assert left_behind.clean({"XDG_RUNTIME_DIR": str(runtime)}) == []

    assert folder.exists()
    (item,) = leftovers(runtime)
    assert item.owner is Owner.ELSEWHERE
    assert str(item) == "psring-test: ps=1, worker=2, of another container"


def test_a_pid_that_was_given_to_another_process_is_not_touched(runtime: Path) -> None:
    with sleeper() as process:
        reused = Process(process.pid, process.started - 1)
        write(runtime, GONE, None, (reused,))

        left_behind.clean({"XDG_RUNTIME_DIR": str(runtime)})

        assert process.is_running


SOMEBODY = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def planted(runtime: Path, base: Path) -> tuple[Path, Path]:
    """A folder in `base` whose record has a command; and what the command makes."""
    file = base / "was-run"
    folder = write(runtime, GONE, at_end=[["touch", str(file)]])
    return folder.rename(base / folder.name), file


def test_a_record_that_nobody_has_tampered_with_has_its_command_run(
    runtime: Path,
) -> None:
    folder, file = planted(runtime, runtime)

    assert [item.folder for item in left_behind.clean()] == [folder]

    assert file.exists()


def a_link_to_the_folder(folder: Path, runtime: Path) -> None:
    (runtime / "psring-link").symlink_to(folder)


def a_link_to_the_record(folder: Path, runtime: Path) -> None:
    (runtime / "psring-test").mkdir(mode=0o700)
    (runtime / "psring-test" / "cluster.json").symlink_to(folder / "cluster.json")


def a_folder_that_others_may_write_to(folder: Path, runtime: Path) -> None:
    folder.chmod(0o777)
    folder.rename(runtime / folder.name)


def a_record_that_others_may_write_to(folder: Path, runtime: Path) -> None:
    (folder / "cluster.json").chmod(0o666)
    folder.rename(runtime / folder.name)


def a_folder_of_another_user(folder: Path, runtime: Path) -> None:
    os.chown(folder, SOMEBODY, 0)
    folder.rename(runtime / folder.name)


def a_record_of_another_user(folder: Path, runtime: Path) -> None:
    os.chown(folder / "cluster.json", SOMEBODY, 0)
    folder.rename(runtime / folder.name)


def a_fifo(folder: Path, runtime: Path) -> None:
    (folder / "cluster.json").unlink()
    os.mkfifo(folder / "cluster.json")
    folder.rename(runtime / folder.name)


@pytest.mark.parametrize(
    "trick",
    [
        a_link_to_the_folder,
        a_link_to_the_record,
        a_folder_that_others_may_write_to,
        a_record_that_others_may_write_to,
        pytest.param(a_folder_of_another_user, marks=as_root),
        pytest.param(a_record_of_another_user, marks=as_root),
        a_fifo,
    ],
)
def test_nothing_is_run_that_others_may_have_put_there(
    trick: Callable[[Path, Path], None], runtime: Path, tmp_path: Path
) -> None:
    folder, file = planted(runtime, tmp_path)
    trick(folder, runtime)

    assert left_behind.find() == []
    assert left_behind.clean() == []

    assert not file.exists()


def test_a_reaper_that_lives_is_named(runtime: Path) -> None:
    with sleeper() as kept_by:
        write(runtime, GONE, kept_by)

        (item,) = leftovers(runtime)

        assert item.owner is Owner.REAPER
        assert "kept by its reaper, which ends it when the lease" in str(item)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"jobs": 1}', '{"jobs": "", "kernel": [1], "reaper": null}'],
)
def test_a_damaged_record_is_passed_over(runtime: Path, text: str) -> None:
    folder = runtime / "psring-bad"
    folder.mkdir(mode=0o700)
    (folder / "cluster.json").write_text(text)

    assert [item for item in leftovers(runtime) if item.folder == folder] == []
