"""What `pyproject.toml` says of the project, and what it requires."""

from __future__ import annotations

import tomllib
from typing import Any

from packaging.requirements import Requirement

from tests.source import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
NAMES_IN_CONDA = {
    "dask": "dask-core",  # `dask` there is the bundle with pandas
    "isal": "python-isal",  # `isal` there is the C library
}


def requirements(*extras: str) -> list[Requirement]:
    optional = PROJECT["optional-dependencies"]
    groups = [PROJECT["dependencies"], *(optional[name] for name in extras)]
    result = [Requirement(line) for group in groups for line in group]
    return [req for req in result if req.name != PROJECT["name"]]
