"""What is left of a cluster when its extension, its start or its kernel ends: nothing.

Where a kernel and its reaper are both killed something is, and the next one is told.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import psutil
import pytest

from kit.cluster.processes import left_behind, reaper
from kit.cluster.processes.left_behind import Owner
from kit.testing.task_process import until
from tests.magics.kernel import CELL_S, Kernel, kernel

pytestmark = [
    pytest.mark.engines,
    pytest.mark.slow,
    pytest.mark.timeout(150),
    pytest.mark.usefixtures("loop_of_the_client"),
]

NO_CLUSTER = "FailedPreconditionError: no cluster is running; start one with %%cluster"


def test_a_stopped_start_an_unloaded_extension_and_a_restart_leave_nothing(
    tmp_path: Path,
) -> None:
    with kernel(tmp_path) as result:
        result.run("%load_ext kit")
        the_stop_button_ends_a_start(result)
        assert list(tmp_path.glob("psring-*")) == []
        result.run("%%cluster --ps 0 --worker 1")

        reloaded = result.run("%reload_ext kit")
        assert reloaded.status == "ok"
        assert "2\n" in result.run("%%on worker\nprint(1 + 1)").printed
        assert "[stdout:0] 2" in str(result.run("%%px\nprint(1 + 1)").shown)

        assert result.run("%unload_ext kit").status == "ok"
        assert list(tmp_path.glob("psring-*")) == []
        gone = result.run("%%on worker\n1")
        assert "Cell magic `%%on` not found" in gone.errors
        assert "Cell magic `%%px` not found" in result.run("%%px\n1").errors

        result.run("%load_ext kit")
        result.run("%cluster --ps 0 --worker 1")
        assert len(list(tmp_path.glob("psring-*"))) == 1
        result.manager.restart_kernel()
        result.client.wait_for_ready(timeout=CELL_S)
        # A kernel that is restarted may be killed; then its reaper does the rest.
        until(lambda: list(tmp_path.glob("psring-*")) == [], 30)
        result.run("%load_ext kit")
        assert result.run("%cluster").printed.startswith("no cluster is running")


def the_stop_button_ends_a_start(notebook: Kernel) -> None:
    stop = threading.Timer(0.4, notebook.interrupt)
    stop.start()
    answer = notebook.run("%%cluster --ps 1 --worker 2\nprint('never')")
    stop.join()

    assert answer.status == "error"
    assert answer.traceback == (
        "KeyboardInterrupt: the start was interrupted, and what had begun is ended."
    )
    assert "Not started" in str(answer.shown)
    assert "never" not in answer.printed


def test_what_a_killed_notebook_leaves_is_found_and_ended(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with kernel(tmp_path) as result:
        result.run("%load_ext kit")
        result.run("%cluster --ps 0 --worker 1 --lease 60")
        (item,) = _below(tmp_path, left_behind.find(environment))
        assert item.reaper is not None
        # Both at once: a reaper alone ends what its notebook leaves.
        reaper.send(item.reaper, signal.SIGKILL)
        result.run("%cluster list")
        psutil.Process(item.kernel.pid).kill()
        assert reaper.wait_gone([item.kernel, item.reaper], 10) == set()
    assert item.owner is Owner.NOBODY
    assert item.n_running > 3

    with kernel(tmp_path) as result:
        result.run("%load_ext kit")
        listed = result.run("%cluster list")
        cleaned = result.run("%cluster clean")

    assert f"{item.folder.name}: ps=0, worker=1" in listed.printed
    assert "left behind by" in listed.printed
    assert item.folder.name in cleaned.printed
    assert item.n_running == 0
    assert not item.folder.exists()


def _below(
    folder: Path, result: list[left_behind.LeftBehind]
) -> list[left_behind.LeftBehind]:
    return [item for item in result if item.folder.parent == folder]


def test_after_a_kill_the_next_notebook_is_told_and_can_clean_up(
    tmp_path: Path,
) -> None:
    with kernel(tmp_path) as result:
        result.run("%load_ext kit")
        result.run("%cluster --ps 0 --worker 1 --lease 60")
        (folder,) = tmp_path.glob("psring-*")
        killed = reaper.find(result.manager.provisioner.pid)  # type: ignore[union-attr]
        assert killed is not None
        os.kill(killed.pid, signal.SIGKILL)
        result.manager.restart_kernel(now=True)
        result.client.wait_for_ready(timeout=CELL_S)
        result.run("%load_ext kit")

        reply = result.run("%%on worker\n1")
        listed = result.run("%cluster list")
        cleaned = result.run("%cluster clean")

    assert reply.traceback.startswith(NO_CLUSTER)
    assert "Left behind by notebooks that were killed:" in reply.traceback
    assert f"left behind by {killed.pid}; kept by its reaper" in listed.printed
    assert folder.name in cleaned.printed
    assert not folder.exists()
