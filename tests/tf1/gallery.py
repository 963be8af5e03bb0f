"""Which cases there are, and what the original was seen to do in each.

A topic is a file of `tests/tf1/cases`. Its cases are the functions called `case_...`
and the entries of its dict CASES, if it has one; each takes the module of TensorFlow
1.x's names and returns plain data, or raises. What came out under the original lies in
`tests/tf1/recorded/<topic>.json`, for its last release 1.15 as "v1" and for the
`compat.v1` of its successor as "v2".

This file, the cases and `outcome` run under Python 3.7 too, for the sake of 1.15.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.7 cannot evaluate this
    Case = Callable[[Any], Any]

Plain = Any  # what JSON can hold

HERE = Path(__file__).resolve().parent
VERSIONS = ("v1", "v2")


def topics() -> list[str]:
    return sorted(path.stem for path in (HERE / "cases").glob("*.py"))


def cases_of(topic: str) -> dict[str, Case]:
    """Return the cases of a topic by name, sorted."""
    module = importlib.import_module(f"tests.tf1.cases.{topic}")
    found = dict(getattr(module, "CASES", {}))
    for name, member in vars(module).items():
        if name.startswith("case_"):
            found[name[len("case_") :]] = member
    return {name: found[name] for name in sorted(found)}


def recorded(topic: str) -> dict[str, dict[str, Plain]]:
    """Return what was recorded: version, then case, then outcome."""
    path = record_path(topic)
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return {version: found.get(version, {}) for version in VERSIONS}


def record_path(topic: str) -> Path:
    return HERE / "recorded" / f"{topic}.json"
