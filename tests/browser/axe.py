"""axe-core, which finds in a page what keys and screen readers cannot use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.lab import ROOT

VERSION = "4.10.3"
INSTALL_S = 60
SERIOUS = """async where => {
    const {passes, violations} = await axe.run(where);
    if (!passes.length) throw new Error('no rule found anything to look at');
    return violations
        .filter(one => ['serious', 'critical'].includes(one.impact))
        .flatMap(one => one.nodes.map(node => one.id + ': ' + node.html.slice(0, 200)));
}"""


def script() -> Path:
    """Return the script; npm puts it into the folder `build` once."""
    folder = ROOT / "build" / "axe"
    result = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not result.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("there is no npm, which installs axe-core")
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--ignore-scripts", "--no-audit", "--no-fund"]
        options += ["--prefix", str(folder), f"axe-core@{VERSION}"]
        try:
            subprocess.run(
                [npm, "install", *options],
                capture_output=True,
                check=True,
                timeout=INSTALL_S,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(
                f"npm could not install axe-core {VERSION}; is there a network?"
            )
    return result


def serious(page: Page, where: str) -> list[str]:
    """Return what is seriously wrong in a part of a page: the rule and the element."""
    page.evaluate(script().read_text("utf-8"))
    result: list[str] = page.evaluate(SERIOUS, where)
    return result
