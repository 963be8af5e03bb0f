from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import tracemalloc
from pathlib import Path

import pytest

import kit
from kit import machine
from kit.cluster.processes.log_bound import MOST_BYTES, LogBound
from kit.cluster.runtime import (
    choose_threads,
    engine_environment,
    launch_folder,
    make_folder,
    remove_folder,
    tail_of,
)
from kit.errors import InvalidArgumentError, PermissionDeniedError, StartFailed
from kit.server.directory import default_runtime_dir
from kit.settings import Settings
from kit.task import Task


def test_the_folder_is_private_short_and_in_the_runtime_folder_until_it_is_removed(
    tmp_path: Path,
) -> None:
    folder = make_folder({"XDG_RUNTIME_DIR": str(tmp_path)})

    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(folder.name) <= 16
    remove_folder(folder)
    remove_folder(folder)
    assert list(tmp_path.iterdir()) == []


SOMEBODY = 12345  # a user that is neither root nor the one who runs the tests
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def _is_in(folder: Path, base: Path) -> bool:
    try:
        return folder.is_relative_to(base)
    finally:
        if folder.is_dir():
            remove_folder(folder)


@as_root
@pytest.mark.parametrize(("owner", "mode"), [(SOMEBODY, 0o700), (0, 0o777), (0, 0o775)])
def test_no_folder_is_made_where_others_can_replace_it(
    owner: int, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`su` and `sudo -E` leave root with the user's variable."""
    base = tmp_path / "base"
    base.mkdir()
    base.chmod(mode)
    os.chown(base, owner, 0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))

    assert not _is_in(make_folder(), base)
    assert not default_runtime_dir(Settings()).is_relative_to(base)

    monkeypatch.setattr(tempfile, "tempdir", str(base))
    with pytest.raises(PermissionDeniedError, match="TMPDIR="):
        make_folder()


def test_without_a_usable_runtime_folder_a_shared_temporary_one_will_do_if_sticky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    for environment in {}, {"XDG_RUNTIME_DIR": str(tmp_path / "missing")}:
        assert make_folder(environment).parent == tmp_path


def test_the_folder_of_a_launch_is_used_and_closed_to_others(tmp_path: Path) -> None:
    made = tmp_path / "psring-1-nodea"
    made.mkdir()
    made.chmod(0o775)

    assert launch_folder(made) == made.resolve()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


@as_root
@pytest.mark.parametrize("trick", ["a link", "not ours", "a link in it", "a gift"])
def test_a_folder_that_others_have_prepared_for_a_launch_is_not_used(
    trick: str, tmp_path: Path
) -> None:
    made, other = tmp_path / "psring-1-nodea", tmp_path / "other"
    other.mkdir(mode=0o750)
    if trick == "a link":
        made.symlink_to(other)
    else:
        made.mkdir(mode=0o750)
    if trick == "not ours":
        os.chown(made, SOMEBODY, 0)
    if trick == "a link in it":
        (made / "logs").symlink_to(other)
    if trick == "a gift":
        (made / "ipython").mkdir()
        os.chown(made / "ipython", SOMEBODY, 0)

    assert not _is_in(launch_folder(made), tmp_path)

    assert stat.S_IMODE(other.stat().st_mode) == 0o750
    assert list(other.iterdir()) == []


@pytest.mark.parametrize(
    ("n_bytes", "socket"), [(90, ""), (40, kit.launchers.SSH.socket)]
)
def test_a_long_temporary_folder_is_passed_over_for_a_short_one(
    n_bytes: int, socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        long = Path(short, "x" * (n_bytes - len(short) - 1))
        long.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(long))

        folder = make_folder({}, [Task("worker", 0)], socket)

    try:
        assert folder.parent == Path("/tmp")
    finally:
        remove_folder(folder)


def test_the_folder_is_where_the_setting_says(tmp_path: Path) -> None:
    with kit.settings(runtime_dir=str(tmp_path / "mine")):
        folder = make_folder({"XDG_RUNTIME_DIR": str(tmp_path)})

    assert folder.parent == tmp_path / "mine"


def test_a_disk_without_room_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=512)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    with pytest.raises(StartFailed, match=f"no room in {tmp_path}: 512 bytes are free"):
        make_folder({"XDG_RUNTIME_DIR": str(tmp_path)})


def test_the_environment_limits_every_blas_and_keeps_ipython_at_home(
    tmp_path: Path,
) -> None:
    environment = engine_environment(tmp_path, threads=3)

    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
    assert [environment[name] for name in names] == ["3", "3", "3"]
    assert Path(environment["IPYTHONDIR"]).is_relative_to(tmp_path)


def test_engines_find_this_package_before_another_one_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import kit.cluster

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    home = str(Path(kit.cluster.__file__).parents[2])

    parts = engine_environment(tmp_path, 1)["PYTHONPATH"].split(os.pathsep)

    assert str(tmp_path) in parts
    assert home in parts or "site-packages" in home


def test_cores_are_shared_unless_asked_otherwise() -> None:
    cores = machine.cores()

    assert choose_threads(None, 1) == cores
    assert choose_threads(None, 10 * cores) == 1
    assert choose_threads(7, 4) == 7
    with pytest.raises(InvalidArgumentError, match="threads=0"):
        choose_threads(0, 4)


def write(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def said_left_out(path: Path) -> int:
    (text,) = re.findall(r"at least ([0-9,]+) bytes of this log", path.read_text())
    return int(text.replace(",", ""))


def test_a_log_that_grows_keeps_its_ends_and_says_what_is_left_out(
    tmp_path: Path,
) -> None:
    path, bound = tmp_path / "worker-0.log", LogBound(tmp_path)
    with path.open("ab", buffering=0) as task:  # as a task writes: it never opens again
        task.write(b"the beginning\n")
        for number in range(3):
            task.write(b"%d" % number * (2 * MOST_BYTES) + b"\n")
            bound.check()
            assert path.stat().st_size < MOST_BYTES / 4
        task.write(b"the end\n")

    text = path.read_text()
    assert text.startswith("the beginning\n0")
    assert text.endswith("2\nthe end\n")
    written = len(b"the beginning\nthe end\n") + 3 * (2 * MOST_BYTES + 1)
    kept = len(re.sub(r"\n\[psring: [^]]*\]\n", "", text))
    assert said_left_out(path) == written - kept


def test_a_log_of_usual_length_stays_as_it_is_and_other_things_too(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "theirs"
    write(outside, b"x" * (MOST_BYTES + 1))
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "link.log").symlink_to(outside)
    write(folder / "worker-0.log", b"y" * MOST_BYTES)

    LogBound(folder).check()
    LogBound(tmp_path / "missing").check()

    assert (folder / "worker-0.log").stat().st_size == MOST_BYTES
    assert outside.stat().st_size == MOST_BYTES + 1


def test_the_last_lines_of_a_file_take_no_more_memory_than_they_have(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    write(path, b"first\n" + b"x" * (64 << 20) + b"\nlast but one\n\nlast\n")

    tracemalloc.start()
    lines = tail_of(path, 12).splitlines()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert lines[-2:] == ["last but one", "last"]
    assert "characters are left out here" in lines[-3]
    assert most < 1 << 20
    assert tail_of(path, 1) == "last"
    assert tail_of(path, 0) == ""
