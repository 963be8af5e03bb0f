from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_core.utils import ensure_event_loop

import kit
from kit.cluster.processes import left_behind
from kit.magics import running
from tests.magics.stage import Cells, FakeCluster, make_shell


@pytest.fixture(scope="module")
def loop_of_the_client() -> Iterator[None]:
    """The event loop that jupyter_client's blocking calls keep for this thread."""
    loop = ensure_event_loop()
    yield
    loop.close()


@pytest.fixture(scope="module")
def bare_shell() -> InteractiveShell:
    return make_shell()


@pytest.fixture
def shell(
    bare_shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InteractiveShell]:
    """A shell with the magics in it, on a machine where nothing was left behind."""
    monkeypatch.setattr(left_behind, "find", list)
    kit.load_ipython_extension(bare_shell)
    yield bare_shell
    kit.unload_ipython_extension(bare_shell)


@pytest.fixture
def cells(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Cells:
    """What cells show in that shell."""
    return Cells(shell, capsys)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The current cluster, with no processes: ps:0, worker:0, worker:1."""
    fake = FakeCluster()
    monkeypatch.setattr(running, "find", lambda: fake)
    return fake
