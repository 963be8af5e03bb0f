"""A hook that fails ends the training with its name; the cluster can train again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import CheckpointFailed, InvalidArgumentError, KitError, StepFailed
from kit.hooks import (
    CheckpointSaverHook,
    FinalOpsHook,
    LoggingTensorHook,
    NanTensorHook,
    SessionRunArgs,
    SessionRunHook,
)
from kit.testing.cluster import LocalCluster
from kit.training.features.checkpointing import writer
from tests.training.hook_scene import Event, Noted, begin
from tests.training.saved import resumed_at
from tests.training.toy import initial, replayed, same_bits

DESCENT = kit.GradientDescent()
# The step that was done when each of these was called first.
METHODS = {"begin": 0, "after_create_session": 0, "before_run": 0, "after_run": 1}


def failing_in(method: str, error: BaseException) -> SessionRunHook:
    def fail(*_: Any) -> None:
        raise error

    kind: type[SessionRunHook] = type("Failing", (SessionRunHook,), {method: fail})
    return kind()


def failure_of(cluster: LocalCluster, *hooks: Any, **options: Any) -> KitError:
    """Return what the training fails with, at once or later."""
    with pytest.raises(KitError) as caught:
        begin(cluster, *hooks, **options).wait(30)
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
@pytest.mark.parametrize("method", METHODS)
def test_hook_that_fails_is_named_and_what_was_done_is_kept(
    cluster: LocalCluster, method: str, topology: str
) -> None:
    book: list[Event] = []
    hooks = Noted("other", book), failing_in(method, ValueError("boom"))
    if method == "begin":
        error = failure_of(cluster, *hooks, topology=topology)
    else:
        run = begin(cluster, *hooks, topology=topology)
        with pytest.raises(StepFailed) as caught:
            run.wait(30)
        error = caught.value
        assert run.state == "failed"
        assert run.step == METHODS[method]
        assert same_bits(run.params, replayed(run.step, 2, DESCENT))

    assert isinstance(error, StepFailed)
    assert f"worker/task:0: hook Failing.{method}() raised ValueError: boom" in str(
        error
    )
    assert "in fail" in str(error.remote_traceback)
    assert "end" not in [row[1] for row in book]
    assert begin(cluster, topology=topology).wait(30).step == 4


@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_hook_that_fails_at_the_end_loses_no_step_and_no_checkpoint(
    cluster: LocalCluster, tmp_path: Path, topology: str
) -> None:
    hook = failing_in("end", ValueError("boom"))
    run = begin(cluster, hook, topology=topology, checkpoint=tmp_path)

    with pytest.raises(StepFailed, match=r"Failing\.end\(\) raised ValueError: boom"):
        run.wait(30)

    assert same_bits(run.params, replayed(4, 2, DESCENT))
    again = begin(cluster, steps=6, topology=topology, checkpoint=tmp_path).wait(30)
    assert resumed_at(again) == 4
    assert same_bits(again.params, replayed(6, 2, DESCENT))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["before_run", "after_run"])
def test_hook_that_fails_ends_an_asynchronous_training(
    cluster: LocalCluster, method: str
) -> None:
    hook = failing_in(method, ValueError("boom"))

    error = failure_of(cluster, hook, sync=False, steps=1_000_000)

    assert f"hook Failing.{method}() raised ValueError: boom" in str(error)
    assert begin(cluster, sync=False).wait(30).step == 4


def test_error_of_ours_keeps_its_class(cluster: LocalCluster) -> None:
    hook = failing_in("after_run", InvalidArgumentError("no such thing"))

    error = failure_of(cluster, hook)

    assert type(error) is InvalidArgumentError
    assert "hook Failing.after_run(): no such thing" in error.message


def test_hook_that_would_end_the_process_ends_the_training(
    cluster: LocalCluster,
) -> None:
    error = failure_of(cluster, failing_in("before_run", SystemExit(3)))

    assert "SystemExit" in str(error)
    assert begin(cluster).wait(30).step == 4


@pytest.mark.parametrize(
    ("hook", "where"),
    [
        (LoggingTensorHook(["nothing"], every_n_iter=1), "LoggingTensorHook.begin"),
        (NanTensorHook("nothing"), "NanTensorHook.before_run"),
        (FinalOpsHook(["nothing"]), "FinalOpsHook.end"),
    ],
)
def test_value_that_a_training_lacks_is_refused_with_those_that_it_has(
    cluster: LocalCluster, hook: SessionRunHook, where: str
) -> None:
    error = failure_of(cluster, hook)

    assert f"{where}()" in str(error)
    assert "'nothing' cannot be fetched in a training; there are 'loss'" in str(error)
    assert "'w', 'none', 'b', 'scale'" in str(error)


def test_what_a_hook_would_feed_is_refused_before_the_step(
    cluster: LocalCluster,
) -> None:
    class Feeding(SessionRunHook):
        def before_run(self, run_context: Any) -> SessionRunArgs:
            return SessionRunArgs(None, {"x": 1})

    run = begin(cluster, Feeding())

    with pytest.raises(InvalidArgumentError, match=r"Feeding\.before_run.*feeds"):
        run.wait(30)
    assert run.step == 0
    assert same_bits(run.params, initial())


def test_error_given_to_the_coordinator_of_hooks_ends_the_training(
    cluster: LocalCluster,
) -> None:
    class Complaining(SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            coord.request_stop(ValueError("I cannot work like this"))

    error = failure_of(cluster, Complaining())

    assert "ValueError: I cannot work like this" in str(error)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (7, "is not a hook; derive its class"),
        ("stop", "is not a hook; derive its class"),
        (SessionRunHook, r"the class SessionRunHook; give an object of it"),
    ],
)
def test_what_is_no_hook_is_refused(
    cluster: LocalCluster, hook: Any, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        begin(cluster, hook)


def test_saver_with_a_saver_of_its_own_is_refused(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    hook = CheckpointSaverHook(str(tmp_path), save_steps=2, saver=object())

    with pytest.raises(KitError, match="takes neither a saver nor a scaffold"):
        begin(cluster, hook)


def test_saver_with_a_second_folder_is_refused(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    hook = CheckpointSaverHook(str(tmp_path / "one"), save_steps=2)

    with pytest.raises(InvalidArgumentError, match="a training has one folder"):
        begin(cluster, hook, checkpoint=tmp_path / "other")


def test_saver_whose_last_save_fails_says_so_and_keeps_the_parameters(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: Any) -> Any:
        raise CheckpointFailed(f"{path} could not be written: No space left on device.")

    monkeypatch.setattr(writer, "write_shard", full)
    run = begin(cluster, CheckpointSaverHook(str(tmp_path), save_steps=100))

    with pytest.raises(CheckpointFailed, match=r"Saver.*\.end\(\).*No space left"):
        run.wait(30)

    assert run.step == 4
    assert same_bits(run.params, replayed(4, 2, DESCENT))
