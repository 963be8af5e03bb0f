"""Tasks import what the notebook can import, and run the code that it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import FailedPreconditionError

pytestmark = [pytest.mark.engines, pytest.mark.slow]

STEP = """import numpy as np
def step(params, batch):
    return {0}, {{'w': np.ones(3)}}
"""
Write = Callable[[str, str], ModuleType]


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    with kit.Cluster(ps=1, worker=2) as running:
        yield running


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module of the user's to a folder of `sys.path`, and import it anew."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    def written(name: str, text: str) -> ModuleType:
        save(tmp_path / f"{name}.py", text)
        if name in sys.modules:
            return importlib.reload(sys.modules[name])
        return importlib.import_module(name)

    yield written
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def save(path: Path, text: str) -> None:
    """Write a file so that no cached bytecode of an earlier one is taken for it."""
    path.write_text(f"# {len(list(path.parent.iterdir()))}\n{text}")
    for old in path.parent.glob(f"__pycache__/{path.stem}.*"):
        old.unlink()
    importlib.invalidate_caches()


def train(cluster: kit.Cluster, step: Any) -> float:
    how: dict[str, Any] = {"steps": 2, "batch": 6, "topology": "ring"}
    data, params = np.zeros((20, 3)), {"w": np.zeros(3)}
    return kit.train(step, params, data, cluster=cluster, **how).wait(30).loss


def test_module_of_a_folder_that_was_appended_later_is_known_to_tasks(
    cluster: kit.Cluster, write: Write
) -> None:
    module = write("appended_later", f"X = 5\n{STEP.format(2.0)}")

    assert train(cluster, module.step) == 2.0
    assert cluster.call("ps:0", module.step, None, None)[0] == 2.0
    (out,) = cluster.on("worker:1", "import appended_later\nappended_later.X")
    assert out.result == "5"


def test_module_that_was_edited_and_reloaded_trains_with_its_new_code(
    cluster: kit.Cluster, write: Write
) -> None:
    first = train(cluster, write("edited", STEP.format(1.0)).step)

    second = train(cluster, write("edited", STEP.format(10.0)).step)

    assert (first, second) == (1.0, 10.0)


def test_constant_of_a_module_that_another_imports_from_is_brought_too(
    cluster: kit.Cluster, write: Write
) -> None:
    write("rates", "RATE = 1.0")
    user = "from rates import RATE\ndef loss():\n    return RATE\n"
    cluster.call("all", write("uses_rates", user).loss)

    write("rates", "RATE = 3.0")
    loss = write("uses_rates", user).loss

    assert cluster.call("all", loss) == [3.0, 3.0, 3.0]


def test_new_process_that_would_read_another_file_than_the_notebook_is_refused(
    write: Write, tmp_path: Path
) -> None:
    module = write("not_reloaded", STEP.format(1.0))
    with kit.Cluster(ps=1, worker=2) as own:
        assert train(own, module.step) == 1.0
        save(tmp_path / "not_reloaded.py", STEP.format(10.0))
        assert train(own, module.step) == 1.0  # both still have the old code
        own.restart("worker:1")

        with pytest.raises(FailedPreconditionError, match="'not_reloaded'") as caught:
            train(own, module.step)

        assert "importlib.reload(not_reloaded)" in str(caught.value)
        importlib.reload(module)
        assert train(own, module.step) == 10.0


def test_module_that_a_task_cannot_find_is_named_with_where_it_looked(
    cluster: kit.Cluster, write: Write, tmp_path: Path
) -> None:
    module = write("only_here", STEP.format(1.0))
    (tmp_path / "only_here.py").unlink()

    with pytest.raises(FailedPreconditionError, match="'only_here'") as caught:
        train(cluster, module.step)

    assert str(tmp_path) in str(caught.value)
    assert "register_pickle_by_value(only_here)" in str(caught.value)


def test_what_a_module_counts_is_kept_between_calls(
    cluster: kit.Cluster, write: Write
) -> None:
    text = "n = 0\ndef count():\n    global n\n    n += 1\n    return n\n"
    module = write("counting", text)

    counts = [cluster.call("worker:0", module.count) for _ in range(3)]

    assert counts == [1, 2, 3]
