"""The pages of the site: their programs run and print what stands below them."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.mark import ParameterSet

import kit
import widgets
from kit.magics.cluster_magics import ClusterMagics
from kit.magics.on_magics import OnMagics
from kit.magics.start_magics import StartMagics
from tests.documents import ROOT, is_as_shown, programs, run
from tests.server.ports import free_ports

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
ADDRESS = re.compile(r"\blocalhost:\d+")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def with_free_ports(program: str) -> str:
    """Return the program with ports that nobody uses in place of those it names."""
    named = sorted(set(ADDRESS.findall(program)))
    ports = free_ports(len(named))
    free = {old: f"localhost:{new}" for old, new in zip(named, ports, strict=True)}
    return ADDRESS.sub(lambda match: free[match[0]], program)


def skip_without(program: str) -> None:
    """Skip the program of a framework that is not installed; no extra has them."""
    for package in re.findall(r"^import (torch|jax)$", program, re.M):
        pytest.importorskip(package)


def shown_programs() -> list[ParameterSet]:
    return [
        pytest.param(*shown, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, shown in enumerate(programs(page.read_text("utf-8")))
    ]


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.timeout(200)
@pytest.mark.parametrize(("program", "output"), shown_programs())
def test_program_of_a_page_prints_what_stands_below_it(
    program: str, output: str, tmp_path: Path
) -> None:
    skip_without(program)

    printed = run(with_free_ports(program), tmp_path)

    assert is_as_shown(printed, output), f"shown:\n{output}\nprinted:\n{printed}"


def documented(module: str) -> set[str]:
    """The names of a module that the reference has, one directive for each."""
    found = set()
    for page in (DOCS / "api").glob("*.md"):
        current = ""
        for line in page.read_text("utf-8").splitlines():
            if match := re.match(r"\.\. (\w+):: ([\w.]+)(?:\(\))?$", line):
                kind, name = match.groups()
                current = name if kind == "currentmodule" else current
                whole = name if name.startswith(f"{module}.") else f"{current}.{name}"
                found.add(whole.removeprefix(f"{module}."))
    return found


@pytest.mark.parametrize("module", [kit, widgets], ids=lambda module: module.__name__)
def test_the_reference_has_every_public_name(module: ModuleType) -> None:
    assert set(module.__all__) <= documented(module.__name__)


def test_each_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    lists = re.findall(r"^```\{toctree\}\n(.*?)^```$", index, re.M | re.S)
    listed = {line for one in lists for line in one.split("\n") if line}

    own = {name_of(page) for page in PAGES} - {"index"}
    below = {name for name in own if name.startswith("api/") and name != "api/index"}
    assert own - below <= listed


def test_docstrings_become_what_their_examples_show() -> None:
    spec = spec_from_file_location("docstrings", DOCS / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)

    found = doctest.testmod(module)

    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize(
    ("magic", "title"),
    [
        (StartMagics.cluster, "%%cluster"),
        (ClusterMagics.cluster, "%cluster"),
        (OnMagics.on, "%%on"),
    ],
)
def test_the_page_of_magics_has_every_option(
    magic: Callable[..., object], title: str
) -> None:
    page = (DOCS / "api" / "magics.md").read_text("utf-8") + "## "
    (part,) = re.findall(rf"^## {title}\n(.*?)^## ", page, re.M | re.S)

    options = set(re.findall(r"(?<!\w)--?[a-z]+\b", magic.__doc__ or ""))
    assert options
    assert {option for option in options if option not in part} == set()
