"""Compiled parts are used where they were built from this source, and else left out."""

from __future__ import annotations

import shutil
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path

import pytest

from kit import native
from kit.exchange.execution import native_executor
from kit.memory_order import HAS_FENCE
from kit.native import library

HOPS, FORM = "kit.exchange.execution._hops", native_executor.FORM


def test_each_part_is_built_where_there_is_a_compiler() -> None:
    if not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("there is no C compiler here")
    are_built = library(HOPS, FORM), find_spec("kit.training.worker._gather"), HAS_FENCE
    assert all(are_built), "install the project once more: pip install -e ."


def test_what_is_of_another_source_was_never_built_or_is_no_library_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert library(HOPS, FORM + 1) is None
    assert library("kit.training._never_built", 1) is None

    (tmp_path / "broken.so").write_bytes(b"of another machine")
    spec = spec_from_file_location("_hops", tmp_path / "broken.so")
    monkeypatch.setattr(native, "find_spec", lambda name: spec)
    assert library(HOPS, FORM) is None
