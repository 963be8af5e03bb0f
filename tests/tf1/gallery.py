"""Which cases there are, and what the original was seen to do in each.

A topic is a file of `tests/tf1/cases`. Its cases are the functions called `case_...`,
which may take an empty folder or a session, those called `steps_...`, which give what
a session then runs one after the other, and the rows of its tables: in CASES they
are functions of nothing, in FACTS, RUNS and STATICS they give a tensor that is looked
at. A case returns plain data, or raises. What it calls `tf` is one of the modules that
have TensorFlow 1.x's names.

What came out under the original lies in `tests/tf1/recorded/<topic>.json`, a case a
line: `"name": outcome` if its last release 1.15 and the `compat.v1` of its successor
gave the same, else `"name": {"v1": outcome, "v2": outcome}`. `record.py` writes it.

This file, the cases and `outcome` run under Python 3.7 too, for the sake of 1.15.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import steps
from tests.tf1.look import Case, facts, makes_case, run, static

Plain = Any  # what JSON can hold

LOOKS: dict[str, Callable[[Any], Any]] = {
    "FACTS": facts,
    "RUNS": run,
    "STATICS": static,
}

HERE = Path(__file__).resolve().parent
VERSIONS = ("v1", "v2")


def topics() -> list[str]:
    return sorted(path.stem for path in (HERE / "cases").glob("*.py"))


def cases_of(topic: str) -> dict[str, Case]:
    """Return the cases of a topic by name, sorted."""
    module = importlib.import_module(f"tests.tf1.cases.{topic}")
    result = dict(getattr(module, "CASES", {}))
    for table, look in LOOKS.items():
        for name, make in getattr(module, table, {}).items():
            result[name] = looked_at(make, look)
    for name, member in vars(module).items():
        if name.startswith("case_"):
            result[name[len("case_") :]] = makes_case(member)()
        if name.startswith("steps_"):
            result[name[len("steps_") :]] = steps(member)
    return {name: result[name] for name in sorted(result)}


def looked_at(make: Case, look: Callable[[Any], Any]) -> Case:
    """Return a case: what a look at a tensor tells."""
    return lambda: look(make())


def recorded(topic: str) -> dict[str, dict[str, Plain]]:
    """Return what was recorded: version, then case, then outcome."""
    path = record_path(topic)
    return read(path.read_text("utf-8")) if path.exists() else read("{}")


def read(text: str) -> dict[str, dict[str, Plain]]:
    """Read what `written` gives."""
    book = {name: _by_version(outcome) for name, outcome in json.loads(text).items()}
    return {
        version: {name: book[name][version] for name in book if version in book[name]}
        for version in VERSIONS
    }


def _by_version(outcome: Plain) -> Plain:
    differs = outcome.keys() <= {*VERSIONS}
    return outcome if differs else dict.fromkeys(VERSIONS, outcome)


def written(book: dict[str, dict[str, Plain]]) -> str:
    """Write outcomes as JSON, a case a line; what the versions agree in stands once."""
    lines = []
    for name in sorted({name for version in VERSIONS for name in book[version]}):
        outcomes = {
            version: book[version][name]
            for version in VERSIONS
            if name in book[version]
        }
        texts = {json.dumps(value, sort_keys=True) for value in outcomes.values()}
        agree = len(outcomes) == len(VERSIONS) and len(texts) == 1
        outcome = outcomes[VERSIONS[0]] if agree else outcomes
        lines.append(f"{json.dumps(name)}: {json.dumps(outcome, sort_keys=True)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def record_path(topic: str) -> Path:
    return HERE / "recorded" / f"{topic}.json"
