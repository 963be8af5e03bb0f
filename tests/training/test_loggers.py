"""Loggers: what a training hands on to other tools, where it was begun."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kit.errors import (
    NotFoundError,
    StepFailed,
    UnimplementedError,
)
from kit.hooks import LoggerHook, OptunaHook, TensorBoardHook, ValidationHook, WandbHook
from kit.testing.cluster import LocalCluster
from tests.training.hook_scene import begin
from tests.training.toy import fit

pytestmark = pytest.mark.slow
HELD_OUT = np.eye(3, dtype=np.float32), np.ones(3)


class Noting(LoggerHook):
    """Writes down what it hears, and in which thread."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.opened: dict[str, Any] = {}
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.closed: list[str] = []
        self.threads: set[str] = set()

    def open(self, name: str, hyperparameters: Mapping[str, Any]) -> None:
        self.opened = {"name": name, **hyperparameters}

    def log(self, step: int, measures: Mapping[str, float]) -> None:
        self.threads.add(threading.current_thread().name)
        self.rows.append((step, dict(measures)))

    def close(self, state: str, statement: str) -> None:
        self.closed += [state, statement]

    def column(self, name: str) -> dict[int, float]:
        return {step: row[name] for step, row in self.rows if name in row}


def test_a_logger_has_the_loss_of_all_workers_and_every_measure_when_the_run_is_over(
    cluster: LocalCluster,
) -> None:
    noting = Noting(hyperparameters={"width": 3})
    third, held_out = Noting(every=3), ValidationHook(fit, HELD_OUT, every=4)

    run = begin(cluster, noting, third, held_out, steps=8, seed=5).wait(30)

    frame = run.frame()
    assert noting.column("loss") == frame["loss"].to_dict()
    expected = frame["validation_loss"].dropna().to_dict()
    assert noting.column("validation_loss") == expected
    assert [*expected] == [3, 7]
    assert [*third.column("loss")] == [2, 5, 7]  # each third, and the last
    assert third.column("validation_loss") == expected
    moved = sum(int(row["bytes"]) for row in run.trace.totals)
    assert noting.column("bytes")[7] <= moved
    assert noting.column("examples")[7] == frame["examples"].sum()
    assert noting.opened["name"] == run.job.run[:8]
    assert noting.opened["seed"] == 5
    assert noting.opened["width"] == 3
    assert noting.opened["optimizer"] == "gradient_descent"
    assert noting.closed == ["done", run.statement()]


class Failing(Noting):
    def log(self, step: int, measures: Mapping[str, float]) -> None:
        raise OSError("no route to host")


def test_a_logger_that_fails_ends_itself_alone(cluster: LocalCluster) -> None:
    other = Noting()
    run = begin(cluster, Failing(), other)

    with pytest.warns(UserWarning, match=r"Failing\.log raised OSError: no route"):
        run.wait(30)

    assert run.step == 4
    assert [*other.column("loss")] == [0, 1, 2, 3]


