"""Hooks of an elastic training: each of their moments comes once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.hooks import LoggingTensorHook, SessionRunArgs, SessionRunHook, StopAtStepHook
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from tests.elastic.scene import (
    ENDLESS,
    LEADER,
    OTHER,
    STEPS,
    assert_undisturbed,
    die_once,
    end,
    kill,
    train,
)

pytestmark = [pytest.mark.slow, pytest.mark.lasting("process", "descriptor")]
PROCESSES = {"ps": 0, "worker": 3}


class Book(SessionRunHook):
    """Writes its moments into a file, which outlives the process."""

    def __init__(self, path: Path, dies_after: int = -1) -> None:
        """Let its first process die when it is told of the step `dies_after`."""
        self._path, self._dies_after = str(path), dies_after

    def begin(self) -> None:
        self._write("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._write("created", session.run("global_step"))

    def before_run(self, run_context: Any) -> SessionRunArgs:
        self._write("before", run_context.session.run("global_step"))
        return SessionRunArgs("loss")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = run_context.session.run("global_step") - 1
        self._write("after", step, run_values.results)
        if step == self._dies_after:
            die_once(Path(self._path + ".dead"))

    def end(self, session: Any) -> None:
        self._write("end", session.run("global_step"))

    def _write(self, *what: Any) -> None:
        with Path(self._path).open("a") as file:
            file.write(" ".join(map(str, what)) + "\n")


def read(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def numbers(book: list[list[str]], what: str) -> list[int]:
    return [int(line[1]) for line in book if line[0] == what]


def test_each_moment_comes_once_when_another_process_is_lost(
    tmp_path: Path, cluster: ProcessCluster
) -> None:
    hooks = [Book(tmp_path / "book"), LoggingTensorHook(["loss"], every_n_iter=10)]
    run = train(cluster, victim=OTHER, hooks=hooks)
    kill(cluster, run, OTHER, 30)
    run.wait(30)
    assert len(run.losses) == 1

    book = read(tmp_path / "book")
    around = [[what, str(step)] for step in range(STEPS) for what in "ba"]
    assert [[line[0][0], line[1]] for line in book[2:-1]] == around
    ends = [["begin"], ["created", "0"], ["end", str(STEPS)]]
    assert [book[0], book[1], book[-1]] == ends
    assert len(run.messages) == STEPS // 10


@pytest.mark.parametrize("stops", [False, True])
def test_hooks_go_on_in_another_process_when_theirs_is_lost(
    tmp_path: Path, stops: bool, cluster: ProcessCluster
) -> None:
    hooks: list[SessionRunHook] = [Book(tmp_path / "book", dies_after=40)]
    if stops:
        hooks.append(StopAtStepHook(num_steps=100))
    run = train(cluster, hooks=hooks).wait(30)
    assert run.losses[0].lost == (LEADER.short,)
    assert run.step == (100 if stops else STEPS)

    book, n = read(tmp_path / "book"), (100 if stops else STEPS)
    assert numbers(book, "created") == [0, 0]
    assert numbers(book, "end") == [n]
    assert [line[0] for line in book].count("begin") == 2
    reply = numbers(book, "after")
    assert sorted(set(reply)) == list(range(n))
    assert len(reply) <= n + 1, "the step under way may be told again"
    assert_undisturbed(run, 3)


def test_lines_of_a_lost_process_stay(cluster: ProcessCluster) -> None:
    hook = LoggingTensorHook(["global_step"], every_n_iter=50)
    run = train(cluster, steps=ENDLESS, hooks=[hook])
    until(lambda: len(run.messages) >= 4)
    reply = run.messages
    kill(cluster, run, LEADER, 30)
    until(lambda: len(run.losses) == 1)
    assert run.losses[0].lost == (LEADER.short,)
    end(run)
    assert run.messages[: len(reply)] == reply
    assert len(set(run.messages)) == len(run.messages)
