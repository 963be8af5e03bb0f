"""What a release is made from agrees with pyproject.toml, as far as it shows here."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import kit
from tests.requirements import NAMES_IN_CONDA, PROJECT, PYPROJECT, requirements
from tests.source import ROOT

WHEELS: dict[str, Any] = PYPROJECT["tool"]["cibuildwheel"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def pythons() -> list[str]:
    """The versions of Python that the tests run with."""
    result = read(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    return [str(item) for item in result["python"]]


def test_conda_recipe_says_what_the_project_says() -> None:
    recipe = read("conda/recipe.yaml")

    assert recipe["package"]["name"] == PROJECT["name"]
    assert recipe["context"]["version"] == PROJECT["version"]
    assert read("CITATION.cff")["version"] == PROJECT["version"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    wanted = {f"python {PROJECT['requires-python']}"}
    for req in requirements():
        wanted.add(f"{NAMES_IN_CONDA.get(req.name, req.name)} {req.specifier}")
    assert set(recipe["requirements"]["run"]) == wanted
    host = {item.replace(" ", "") for item in recipe["requirements"]["host"]}
    assert host - {"python", "pip"} == set(PYPROJECT["build-system"]["requires"])


@pytest.mark.slow
@pytest.mark.lasting("descriptor", "thread")  # of rattler, which is never closed
def test_a_conda_package_is_built_and_runs_where_it_is_installed(
    tmp_path: Path,
) -> None:
    # No channel is asked: this interpreter takes the place of both environments in
    # which the recipe builds, and of the package's requirements.
    builder, rattler = map(pytest.importorskip, ("rattler_build", "rattler"))
    recipe = read("conda/recipe.yaml")
    del recipe["requirements"]["build"], recipe["requirements"]["host"]
    del recipe["tests"]
    script = recipe["build"]["script"].replace("${{ PYTHON }}", sys.executable)
    recipe["build"]["script"] = f"{script} --prefix=$PREFIX"
    recipe["source"]["path"] = str(ROOT)
    file, installed = tmp_path / "recipe.yaml", tmp_path / "installed"
    file.write_text(yaml.safe_dump(recipe))

    (variant,) = builder.Stage0Recipe.from_file(file).render(builder.VariantConfig())
    variant.run_build(output_dir=tmp_path / "channel", channels=[])
    (package,) = (tmp_path / "channel").rglob("*.conda")
    record = asyncio.run(rattler.RepoDataRecord.from_package_archive(package))
    asyncio.run(
        rattler.install([record], installed, tmp_path / "cache", show_progress=False)
    )

    (library,) = installed.glob("lib/python*/site-packages")
    for test in read("conda/recipe.yaml")["tests"]:
        for name in test.get("python", {}).get("imports", []):
            program = f"import {name}; print({name}.__file__)"
            result = run_in(library, "-c", program)
            assert result.startswith(f"{library}/")
    assert "usage: psring" in run_in(library, f"{installed}/bin/psring", "--help")


def run_in(library: Path, *program: str) -> str:
    """Return what a program prints that finds its packages in `library` first."""
    environment = {**os.environ, "PYTHONPATH": str(library)}
    command = [sys.executable, *program]
    return subprocess.run(
        command,
        env=environment,
        cwd=library,
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    ).stdout


def test_the_conda_recipe_renders_for_each_python_that_is_tested() -> None:
    builder = pytest.importorskip("rattler_build")
    recipe = builder.Stage0Recipe.from_file(ROOT / "conda/recipe.yaml")
    variants = builder.VariantConfig.from_file(ROOT / "conda/variants.yaml")

    packages = [variant.variant["python"] for variant in recipe.render(variants)]

    assert packages == [f"{python}.*" for python in pythons()]


def test_a_release_has_packages_for_each_python_that_is_tested() -> None:
    wheels = [f"cp{python.replace('.', '')}-manylinux_*" for python in pythons()]

    assert WHEELS["build"] == wheels
    assert read("conda/variants.yaml")["python"] == [
        f"{python}.*" for python in pythons()
    ]


@pytest.mark.slow
def test_the_command_that_tests_a_wheel_passes_here(tmp_path: Path) -> None:
    command = WHEELS["test-command"].replace("python", sys.executable, 1)

    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=90)


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_each_action_is_a_commit_with_its_version_beside_it() -> None:
    used = [
        line.split("uses: ", 1)[1]
        for path in WORKFLOWS
        for line in path.read_text("utf-8").splitlines()
        if "uses: " in line
    ]

    assert len(used) >= 10
    form = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [item for item in used if not form.fullmatch(item)] == []


def test_each_tool_that_builds_a_release_has_one_version() -> None:
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    tools = re.findall(r"pipx run (\S+)", text) + PYPROJECT["build-system"]["requires"]

    assert len(tools) >= 4
    assert [tool for tool in tools if not re.fullmatch(r"\w+==[\d.]+", tool)] == []


def test_what_is_published_was_built_by_both_jobs() -> None:
    jobs = read(".github/workflows/release.yml")["jobs"]

    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"


def test_the_package_says_the_version_that_is_installed() -> None:
    assert kit.__version__ == version("psring")
