from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kit.cluster import Bootstrap
from kit.cluster.processes.processes import ReaperHandle
from kit.cluster.processes.reaper import Process


@pytest.fixture(scope="session")
def bootstrap() -> Bootstrap:
    """Engines that answer without a server; nested, so that it travels by value."""

    def start(config: dict[str, Any]) -> dict[str, Any]:
        import builtins
        import os

        vars(builtins)["kit_test"] = {"config": config, "spec": None}
        address = f"unix:{config['runtime_dir']}/{config['job']}-{config['index']}"
        return {"address": address, "pid": os.getpid(), "host": "here"}

    def connect(spec: Mapping[str, list[str]]) -> None:
        import builtins

        vars(builtins)["kit_test"]["spec"] = dict(spec)

    def stop() -> None:
        import builtins

        del vars(builtins)["kit_test"]

    return Bootstrap(start, connect, stop)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which clusters of this test make their own."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[Process]:
    """Every process that any cluster of this test has recorded."""
    known: set[Process] = set()
    update = ReaperHandle.update

    def remember(self: ReaperHandle, processes: Any) -> None:
        known.update(processes)
        update(self, processes)

    monkeypatch.setattr(ReaperHandle, "update", remember)
    return known


@pytest.fixture
def gone(runtime: Path, seen: set[Process]) -> Callable[[], None]:
    """Check that nothing is left of what was recorded, and that something was."""

    def check() -> None:
        assert seen, "no process was ever recorded, so this test shows nothing"
        assert [process for process in seen if process.is_running] == []
        assert list(runtime.iterdir()) == []

    return check
