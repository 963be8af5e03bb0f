"""The extension comes and goes without a trace; importing it does nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from IPython.core.extensions import ExtensionManager
from IPython.core.interactiveshell import InteractiveShell

import kit
from kit.magics.extension import advice
from tests.cases import for_each
from tests.magics.stage import FakeCluster, FakeRun


def contents(shell: InteractiveShell) -> dict[str, Any]:
    assert shell.Completer is not None
    return {
        "magics": {kind: dict(of) for kind, of in shell.magics_manager.magics.items()},
        "registry": dict(shell.magics_manager.registry),
        "transforms": list(shell.input_transformers_cleanup),
        "matchers": list(shell.Completer.custom_matchers),
    }


def test_the_magics_are_there_after_loading_once_or_twice_and_go_without_a_trace(
    bare_shell: InteractiveShell,
) -> None:
    before = contents(bare_shell)

    kit.load_ipython_extension(bare_shell)
    once = contents(bare_shell)
    kit.load_ipython_extension(bare_shell)
    twice = contents(bare_shell)
    kit.unload_ipython_extension(bare_shell)
    kit.unload_ipython_extension(bare_shell)

    assert once == twice
    for kind, names in {"cell": {"on"}, "line": {"topology"}}.items():
        new = once["magics"][kind].keys() - before["magics"][kind].keys()
        assert new == {"cluster", *names}
    assert contents(bare_shell) == before


def test_transforms_of_others_stay_when_ours_go(bare_shell: InteractiveShell) -> None:
    def others(lines: list[str]) -> list[str]:
        return lines

    kit.load_ipython_extension(bare_shell)
    bare_shell.input_transformers_cleanup.append(others)
    kit.unload_ipython_extension(bare_shell)

    assert bare_shell.input_transformers_cleanup.pop() is others


@for_each("is_over", [True, False])
def test_unloading_ends_the_cluster_that_was_started_unless_it_trains(
    bare_shell: InteractiveShell, capsys: pytest.CaptureFixture[str], is_over: bool
) -> None:
    kit.load_ipython_extension(bare_shell)
    cluster = FakeCluster()
    cluster.run = FakeRun(done=is_over)
    starter = bare_shell.magics_manager.registry["StartMagics"]
    starter.started = cluster

    kit.unload_ipython_extension(bare_shell)

    assert cluster.is_stopped is is_over
    said = capsys.readouterr().out
    assert ("end it with kit.current_cluster().stop()" in said) is not is_over


def test_reloading_ends_no_cluster(bare_shell: InteractiveShell) -> None:
    make: Any = ExtensionManager  # without types of its own
    manager = make(shell=bare_shell)
    manager.load_extension("kit")
    cluster = FakeCluster()
    cluster.run = FakeRun(done=True)
    bare_shell.magics_manager.registry["StartMagics"].started = cluster

    manager.reload_extension("kit")
    after_reload = cluster.is_stopped, "on" in bare_shell.magics_manager.magics["cell"]
    manager.unload_extension("kit")

    assert after_reload == (False, True)
    assert cluster.is_stopped


@pytest.mark.slow
def test_importing_kit_imports_nothing_that_takes_long() -> None:
    slow = {"IPython", "ipyparallel", "kit.magics", "numpy.ma", "cryptography", "dask"}
    code = f"import sys, kit; print(sorted({slow} & sys.modules.keys()))"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )

    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@for_each(
    ("environment", "modules", "missing", "says"),
    [
        ({}, set(), set(), ""),
        ({}, {"google.colab"}, set(), "output.enable_custom_widget_manager()"),
        ({"VSCODE_PID": "1"}, set(), set(), "jupyter.widgetScriptSources"),
        ({}, set(), {"jupyter_bokeh"}, "run: pip install jupyter_bokeh"),
    ],
)
def test_a_front_end_is_told_what_to_do_in_one_line_only_if_it_must(
    environment: dict[str, str], modules: set[str], missing: set[str], says: str
) -> None:
    result = advice(environment, modules, lambda name: name not in missing)

    assert says in result
    assert bool(result) == bool(says)
    assert "\n" not in result
