from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kit.cluster import Bootstrap, Cluster, ClusterState
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
    return own_runtime(tmp_path, monkeypatch)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[Process]:
    """Every process that any cluster of this test has recorded."""
    return recorded(monkeypatch)


@pytest.fixture
def gone(runtime: Path, seen: set[Process]) -> Callable[[], None]:
    """Check that nothing is left of what was recorded, and that something was."""
    return lambda: assert_gone(runtime, seen)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests of a file; at their end nothing of it is left."""
    with pytest.MonkeyPatch.context() as patch:
        folder = own_runtime(tmp_path_factory.mktemp("shared"), patch)
        expected = recorded(patch)
        with Cluster(ps=1, worker=3, link="100mbit") as cluster:
            yield cluster
        assert_gone(folder, expected)


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The shared cluster with all its tasks, whatever an earlier test has left."""
    for status in shared.status:
        if status.state is not ClusterState.READY:
            shared.restart(status.task.short)
    return shared


def own_runtime(parent: Path, patch: pytest.MonkeyPatch) -> Path:
    folder = parent / "run"
    folder.mkdir()
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def recorded(patch: pytest.MonkeyPatch) -> set[Process]:
    listed: set[Process] = set()
    update = ReaperHandle.update

    def remember(self: ReaperHandle, processes: Any) -> None:
        listed.update(processes)
        update(self, processes)

    patch.setattr(ReaperHandle, "update", remember)
    return listed


def assert_gone(runtime: Path, seen: set[Process]) -> None:
    assert seen, "no process was ever recorded, so this test shows nothing"
    assert [process for process in seen if process.is_running] == []
    assert list(runtime.iterdir()) == []
