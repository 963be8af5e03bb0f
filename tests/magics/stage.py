"""A shell of IPython in this process, and a cluster without processes for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from kit.cluster.cells.cell_output import OnMessage
from kit.cluster.cells.cells import CellRun
from kit.cluster.cells.selection import make_tasks, select
from kit.errors import FailedPreconditionError
from kit.task import Task

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def make_shell() -> InteractiveShell:
    """Return a shell that leaves nothing: no history on disk, no loop that lasts."""
    config = Config()
    config.HistoryManager.enabled = False
    module = ModuleType("shell_of_the_test")
    shell = InteractiveShell(  # type: ignore[no-untyped-call]
        config=config, user_module=module, user_ns=vars(module)
    )
    shell.loop_runner = asyncio.run
    assert shell.Completer is not None
    shell.Completer.use_jedi = False  # it reads the sources of what was imported
    return shell


class FakeRun:
    """A training as the magics see it; what is requested holds after some looks."""

    def __init__(self, *, done: bool = False) -> None:
        self.step, self.done, self.state, self.refused = 7, done, "running", ""
        self.job = SimpleNamespace(steps=100)
        self.requested: list[str] = []
        self._looks = 0

    @property
    def trace(self) -> Any:
        return SimpleNamespace(epochs=[SimpleNamespace(first_step=4)])

    @property
    def topology(self) -> str:
        self._looks += 1
        return self.requested[-1] if self.requested and self._looks > 2 else "ps"

    @topology.setter
    def topology(self, name: str) -> None:
        self.requested.append(name)
        self._looks = 0


class Reply(Future[None]):
    """A reply that is there when it has been looked at `n_looks` times."""

    def __init__(self, n_looks: int) -> None:
        super().__init__()
        self.set_result(None)
        self.output: Future[None] = Future()
        self.output.set_result(None)
        self._n_looks = n_looks

    def done(self) -> bool:
        self._n_looks -= 1
        return self._n_looks < 0


class FakeCluster:
    """Tasks that say how many lines they were sent, and then answer."""

    n_looks = 0
    is_stopped = False

    def __init__(self, ps: int = 1, worker: int = 2) -> None:
        self.tasks = make_tasks({"ps": ps, "worker": worker})
        self.run: FakeRun | None = None
        self.codes: list[tuple[str, str]] = []
        self.restarted: list[Task] = []

    def begin_cell(self, where: Any, code: str) -> CellRun:
        return CellRun(select(where, self.tasks), code, self)

    @property
    def directory(self) -> NoReturn:
        raise FailedPreconditionError("these tasks have no servers")

    def begin_naming(self, task: Task) -> CellRun:
        return self.begin_cell(task, f"task = {task.short}")

    def execute(
        self, task: Task, code: str, on_message: OnMessage, about: Mapping[str, Any]
    ) -> Any:
        self.codes.append((task.short, code))
        content = {"name": "stdout", "text": f"ran {len(code.splitlines())} lines\n"}
        on_message({"header": {"msg_type": "stream"}, "content": content})
        return Reply(self.n_looks)

    def interrupt(self, tasks: Sequence[Task]) -> None:
        raise AssertionError("nothing is interrupted here")

    def reason_of_loss(self, task: Task) -> str:
        return ""

    def log(self, task: Task, n_lines: int) -> str:
        return f"{n_lines} lines" if task.job == "worker" else ""

    def log_path(self, task: Task) -> Path:
        return Path("logs") / f"{task.job}-{task.index}.log"

    def restart(self, task: Task) -> None:
        self.restarted.append(task)

    def stop(self) -> None:
        self.is_stopped = True


class Cells:
    """Runs cells in a shell, and returns what they show."""

    def __init__(
        self, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.shell, self._capsys = shell, capsys

    def shown(self, cell: str, *, fails: bool = False) -> str:
        """Run a cell that fails or does not, and return all that it prints."""
        self._capsys.readouterr()
        result = self.shell.run_cell(cell)  # type: ignore[no-untyped-call]
        out, err = self._capsys.readouterr()
        assert result.success is not fails, out + err
        return _COLOUR.sub("", out + err)

    def failing(self, cell: str) -> list[str]:
        """Run a cell that fails, and return the lines that it shows."""
        return self.shown(cell, fails=True).strip().splitlines()
