"""The files around the code agree with each other and with what the README says."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.requirements import NAMES_IN_CONDA, PROJECT, PYPROJECT, requirements
from tests.source import FILES, ROOT, SHIPPED, files, within

BUILD: dict[str, Any] = PYPROJECT["build-system"]
# Extras that nobody gets from `make`: they need a GPU, or are the peers of a benchmark.
UNPINNED_EXTRAS = {"cupy", "bench", "parquet", "wandb"}
# What is called otherwise where it is imported.
MODULES = {"scikit-learn": "sklearn", "absl-py": "absl", "pillow": "PIL"}
FOREIGN_FOLDERS = ("/" + "work/", "/" + "root/", "/" + "home/", "/" + "Users/")


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def pins() -> dict[str, str]:
    lines = [line for line in text("constraints.txt").splitlines() if line[:1] != "#"]
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(req.name): str(req.specifier) for req in parsed}


def conda_packages() -> dict[str, str]:
    entries = yaml.safe_load(text("environment.yml"))["dependencies"]
    result = [re.fullmatch(r"([\w-]+)(.*)", entry) for entry in entries]
    return {match[1]: match[2] for match in result if match}


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))


def test_conda_environment_has_what_the_project_needs_and_leaves_that_to_pip() -> None:
    wanted = {
        NAMES_IN_CONDA.get(req.name, req.name): str(req.specifier)
        for req in requirements("lab", "demo")
    }

    assert yaml.safe_load(text("environment.yml"))["name"] == "python"
    assert wanted.items() <= conda_packages().items()
    assert conda_packages().keys() == wanted.keys() | {"python", "pip", "setuptools"}


def test_binder_gets_the_same_environment_and_installs_the_project() -> None:
    script = ROOT / "binder" / "postBuild"

    assert text("environment.yml") == text("binder/environment.yml")
    assert script.stat().st_mode & 0o111
    assert "pip install --no-deps --no-build-isolation -e ." in script.read_text()
    built_with, _ = BUILD["requires"]  # and numpy, as the project
    assert (
        built_with.replace("==", "=")
        in yaml.safe_load(text("environment.yml"))["dependencies"]
    )


def test_readme_names_both_ways_to_install() -> None:
    readme = text("README.md")

    assert "conda env create -f environment.yml" in readme
    assert "pip install -e '.[demo]'" in readme


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_each_make_target_that_a_document_names_exists(name: str) -> None:
    code = re.findall(r"`([^`]+)`|^```\w*\n(.*?)^```", text(name), re.M | re.S)
    joined = "\n".join(part for pair in code for part in pair)
    named = set(re.findall(r"(?:^|[;&] *)make ([a-z-]+)", joined, re.M))

    assert named
    assert named <= targets()


def test_each_change_since_the_newest_version_is_of_a_kind_that_towncrier_knows() -> (
    None
):
    settings = PYPROJECT["tool"]["towncrier"]
    kinds = {kind["directory"] for kind in settings["type"]}

    for path in (ROOT / settings["directory"]).iterdir():
        if path.name not in settings["ignore"]:
            assert path.suffixes[-1] == ".md", path
            assert path.suffixes[-2].removeprefix(".") in kinds, path
    assert "<!-- towncrier release notes start -->" in text(settings["filename"])


def test_version_is_written_in_one_place() -> None:
    assigns = re.compile(r"^(__)?version(__)?\s*(:\s*\w+\s*)?=\s*[\"']\d", re.M)
    places = [
        path.relative_to(ROOT).as_posix()
        for path in files()
        if path.suffix in {".py", ".toml", ".cfg"} and assigns.search(path.read_text())
    ]

    assert places == ["pyproject.toml"]


def test_each_dependency_is_pinned_to_a_version_that_it_allows() -> None:
    extras = PROJECT["optional-dependencies"].keys() - UNPINNED_EXTRAS
    pinned = pins()

    for req in requirements(*extras):
        pin = pinned[canonicalize_name(req.name)]
        assert re.fullmatch(r"==[\w.]+", pin), req
        assert req.specifier.contains(pin.removeprefix("==")), req


def locked(extra: str) -> dict[str, str]:
    """What `make` installs with an extra: the lines of each package, by its name."""
    command = [sys.executable, "-I", "-S", str(ROOT / ".ci/locked.py"), extra]
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    blocks = re.split(r"^(?=\w)", out, flags=re.MULTILINE)[1:]
    return {canonicalize_name(block.partition("==")[0]): block for block in blocks}


def installed_with(extra: str) -> set[str]:
    """What the project needs with an extra, as the packages that lie here say."""
    waiting = [(req.name, "") for req in extended(extra)]
    waiting += [(req.name, more) for req in extended(extra) for more in req.extras]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, chosen = waiting.pop()
        if (canonicalize_name(name), chosen) in seen:
            continue
        seen.add((canonicalize_name(name), chosen))
        for line in importlib.metadata.requires(name) or ():
            req = Requirement(line)
            if req.marker is None or req.marker.evaluate({"extra": chosen}):
                waiting += [(req.name, more) for more in ("", *req.extras)]
    return {name for name, _ in seen}


def extended(extra: str) -> list[Requirement]:
    """The requirements with an extra, and with those that it includes."""
    result = [Requirement(line) for line in PROJECT["dependencies"]]
    waiting = [extra]
    while waiting:
        for line in PROJECT["optional-dependencies"][waiting.pop()]:
            req = Requirement(line)
            if req.name == PROJECT["name"]:
                waiting += req.extras
            else:
                result.append(req)
    return result


@pytest.mark.parametrize("extra", ["demo", "lab", "dev", "docs"])
def test_all_that_an_extra_needs_is_locked_by_hashes_at_its_pin(extra: str) -> None:
    result, pinned = locked(extra), pins()
    try:
        needed = installed_with(extra)
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name}, which {extra} needs, is not installed")

    assert needed <= result.keys()
    for name, lines in result.items():
        (version,) = re.findall(r"^[\w.-]+(==[\w.]+)", lines)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", lines), name
        if name in pinned:  # others are for other systems, or build the project
            assert version == pinned[name]


def test_no_extra_gets_what_only_another_one_needs() -> None:
    assert "jupyterlab" in locked("lab")
    assert "jupyterlab" not in locked("demo")
    assert (
        locked("test").keys()
        < locked("dev,docs").keys()
        <= locked("lab,dev,docs").keys()
    )


def test_the_project_is_built_with_what_is_locked() -> None:
    for tool in BUILD["requires"]:
        assert locked("demo")[tool.partition("==")[0]].startswith(f"{tool} ")


def importers(name: str) -> set[str]:
    """The files of the packages that import a distribution."""
    module = MODULES.get(name, name)
    shipped = [file for file in FILES if file.path.startswith(SHIPPED)]
    return {
        file.path
        for file in shipped
        if any(within(imported, module) for imported in file.imports)
    }


@pytest.mark.slow
def test_each_required_package_is_imported_that_of_the_demonstration_by_it_alone() -> (
    None
):
    names = {req.name for req in requirements()}
    assert not {name for name in names if not importers(name)}

    for name in {req.name for req in requirements("demo")} - names:
        files_with_it = importers(name)
        assert files_with_it
        assert all(path.startswith("kit/demo/") for path in files_with_it), name


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    result = [
        f"{path.relative_to(ROOT)}: {folder}"
        for path in files()
        for folder in FOREIGN_FOLDERS
        if folder.encode() in path.read_bytes()
    ]

    assert not result


def test_notebooks_are_stored_without_output_and_hide_none_of_our_packages() -> None:
    hiding = re.compile(r"\bas (widgets|kit)\b|^import widgets\b", re.M)
    for path in files():
        if path.suffix == ".ipynb":
            for cell in json.loads(path.read_text("utf-8"))["cells"]:
                assert not cell.get("outputs"), path
                assert not hiding.search("".join(cell["source"])), path


def spelt_out(path: str) -> Iterator[str]:
    """Yield the paths that one with braces stands for."""
    if result := re.search(r"{([^}]*)}", path):
        for item in result[1].split(","):
            yield from spelt_out(path[: result.start()] + item + path[result.end() :])
    else:
        yield path


NOT_OURS = {"Client", "KeyboardInterrupt", "Merge"}  # dask's, Python's, a graph's op
DESIGN = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/design/*.md"))


@pytest.mark.parametrize(
    "page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", *DESIGN]
)
def test_paths_that_a_page_names_are_there(page: str) -> None:
    # What `make docs` builds is not there before; a space in a path is a mistake.
    one_path = r"`((?:kit|widgets|tests|benchmarks|docs(?!/_build))/[^`]*)`"
    named = re.findall(one_path, text(page))

    assert [
        path
        for item in named
        for path in spelt_out(item)
        if not any(ROOT.glob(path.rstrip("/")))
    ] == []


def test_classes_and_members_that_a_design_page_names_are_there() -> None:
    sources = [file.text for file in FILES if file.path.startswith(SHIPPED)]
    defining: dict[str, str] = {}  # a class, and all of the files that define one
    for source in sources:
        for name in re.findall(r"^class (\w+)", source, re.M):
            defining[name] = defining.get(name, "") + source
    one_name = r"`([A-Z]\w*[a-z]\w*)(?:\.(\w+))?(?:\([^`]*\))?`"
    pages = ["ARCHITECTURE.md", *DESIGN]
    named = {name for page in pages for name in re.findall(one_name, text(page))}

    assert len(named) > 50
    assert [
        (name, member)
        for name, member in sorted(named)
        if name not in NOT_OURS
        and not re.search(rf"\b{member or name}\b", defining.get(name, ""))
    ] == []
