from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kit import machine
from kit.cluster.runtime import (
    choose_threads,
    engine_environment,
    make_folder,
    remove_folder,
)
from kit.errors import InvalidArgumentError


def test_the_folder_is_private_short_and_in_the_runtime_folder(tmp_path: Path) -> None:
    folder = make_folder({"XDG_RUNTIME_DIR": str(tmp_path)})

    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(folder.name) <= 16


def test_without_a_usable_runtime_folder_it_is_a_temporary_one(tmp_path: Path) -> None:
    folder = make_folder({"XDG_RUNTIME_DIR": str(tmp_path / "missing")})

    try:
        assert folder.is_dir()
        assert folder.name.startswith("psring-")
    finally:
        remove_folder(folder)
    assert not folder.exists()


def test_removing_twice_is_fine(tmp_path: Path) -> None:
    folder = make_folder({"XDG_RUNTIME_DIR": str(tmp_path)})

    remove_folder(folder)
    remove_folder(folder)

    assert list(tmp_path.iterdir()) == []


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
