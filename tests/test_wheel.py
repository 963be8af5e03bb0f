"""A wheel that is installed outside the tree is whole: it imports, trains, and shows.

The environment is new and has nothing but the wheel and what that says it requires, in
the versions that the tests run with: links to their own, where pip would download them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.source import ROOT, files

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(400)]

IMPORT = """
import importlib, sys

for name in sys.argv[1:]:
    importlib.import_module(name)
print("cupy" in sys.modules)
"""

TRAIN = """
import time
import numpy as np
import kit

def step(params, batch):
    time.sleep(0.02)  # so that it is not over before it is told to switch
    (rows,) = batch
    error = params["w"] - rows.mean(0)
    return float(error @ error), {"w": 2 * error}

data = np.arange(64, dtype=np.float32).reshape(16, 4)
with kit.Cluster(ps=1, worker=2):
    run = kit.train(step, {"w": np.zeros(4, np.float32)}, data, steps=20, batch=8,
                    topology="ps", optimizer=kit.GradientDescent(0.1))
    run.switch("ring", at=10)
    run.wait()
print(run.step, all(row.agrees for row in run.traffic))
"""


class Installed:
    """The environment that the wheel was installed in."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._folder = folder
        venv.create(folder / "venv")
        self.cwd = folder / "elsewhere"
        self.cwd.mkdir()
        (self._packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        self.pip("install", "--quiet", "--no-deps", "--no-compile", str(wheel))
        self.add_requirements()

    def pip(self, *arguments: str) -> None:
        # Our pip: to give the environment one of its own takes four seconds.
        pip = [sys.executable, "-m", "pip", "--python", str(self._command("python"))]
        options = ["--disable-pip-version-check", *arguments]
        subprocess.run([*pip, *options], cwd=self.cwd, timeout=300, check=True)

    def add_requirements(self, *extras: str) -> None:
        """Add what the wheel requires, also with these extras; pip checks it."""
        (wheel,) = distributions(name="psring", path=[str(self._packages)])
        for needed in required(wheel, {"", *extras}):
            for name in {file.parts[0] for file in needed.files or ()}:
                link = self._packages / name
                if name not in ("..", "__pycache__") and not link.exists():
                    link.symlink_to(Path(str(needed.locate_file(name))))
        self.pip("check")

    def _command(self, name: str) -> Path:
        return self._folder / "venv" / "bin" / name

    def run(self, command: str, *arguments: str) -> str:
        done = self.attempt(command, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def attempt(
        self, command: str, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._command(command)), *arguments],
            cwd=self.cwd,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def required(wheel: Distribution, extras: set[str]) -> Iterator[Distribution]:
    """Yield what a wheel requires with these extras, and what that requires in turn."""
    seen = set()
    todo = [(wheel, extras)]
    for wanting, with_extras in todo:
        for requirement in map(Requirement, wanting.requires or ()):
            marker = requirement.marker
            if marker is None or any(
                marker.evaluate({"extra": e}) for e in with_extras
            ):
                wanted = (requirement.name, frozenset(requirement.extras))
                if wanted in seen:
                    continue
                seen.add(wanted)
                is_own = requirement.name == "psring"
                needed = wheel if is_own else distribution(requirement.name)
                todo.append((needed, {"", *requirement.extras}))
                if not is_own:
                    yield needed


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """An environment with the wheel of a clean clone, and without any extra."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in files():
        copy = folder / "clone" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    # What builds it is here, and pip looks whether that is what it asks for.
    build += ["--no-build-isolation", "--check-build-dependencies"]
    build += ["--wheel-dir", str(folder), str(folder / "clone")]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = folder.glob("psring-*.whl")
    yield Installed(folder, wheel)
    shutil.rmtree(folder)


def test_a_cluster_starts_and_trains_with_what_the_wheel_requires(
    installed: Installed,
) -> None:
    assert installed.run("python", "-c", TRAIN) == "20 True"


def test_the_demonstration_says_what_it_needs(installed: Installed) -> None:
    done = installed.attempt("psring", "demo")

    assert done.returncode == 2
    assert "pip install 'psring[demo]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_with_extras_all_modules_import_and_the_demonstration_runs_without_a_server(
    installed: Installed,
) -> None:
    installed.add_requirements("dask", "demo")

    assert installed.run("python", "-c", IMPORT, *modules_of_the_tree()) == "False"
    lacking = installed.attempt("python", "-c", "import kit.torch").stderr
    assert "ImportError: kit.torch needs PyTorch; run: pip install torch" in lacking
    options = ["--ps", "0", "--worker", "2", "--steps", "30", "--text-steps", "2"]
    assert "accuracy" in installed.run("psring", "demo", *options)
    assert (installed.cwd / "build" / "demo" / "report.html").exists()
    assert not (installed.cwd / "build" / "demo" / "trainer").exists()


NEEDING_MORE = {("kit", "jax"), ("kit", "torch")}  # what no extra has


def modules_of_the_tree() -> list[str]:
    paths = [path for top in ("kit", "widgets") for path in (ROOT / top).rglob("*.py")]
    parts = [path.relative_to(ROOT).with_suffix("").parts for path in paths]
    parts = [part for part in parts if part[:2] not in NEEDING_MORE]
    return [".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts]
