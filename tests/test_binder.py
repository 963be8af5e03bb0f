"""Binder accepts the repository, installs it, and opens its first notebook."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ENVIRONMENT = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text("utf-8"))
LINK = re.compile(r"https://mybinder\.org/v2/gh/[^\s)>`]+")


def python_of_binder() -> str:
    (result,) = [d for d in ENVIRONMENT["dependencies"] if str(d).startswith("python=")]
    return str(result).removeprefix("python=")


def test_python_is_pinned_to_a_version_that_the_tests_run_with() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    versions = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]

    assert python_of_binder() in versions


@pytest.mark.slow
def test_repo2docker_accepts_the_tree_and_reads_our_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)],
        cwd=tmp_path,  # where it would look for settings of its own
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert f"conda environment for python={python_of_binder()}\n" in done.stderr
    assert "COPY --chown=0:0 src/binder/environment.yml" in done.stdout
    assert '--file "binder/environment.yml"' in done.stdout
    assert "RUN ./binder/postBuild\n" in done.stdout


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A new virtual environment; pip and what conda installs is lent from here."""
    folder = tmp_path / "venv"
    venv.create(folder)
    pip = folder / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {folder}/bin/python -m pip "$@"\n')
    pip.chmod(0o755)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "lent.pth").write_text(sysconfig.get_path("purelib"))  # after its own
    path = os.pathsep.join([str(pip.parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": ""}


@pytest.mark.slow
@pytest.mark.timeout(200)  # pip fetches the build backend
def test_the_last_step_of_binder_makes_the_project_importable(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("kit", "widgets", "binder"):
        shutil.copytree(ROOT / name, home / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, home)

    def run(*command: str, folder: Path) -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run("./binder/postBuild", folder=home)

    result = run("python", "-c", "import kit; print(kit.__file__)", folder=tmp_path)
    assert result == str(home / "kit" / "__init__.py")


def test_the_link_of_the_readme_opens_the_first_notebook() -> None:
    links = LINK.findall((ROOT / "README.md").read_text("utf-8"))

    assert links
    for link in links:
        (opened,) = parse_qs(urlsplit(link).query)["urlpath"]
        assert opened == "lab/tree/notebooks/00_hello_cluster.ipynb"
        assert (ROOT / opened.removeprefix("lab/tree/")).is_file()
