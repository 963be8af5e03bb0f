"""The hooks of `kit.train`: when they are called, what each does, and how they fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.checkpoint import Files, write_shard
from kit.errors import (
    CheckpointFailed,
    InvalidArgumentError,
    KitError,
    StepFailed,
    UnimplementedError,
)
from kit.hooks import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanTensorHook,
    ProfilerHook,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
)
from kit.testing.cluster import LocalCluster
from kit.training.features.checkpointing import writer
from tests.cases import for_each
from tests.training.graph_models import Model
from tests.training.hook_scene import Event, Gate, Listener, Noted, begin
from tests.training.paced import how
from tests.training.saved import Patient, names, resumed_at
from tests.training.toy import DATA, Params, fit, initial, replayed, rows, same_bits

DESCENT = kit.GradientDescent()
TOPOLOGIES = ("ps", "ring", "mesh")


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_hooks_are_called_in_their_order_around_each_step(
    cluster: LocalCluster, topology: str
) -> None:
    book: list[Event] = []

    begin(cluster, Noted("a", book), Noted("b", book), topology=topology, steps=2).wait(
        30
    )

    moments: list[Event] = [("begin",), ("created", 0)]
    for step in range(2):
        moments += [("before", step), ("after", step, step + 1)]
    moments.append(("end", 2))
    assert book == [(name, *moment) for moment in moments for name in ("a", "b")]


def test_switch_of_the_topology_makes_no_new_session(cluster: LocalCluster) -> None:
    book, gate = list[Event](), Gate()
    run = begin(cluster, Noted("a", book), gate, StopAtStepHook(last_step=6), steps=99)
    run.switch("ring", at=3)
    gate.open()
    run.wait(30)

    assert how(run) == [("ps", 0), ("ring", 3)]
    assert [row[1] for row in book].count("created") == 1
    assert [row[2:] for row in book if row[1] == "after"] == [
        (step, step + 1) for step in range(6)
    ]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_training_stops_exactly_at_the_step_that_was_said(
    cluster: LocalCluster, topology: str
) -> None:
    stop = StopAtStepHook(last_step=5)

    run = begin(cluster, stop, topology=topology, steps=1_000_000).wait(30)

    assert (run.step, run.state) == (5, "done")
    assert same_bits(run.params, replayed(5, 2, DESCENT))


def test_steps_to_stop_at_count_from_where_the_training_goes_on_and_one_is_made(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    begin(cluster, steps=4, checkpoint=tmp_path).wait(30)

    for stop, step in (
        (StopAtStepHook(num_steps=3), 7),
        (StopAtStepHook(last_step=2), 8),
    ):
        run = begin(cluster, stop, steps=99, checkpoint=tmp_path)
        assert run.wait(30).step == step


def test_asynchronous_training_stops_soon_after_the_step(cluster: LocalCluster) -> None:
    run = begin(cluster, StopAtStepHook(last_step=5), steps=1_000_000, sync=False)

    run.wait(30)

    assert run.state == "done"
    assert 5 <= run.step < 1_000_000


def test_steps_per_second_are_told_from_the_second_time_on(
    cluster: LocalCluster,
) -> None:
    run = begin(cluster, StepCounterHook(every_n_steps=2), steps=6).wait(30)

    lines = [re.sub(r": \S+ ", " ", message) for message in run.messages]

    assert lines == ["global_step/sec (step 3)", "global_step/sec (step 5)"]


def losses_of_the_first_worker(steps: int) -> list[float]:
    result = []
    for step in range(steps):
        part = np.array_split(rows(step), 2)[0]
        params = replayed(step, 2, DESCENT)
        result.append(fit(params, [row[part] for row in DATA])[0])
    return result


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_values_are_told_every_so_many_runs(
    cluster: LocalCluster, topology: str
) -> None:
    wanted = {"b": "loss", "a": "global_step"}
    hook = LoggingTensorHook(
        wanted, every_n_iter=2, formatter=lambda result: repr(result)
    )

    run = begin(cluster, hook, topology=topology, steps=5).wait(30)

    losses = losses_of_the_first_worker(5)
    expected = [{"b": losses[step], "a": step} for step in (0, 2, 4)]
    assert run.messages == [repr(item) for item in expected]


def test_of_a_very_long_line_both_ends_are_told(cluster: LocalCluster) -> None:
    def text(values: object) -> str:
        return "begin" + "x" * 1_000_000 + "end"

    hook = LoggingTensorHook(["loss"], every_n_iter=1, formatter=text)
    run = begin(cluster, hook).wait()

    assert len(run.messages) == 4
    for line in run.messages:
        assert re.fullmatch("beginx+.[0-9,]+ characters are left out here.x+end", line)


class Scribbling(SessionRunHook):
    """Writes into what it has fetched, which is its own."""

    def after_run(self, run_context: SessionRunContext, run_values: Any) -> None:
        run_context.session.run("w")[...] = 7


def test_values_are_told_and_handed_out_as_they_are_after_their_step(
    cluster: LocalCluster,
) -> None:
    final = FinalOpsHook({"step": "global_step", "all": ["w", ("b", "scale")]})
    each = LoggingTensorHook(["global_step", "scale:0"], every_n_iter=1)
    at_end = LoggingTensorHook(["global_step"], at_end=True)

    hooks = Scribbling(), final, each, at_end
    run = begin(cluster, *hooks, topology="ring", steps=2).wait(30)

    first, second, last = run.messages
    scale = replayed(1, 2, DESCENT)["scale"]
    assert first == f"global_step = 0, scale:0 = {scale}"
    assert re.fullmatch(r"global_step = 1, scale:0 = \S+ \(\d\.\d{3} sec\)", second)
    assert last == "global_step = 2"
    step, (w, (b, scale)) = final.final_ops_values.values()
    assert step == 2
    want = replayed(2, 2, DESCENT)
    assert same_bits({"w": w, "none": want["none"], "b": b, "scale": scale}, want)
    assert same_bits(run.params, want)


def diverging(params: Params, batch: Any) -> Any:
    """Return NaN as the loss once the bias has moved; the gradients are good."""
    loss, result = fit(params, batch)
    is_moved = not np.array_equal(params["b"], initial()["b"])
    return (float("nan") if is_moved else loss), result


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_nan_loss_ends_the_training_with_its_name(
    cluster: LocalCluster, topology: str
) -> None:
    hook = NanTensorHook("loss")
    run = begin(cluster, hook, step=diverging, steps=99, topology=topology)

    with pytest.raises(kit.errors.StepFailed, match="NanLossDuringTrainingError: NaN"):
        run.wait(30)

    assert run.step == 2
    assert same_bits(run.params, replayed(2, 2, DESCENT))
    assert run.messages == ["Model diverged with loss = NaN."]


def test_nan_loss_may_end_the_training_in_good_order(cluster: LocalCluster) -> None:
    hook = NanTensorHook("loss", fail_on_nan_loss=False)

    run = begin(cluster, hook, step=diverging, steps=99).wait(30)

    assert (run.step, run.state) == (2, "done")


class Stopping(SessionRunHook):
    """Asks for the end by the coordinator that it is given, before any step."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        coord.request_stop()
        assert coord.should_stop()


