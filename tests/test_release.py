"""What a release is made from agrees with pyproject.toml, as far as it shows here."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import kit
from tests.requirements import NAMES_IN_CONDA, PROJECT, requirements
from tests.source import ROOT

WHEELS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
    "cibuildwheel"
]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def pythons() -> list[str]:
    """The versions of Python that the tests run with."""
    result = read(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    return [str(item) for item in result["python"]]


def test_conda_recipe_has_the_name_the_version_and_the_licence_of_the_project() -> None:
    recipe = read("conda/recipe.yaml")

    assert recipe["package"]["name"] == PROJECT["name"]
    assert recipe["context"]["version"] == PROJECT["version"]
    assert read("CITATION.cff")["version"] == PROJECT["version"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_conda_recipe_requires_what_the_project_requires() -> None:
    result = read("conda/recipe.yaml")["requirements"]["run"]

    wanted = {f"python {PROJECT['requires-python']}"}
    for req in requirements():
        wanted.add(f"{NAMES_IN_CONDA.get(req.name, req.name)} {req.specifier}")
    assert set(result) == wanted


def test_conda_recipe_builds_with_what_the_project_builds_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    host = read("conda/recipe.yaml")["requirements"]["host"]
    assert {item.replace(" ", "") for item in host} - {"python", "pip"} == set(
        project["build-system"]["requires"]
    )


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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tools = re.findall(r"pipx run (\S+)", text) + project["build-system"]["requires"]

    assert len(tools) >= 4
    assert [tool for tool in tools if not re.fullmatch(r"\w+==[\d.]+", tool)] == []


def test_what_is_published_was_built_by_both_jobs() -> None:
    jobs = read(".github/workflows/release.yml")["jobs"]

    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"


def test_the_package_says_the_version_that_is_installed() -> None:
    assert kit.__version__ == version("psring")