def test_a_logger_of_a_training_that_fails_has_the_steps_before(
    cluster: LocalCluster,
) -> None:
    def breaking(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", 0) + 1
        if state["n"] == 3:
            raise ValueError("enough")
        return fit(params, batch)

    noting = Noting()

    with pytest.raises(StepFailed, match="enough"):
        begin(cluster, noting, step=breaking).wait(30)

    assert [*noting.column("loss")] == [0, 1]
    assert noting.closed[0] == "failed"


class Shut(Noting):
    def open(self, name: str, hyperparameters: Mapping[str, Any]) -> None:
        raise PermissionError("not logged in")


def test_a_logger_that_cannot_be_opened_ends_the_training_and_closes_the_others(
    cluster: LocalCluster,
) -> None:
    first = Noting()

    with pytest.raises(PermissionError, match="not logged in"):
        begin(cluster, first, Shut(), steps=1_000_000)

    assert first.closed
    assert begin(cluster).wait(30).step == 4  # the tasks are free


def test_in_a_session_a_logger_says_where_it_belongs() -> None:
    with pytest.raises(UnimplementedError, match=r"logs a training of kit\.train"):
        Noting().begin()


def test_tensorboard_reads_the_event_file_of_a_training(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    hook = TensorBoardHook(tmp_path / "run", hyperparameters={"width": 3})

    run = begin(cluster, hook, steps=6).wait(30)

    read = accumulator.EventAccumulator(str(tmp_path / "run")).Reload()
    losses = {event.step: event.value for event in read.Scalars("loss")}
    assert losses == pytest.approx(run.frame()["loss"].to_dict(), rel=1e-6)
    assert {"loss", "examples", "seconds", "bytes"} <= {*read.Tags()["scalars"]}
    about = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"width" in about
    assert b"gradient_descent" in about
    text = read.Tensors("statement")
    assert run.statement().encode() in text[0].tensor_proto.string_val[0]


def test_a_run_that_is_over_is_logged_as_one_that_goes_on(
    cluster: LocalCluster,
) -> None:
    meanwhile, later = Noting(), Noting()

    begin(cluster, meanwhile).wait(30).log_to(later)

    assert later.rows == meanwhile.rows
    assert later.closed == meanwhile.closed


class WandbRun:
    """Stands in for what `wandb.init` returns."""

    def __init__(self, **options: Any) -> None:
        self.options, self.summary = options, dict[str, Any]()
        self.rows: list[dict[str, float]] = []
        self.exit_code: int | None = None

    def define_metric(self, name: str, step_metric: str) -> None:
        self.metric = name, step_metric

    def log(self, row: dict[str, float]) -> None:
        self.rows.append(row)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_wandb_gets_hyperparameters_measures_and_traffic(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[WandbRun] = []

    def init(**options: Any) -> WandbRun:
        runs.append(WandbRun(**options))
        return runs[-1]

    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None)
    monkeypatch.setattr(module, "init", init, raising=False)
    monkeypatch.setitem(sys.modules, "wandb", module)
    hook = WandbHook("digits", mode="offline", hyperparameters={"width": 3})

    run = begin(cluster, hook, steps=3).wait(30)

    (seen,) = runs
    assert seen.options["project"] == "digits"
    assert seen.options["mode"] == "offline"
    assert seen.options["config"]["width"] == 3
    assert seen.options["config"]["batch"] == run.job.batch
    assert seen.metric == ("*", "step")
    losses = {row["step"]: row["loss"] for row in seen.rows}
    assert losses == run.frame()["loss"].to_dict()
    assert all(row["bytes"] > 0 for row in seen.rows)
    assert seen.summary["statement"] == run.statement()
    assert seen.exit_code == 0


def test_a_package_that_is_missing_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kit.hooks.loggers.find_spec", lambda name: None)

    with pytest.raises(NotFoundError, match=r"pip install 'psring\[wandb\]'"):
        WandbHook("digits")
    with pytest.raises(NotFoundError, match=r"pip install 'psring\[tensorboard\]'"):
        TensorBoardHook("logs")


class Trial:
    """As a trial of optuna, which is pruned at its third report."""

    def __init__(self) -> None:
        self.reported: list[tuple[float, int]] = []

    def report(self, value: float, step: int) -> None:
        self.reported.append((value, step))

    def should_prune(self) -> bool:
        return len(self.reported) == 3


def test_a_trial_hears_of_the_validation_and_ends_a_training_that_it_prunes(
    cluster: LocalCluster,
) -> None:
    trial = Trial()
    hook = OptunaHook(trial)
    held_out = ValidationHook(fit, HELD_OUT, every=5)

    run = begin(cluster, held_out, hook, steps=1_000_000).wait(60)

    assert hook.is_pruned
    assert run.step < 1_000_000
    losses = run.frame()["validation_loss"].dropna()
    assert trial.reported == [(losses[step], step) for step in (4, 9, 14)]


def test_a_training_that_is_not_pruned_makes_all_steps(cluster: LocalCluster) -> None:
    trial = Trial()
    hook = OptunaHook(trial, "loss")

    run = begin(cluster, hook, steps=2).wait(30)

    assert not hook.is_pruned
    assert trial.reported == [(run.frame()["loss"][step], step) for step in (0, 1)]