def test_stop_before_the_first_step_makes_none(cluster: LocalCluster) -> None:
    run = begin(cluster, Stopping(), steps=99).wait(30)

    assert (run.step, run.state) == (0, "done")
    assert same_bits(run.params, initial())


@for_each(
    ("hook", "kind", "words"),
    [
        (FeedFnHook(dict), UnimplementedError, "FeedFnHook .*give data instead"),
        (GlobalStepWaiterHook(3), UnimplementedError, "WaiterHook .*would never begin"),
        (ProfilerHook(2), UnimplementedError, "ProfilerHook .*run.trace.save"),
        (SummarySaverHook(2, summary_op=1), UnimplementedError, "use TensorBoardHook"),
        (7, InvalidArgumentError, "is not a hook; derive its class"),
        ("stop", InvalidArgumentError, "is not a hook; derive its class"),
        (SessionRunHook, InvalidArgumentError, "class SessionRunHook; give an object"),
    ],
)
def test_what_is_no_hook_of_a_training_is_refused_at_once(
    cluster: LocalCluster, hook: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        begin(cluster, hook)

    assert begin(cluster).wait(30).step == 4


def test_hook_may_name_loss_and_parameters_by_their_tensors(
    cluster: LocalCluster,
) -> None:
    model = Model()
    final = FinalOpsHook([model.b, model.loss, model.w.ref])

    run = kit.train(
        model.loss, model.data, steps=3, batch=8, cluster=cluster, hooks=[final]
    ).wait(30)

    b, loss, w = final.final_ops_values
    assert isinstance(loss, float)
    assert np.array_equal(b, run.params["b"])
    assert np.array_equal(w, run.params["layer/w"])


# -- failures --------------------------------------------------------------------------

# The step that was done when each of these was called first.
METHODS = {"begin": 0, "after_create_session": 0, "before_run": 0, "after_run": 1}


def failing_in(method: str, error: BaseException) -> SessionRunHook:
    def fail(*_: Any) -> None:
        raise type(error)(*error.args)  # else what it keeps would last as it does

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


class Feeding(SessionRunHook):
    def before_run(self, run_context: Any) -> SessionRunArgs:
        return SessionRunArgs(None, {"x": 1})


class Complaining(SessionRunHook):
    def after_create_session(self, session: Any, coord: Any) -> None:
        coord.request_stop(ValueError("I cannot work like this"))


BOOM, ASYNC = ValueError("boom"), {"sync": False, "steps": 1_000_000}
LACKING = "'nothing' cannot be fetched in a training; there are 'loss'"


@pytest.mark.slow
@for_each(
    ("hook", "options", "words"),
    [
        (failing_in("before_run", SystemExit(3)), {}, ["SystemExit"]),
        (
            failing_in("before_run", BOOM),
            ASYNC,
            ["Failing.before_run() raised Value"],
        ),
        (
            failing_in("after_run", BOOM),
            ASYNC,
            ["Failing.after_run() raised Value"],
        ),
        (Complaining(), {}, ["ValueError: I cannot work like this"]),
        (Feeding(), {}, ["Feeding.before_run", "feeds"]),
        (LoggingTensorHook(["nothing"], 1), {}, ["LoggingTensorHook.begin()", LACKING]),
        (NanTensorHook("nothing"), {}, ["NanTensorHook.before_run()", LACKING]),
        (
            FinalOpsHook(["nothing"]),
            {},
            ["FinalOpsHook.end()", "'w', 'none', 'b',"],
        ),
    ],
)
def test_failure_of_a_hook_ends_its_training_alone(
    cluster: LocalCluster, hook: Any, options: dict[str, Any], words: list[str]
) -> None:
    error = failure_of(cluster, hook, **options)

    assert all(word in str(error) for word in words), error
    assert begin(cluster, sync=options.get("sync", True)).wait(30).step == 4


def test_error_of_ours_keeps_its_class(cluster: LocalCluster) -> None:
    hook = failing_in("after_run", InvalidArgumentError("no such thing"))

    error = failure_of(cluster, hook)

    assert type(error) is InvalidArgumentError
    assert "hook Failing.after_run(): no such thing" in error.message


def test_saver_with_a_second_folder_or_a_saver_of_its_own_is_refused(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    hook = CheckpointSaverHook(str(tmp_path / "a"), save_steps=2)
    with pytest.raises(InvalidArgumentError, match="a training has one folder"):
        begin(cluster, hook, checkpoint=tmp_path / "b")
    hook = CheckpointSaverHook(str(tmp_path), save_steps=2, saver=object())
    with pytest.raises(KitError, match="takes neither a saver nor a scaffold"):
        begin(cluster, hook)


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


# -- hooks that save -------------------------------------------------------------------


@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_saver_saves_at_the_begin_every_so_many_steps_and_at_the_end(
    cluster: LocalCluster, tmp_path: Path, topology: str
) -> None:
    book: list[Event] = []
    hook = CheckpointSaverHook(str(tmp_path), save_steps=3, listeners=[Listener(book)])
    step = Patient(cluster, 2, {0, 3, 6})

    begin(cluster, hook, topology=topology, steps=8, step=step).wait(30)

    assert names(tmp_path) == ["step-0", "step-3", "step-6", "step-8"]
    assert [row for row in book if row[0] != "after"] == [
        ("begin",), ("before", 0), ("before", 3), ("before", 6), ("before", 8),
        ("end", 8),
    ]  # fmt: skip
    assert [row for row in book if row[0] == "after"] == [
        ("after", step) for step in (0, 3, 6, 8)
    ]
    assert all(
        book.index(("before", n)) < book.index(("after", n)) for n in (0, 3, 6, 8)
    )
    for number in (0, 3, 6, 8):
        result = dict(kit.load_checkpoint(tmp_path / f"step-{number}"))
        want = replayed(number, 2, kit.GradientDescent())
        assert same_bits({name: result[name] for name in want}, want)


def test_training_with_a_saver_goes_on_from_what_it_saved(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    def saver() -> CheckpointSaverHook:
        return CheckpointSaverHook(str(tmp_path), save_steps=100)

    begin(cluster, saver(), steps=3).wait(30)
    run = begin(cluster, saver(), StopAtStepHook(num_steps=2), steps=99).wait(30)

    assert (resumed_at(run), run.step) == (3, 5)
    assert same_bits(run.params, replayed(5, 2, kit.GradientDescent()))


@pytest.mark.slow
def test_after_save_is_told_when_the_checkpoint_is_on_disk(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Steps go on while it is written: a listener that reads it must find it."""
    result: list[tuple[int, int]] = []

    class Reading(CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            result.append((global_step_value, kit.load_checkpoint(tmp_path).step))

    hook = CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[Reading()])

    begin(cluster, hook, steps=30).wait(30)

    assert [asked for asked, _ in result] == sorted({asked for asked, _ in result})
    assert result[0][0] == 0
    assert result[-1] == (30, 30)
    assert all(there >= asked for asked, there in result)


def test_nothing_is_told_of_a_save_that_failed(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_at_first(path: Path, pieces: Any, files: Files) -> Any:
        if path.parent.name.startswith("step-0."):
            raise CheckpointFailed("No space left on device.")
        return write_shard(path, pieces, files)

    monkeypatch.setattr(writer, "write_shard", full_at_first)
    book: list[Event] = []
    hook = CheckpointSaverHook(str(tmp_path), save_steps=99, listeners=[Listener(book)])

    run = begin(cluster, hook, steps=5).wait(30)

    assert run.checkpoints.n_failed == 1
    assert book == [("begin",), ("before", 0), ("before", 5), ("after", 5), ("end", 5)]


@pytest.mark.slow
@pytest.mark.parametrize(("last", "steps"), [(0, 30), (4, 100_000)])
def test_listener_may_ask_for_the_end_but_not_at_the_begin(
    cluster: LocalCluster, tmp_path: Path, last: int, steps: int
) -> None:
    book: list[Event] = []
    listener = Listener(book, last=last)
    hook = CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[listener])

    run = begin(cluster, hook, steps=steps).wait(30)

    assert (run.step == steps) == (last == 0)
    assert ("after", last) in book
    assert kit.load_checkpoint(tmp_path).step == run.step


def test_saver_by_the_clock_saves_at_the_begin_and_at_the_end(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    begin(cluster, CheckpointSaverHook(str(tmp_path), save_secs=3600)).wait(30)

    assert names(tmp_path) == ["step-0", "step-4"]


def test_saver_and_the_trainings_own_saves_share_a_folder(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    own = kit.Checkpoints(str(tmp_path), every_steps=5)
    step = Patient(cluster, 2, {0, 4, 5})

    begin(
        cluster,
        CheckpointSaverHook(str(tmp_path), save_steps=4),
        steps=7,
        checkpoint=own,
        step=step,
    ).wait(30)

    assert names(tmp_path) == ["step-0", "step-4", "step-5", "step-7"]
