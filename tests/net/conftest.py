"""Network tests run where they can, and otherwise fail saying what is missing.

Root runs them as they are. Any other user gets each one in a process of its own, in a
user namespace, where it is root. With KIT_NO_NET=1 they are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.net.netlab import missing

ROOT = Path(__file__).parents[2]
NESTED_S = 55.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.get_closest_marker("net") is None:
        return None
    if os.environ.get("KIT_NO_NET") == "1":
        pytest.skip("KIT_NO_NET=1 asks to leave the network tests out")
    if os.geteuid() != 0:
        run_in_user_namespace(pyfuncitem.nodeid)
        return True
    if reason := missing():
        pytest.fail(
            f"the network tests cannot run: {reason}. KIT_NO_NET=1 leaves them out.",
            pytrace=False,
        )
    return None


def run_in_user_namespace(nodeid: str) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.fail("the network tests need root, or 'unshare' of util-linux.", False)
    pytest_again = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [unshare, "-Urnm", *pytest_again, nodeid],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=NESTED_S,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"in a user namespace:\n{done.stdout}{done.stderr}", pytrace=False)
