"""Elsewhere than on Linux the import says in one sentence what to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_the_import_elsewhere_names_the_ways_to_linux(platform: str) -> None:
    code = f"import sys; sys.platform = {platform!r}; import kit"

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 1
    (said,) = re.findall(r"^ImportError: (.*)$", done.stderr, re.M)
    assert f"this is {platform}" in said
    assert all(way in said for way in ("devcontainer", "Binder", "WSL2"))


def test_the_devcontainer_prepares_what_make_knows() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8")
    make, *targets = json.loads(text)["postCreateCommand"].split()

    assert make == "make"
    assert targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {target.removeprefix(".venv/ready-") for target in targets} <= extras.keys()
