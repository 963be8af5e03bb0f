"""The pages of the site: their programs run and print what stands below them."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.mark import ParameterSet

import kit
import widgets
from kit.magics.cluster_cell_magic import StartMagics
from kit.magics.cluster_line_magic import ClusterMagics
from kit.magics.on_magics import OnMagics
from tests.documents import ROOT, is_as_shown, programs, run
from tests.notebooks.kernel import keep, of_cells
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
    result = set()
    for page in (DOCS / "api").glob("*.md"):
        current = ""
        for line in page.read_text("utf-8").splitlines():
            if match := re.match(r"\.\. (\w+):: ([\w.]+)(?:\(\))?$", line):
                kind, name = match.groups()
                current = name if kind == "currentmodule" else current
                whole = name if name.startswith(f"{module}.") else f"{current}.{name}"
                result.add(whole.removeprefix(f"{module}."))
    return result


@pytest.mark.parametrize("module", [kit, widgets], ids=lambda module: module.__name__)
def test_the_reference_has_every_public_name(module: ModuleType) -> None:
    assert set(module.__all__) <= documented(module.__name__)


def test_each_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    lists = re.findall(r"^```\{toctree\}\n(.*?)^```$", index, re.M | re.S)
    listed = {line for item in lists for line in item.split("\n") if line}

    own = {name_of(page) for page in PAGES} - {"index"}
    below = {name for name in own if name.startswith("api/") and name != "api/index"}
    assert own - below <= listed


def test_the_glossary_explains_each_of_its_words() -> None:
    page = (DOCS / "glossary.md").read_text("utf-8")
    said = extension("tooltips").meanings(page)

    assert len(said) > 30
    assert [word for word, (_, meaning) in said.items() if len(meaning) < 20] == []
    assert list(said) == sorted(said)


def extension(name: str) -> ModuleType:
    """Load an extension of the site, which is in no package."""
    spec = spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_what_plays_on_the_site_is_made_and_stands_in_two_lessons() -> None:
    pytest.importorskip("jupyter_cache")
    playing, solutions = extension("playing"), extension("solutions")
    lessons = [
        solutions.read(path.read_text("utf-8"))
        for path in sorted((ROOT / "notebooks").glob("0*.ipynb"))
    ]
    shown = [cell.source for lesson in lessons for cell in lesson.cells]
    texts = [*shown, *(page.read_text("utf-8") for page in PAGES)]
    frame = re.compile(r'<iframe[^>]*src="(?:\.\./)?playing/(\w+)\.html"')

    result = [frame.findall(text) for text in texts]

    assert {name for names in result for name in names} == set(playing.PAGES)
    assert [names for names in result[: len(shown)] if names] == [["servers"], ["ring"]]


@pytest.mark.slow
def test_the_site_shows_what_a_lesson_has_shown_and_not_that_of_another_one(
    tmp_path: Path,
) -> None:
    caches = pytest.importorskip("jupyter_cache")
    from nbformat import from_dict

    solutions, cache = extension("solutions"), caches.get_cache(tmp_path / "cache")
    lessons, ran = tmp_path / "lessons", tmp_path / "ran"
    texts = {}
    for folder in lessons, ran:
        folder.mkdir()
    for name, now in (("same", ""), ("changed", "  # now")):
        lesson = of_cells(["# The goal", "print(1)", f"print('{name}')"])
        goal, *cells = lesson.cells
        goal.cell_type = "markdown"
        del goal["outputs"], goal["execution_count"]
        texts[name] = json.dumps(lesson)
        (lessons / f"{name}.ipynb").write_text(texts[name], "utf-8")
        cells[1].source += now
        for number, cell in enumerate(cells, 1):
            output = {"output_type": "stream", "name": "stdout", "text": f"{number}\n"}
            cell.outputs, cell.execution_count = [from_dict(output)], number  # type: ignore[no-untyped-call]
        keep(lesson, ran)

    solutions.keep_what_has_run(cache, lessons, ran)

    _, result = cache.merge_match_into_notebook(solutions.read(texts["same"]))
    assert [cell.outputs[0].text for cell in result.cells[1:]] == ["1\n", "2\n"]
    with pytest.raises(KeyError):
        cache.match_cache_notebook(solutions.read(texts["changed"]))


@pytest.mark.parametrize("name", ["docstrings", "tooltips"])
def test_an_extension_of_the_site_does_what_its_examples_show(name: str) -> None:
    module = extension(name)

    result = doctest.testmod(module)

    assert result.attempted
    assert not result.failed


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
