"""Elsewhere than on Linux the import says in one sentence what to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.requirements import PROJECT
from tests.source import ROOT


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("platform", ["emscripten", "win32"])
def test_the_import_elsewhere_names_the_ways_to_linux(platform: str) -> None:
    done = python(f"import sys; sys.platform = {platform!r}; import kit")

    assert done.returncode == 1
    (said,) = re.findall(r"^ImportError: (.*)$", done.stderr, re.M)
    assert f"this is {platform}" in said
    assert all(way in said for way in ("devcontainer", "Binder", "WSL2"))


# The packages of others are imported as they are here, ours as on a Mac.
AS_ON_A_MAC = """
import importlib, pkgutil, sys, warnings
from tests.linux_only import NAMES

def import_all():
    names = ["kit", "widgets"]
    for package in ("kit", "widgets"):
        path = importlib.import_module(package).__path__
        names += [item.name for item in pkgutil.walk_packages(path, package + ".")]
    for name in names:
        try:
            importlib.import_module(name)
        except (ImportError, AttributeError, SystemExit):
            yield name

lacking = {*import_all()}
for name in [n for n in sys.modules if n.partition(".")[0] in ("kit", "widgets")]:
    del sys.modules[name]
for module, names in NAMES.items():
    for name in names.split():
        vars(importlib.import_module(module)).pop(name, None)
sys.platform = "darwin"
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert {*import_all()} - lacking == {"kit.system.linux"}, lacking

print(*[item.message for item in said if "Mac" in str(item.message)], sep="\\n")
import kit
from kit.errors import FailedPreconditionError
from kit.system.posix import Bell
from kit.testing import check_port
from kit.testing.group import local_group

assert kit.system.Bell is Bell
check_port(local_group)
try:
    kit.Cluster(worker=1).start()
except FailedPreconditionError as error:
    print(error)
"""


@pytest.mark.slow
def test_on_a_mac_all_is_imported_and_says_once_what_was_not_tried() -> None:
    done = python(AS_ON_A_MAC)

    assert done.returncode == 0, done.stderr
    warned, refused = done.stdout.splitlines()
    assert "not tested on a Mac yet" in warned
    assert "this is darwin" in refused
    assert "devcontainer" in refused


def test_the_devcontainer_prepares_what_make_knows() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8")
    make, *targets = json.loads(text)["postCreateCommand"].split()

    assert make == "make"
    assert targets
    extras = PROJECT["optional-dependencies"].keys()
    assert {target.removeprefix(".venv/ready-") for target in targets} <= extras
