"""The core stands by itself: each feature can be deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from importlib import import_module
from pathlib import Path

import pytest

import kit
from kit.errors import UnimplementedError
from kit.features import FEATURES, Feature, load
from tests.cases import for_each
from tests.source import FILES, ROOT, SHIPPED, Source

# What is not core either: what stands on it, and the window on everything.
AROUND = ("kit/__init__.py", "kit/testing/", "kit/jax/", "kit/torch/", "widgets/")


def feature_of(file: Source) -> str:
    result = [item.name for item in FEATURES if item.has(file.module)]
    return result[0] if result else ""


def imported_by_the_core(files: Collection[Source]) -> dict[str, set[str]]:
    """Return by feature the files of the core that import something of it."""
    result: dict[str, set[str]] = {}
    for file in files:
        if not file.path.startswith(SHIPPED) or file.path.startswith(AROUND):
            continue
        for name in file.imports if not feature_of(file) else ():
            for feature in FEATURES:
                if feature.has(name):
                    result.setdefault(feature.name, set()).add(file.path)
    return result


def test_no_file_of_the_core_imports_a_feature_not_for_types_either() -> None:
    assert imported_by_the_core(FILES) == {}


@for_each("head", ["", "def f():\n    ", "if TYPE_CHECKING:\n    "])
def test_an_import_of_a_feature_is_noticed(head: str) -> None:
    file = Source("kit/training/x.py", f"{head}from kit.recording.options import x")

    assert imported_by_the_core([file]) == {"recordings": {"kit/training/x.py"}}


def test_features_need_what_they_import() -> None:
    for file in FILES:
        own = [item for item in FEATURES if item.has(file.module)]
        for name in file.contents.needed if own else ():
            for other in FEATURES:
                if other is not own[0] and other.has(name):
                    assert other.name in own[0].needs, (file.path, name)


def files_of(feature: Feature) -> list[Path]:
    """The files and folders of a feature, tests too."""
    paths = [module.replace(".", "/") for module in feature.modules.split()]
    result = [
        f"{path}.py" if (ROOT / f"{path}.py").exists() else path for path in paths
    ]
    return [
        Path(item)
        for item in (*result, *(f"tests/{item}" for item in feature.tests.split()))
    ]


def test_the_files_of_each_feature_are_there_and_export_its_names() -> None:
    for feature in FEATURES:
        assert [item for item in files_of(feature) if not (ROOT / item).exists()] == []
        assert {*feature.needs} <= {item.name for item in FEATURES}
        for name in feature.exports.split():
            package, _, attribute = f"kit.{name}".rpartition(".")
            there = import_module(package)
            assert attribute in there.__all__
            public = getattr(there, attribute)
            assert feature.has(public.__module__)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kit.recording.recorder", None)

    with pytest.raises(UnimplementedError, match="has no recordings"):
        load("kit.recording.recorder:recorder_of")
    with pytest.raises(AttributeError, match="has no attribute 'TopQ'"):
        kit.__getattr__("TopQ")


# An editable install of the whole package would find what the copy lacks.
ALONE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ditable" not in repr(finder)]
"""


def without(features: Collection[Feature], folder: Path) -> Path:
    """Make a copy of the package without these, with the tests of its core."""
    needed = [
        text
        for text in FILES
        if text.path.startswith("tests/") and "/test_" not in text.path
    ]
    for name in (*SHIPPED, "tests/core"):  # compiled, too: that takes longer than all
        shutil.copytree(ROOT / name, folder / name)
    for path in ("pyproject.toml", *(item.path for item in needed)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    (folder / "sitecustomize.py").write_text(ALONE)
    for feature in features:
        for gone in files_of(feature):
            shutil.rmtree(folder / gone, ignore_errors=True)
            (folder / gone).unlink(missing_ok=True)
    return folder


SAYS = """
import kit, kit.testing
from kit.errors import UnimplementedError
assert kit.__file__.startswith({folder!r}), kit.__file__
for name in {names!r}:
    try:
        eval(name)
    except UnimplementedError as error:
        assert "this copy of psring has no" in str(error)
    else:
        raise AssertionError(name)
"""


def with_those_that_need_it(feature: Feature) -> list[Feature]:
    names, n_before = {feature.name}, 0
    while len(names) > n_before:
        n_before = len(names)
        names |= {item.name for item in FEATURES if names & {*item.needs}}
    return [item for item in FEATURES if item.name in names]


IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
EACH = [with_those_that_need_it(item) for item in FEATURES] if IS_NIGHTLY else []


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("gone", [FEATURES, *EACH], ids=lambda gone: gone[0].name)
def test_core_works_in_a_copy_without_features(
    gone: Collection[Feature], tmp_path: Path
) -> None:
    folder = without(gone, tmp_path)
    names = [f"kit.{name}" for text in gone for name in text.exports.split()]
    says = SAYS.format(folder=str(folder), names=names)
    core = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/core")

    for program in (("-c", says), core):
        ended = subprocess.run(
            [sys.executable, *program],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
