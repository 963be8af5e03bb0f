"""The hooks of `kit.train`: when they are called, and what each kind does there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import UnimplementedError
from kit.hooks import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanTensorHook,
    ProfilerHook,
    SecondOrStepTimer,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
)
from kit.testing.cluster import LocalCluster
from tests.training.graph_models import Model
from tests.training.hook_scene import Event, Gate, Noted, begin
from tests.training.paced import how
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


def test_line_has_the_order_of_a_list_and_the_seconds_between(
    cluster: LocalCluster,
) -> None:
    hook = LoggingTensorHook(["global_step", "scale:0"], every_n_iter=1)

    run = begin(cluster, hook, steps=2).wait(30)

    first, second = run.messages
    assert first == "global_step = 0, scale:0 = " + str(
        replayed(1, 2, DESCENT)["scale"]
    )
    assert re.fullmatch(r"global_step = 1, scale:0 = \S+ \(\d\.\d{3} sec\)", second)


def test_of_a_very_long_line_both_ends_are_told(cluster: LocalCluster) -> None:
    def text(values: object) -> str:
        return "begin" + "x" * 1_000_000 + "end"

    hook = LoggingTensorHook(["loss"], every_n_iter=1, formatter=text)
    run = begin(cluster, hook).wait()

    assert len(run.messages) == 4
    for line in run.messages:
        assert re.fullmatch("beginx+.[0-9,]+ characters are left out here.x+end", line)


def test_values_at_the_end_alone_are_told_once(cluster: LocalCluster) -> None:
    run = begin(cluster, LoggingTensorHook(["global_step"], at_end=True)).wait(30)

    assert run.messages == ["global_step = 4"]


def test_final_values_are_those_of_the_last_step(cluster: LocalCluster) -> None:
    hook = FinalOpsHook({"step": "global_step", "all": ["w", ("b", "scale")]})

    run = begin(cluster, hook, topology="ring").wait(30)

    step, (w, (b, scale)) = hook.final_ops_values.values()
    assert step == 4
    want = run.params
    assert all(
        value.tobytes() == want[name].tobytes()
        for name, value in {"w": w, "b": b, "scale": scale}.items()
    )


def test_what_a_hook_fetched_is_its_own(cluster: LocalCluster) -> None:
    class Scribbling(SessionRunHook):
        def after_run(self, run_context: SessionRunContext, run_values: Any) -> None:
            run_context.session.run("w")[...] = 7

    run = begin(cluster, Scribbling()).wait(30)

    assert same_bits(run.params, replayed(4, 2, DESCENT))


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


class EveryThird(SessionRunHook):
    """A hook of one's own, with the timer of the others."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._timer = SecondOrStepTimer(every_steps=3)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        step = run_context.session.run("global_step")
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            self.seen.append(step)


def test_timer_counts_the_steps_of_a_training(cluster: LocalCluster) -> None:
    hook = EveryThird()

    begin(cluster, hook, steps=9).wait(30)

    assert hook.seen == [1, 4, 7]


class Stopping(SessionRunHook):
    """Asks for the end by the coordinator that it is given, before any step."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        coord.request_stop()
        assert coord.should_stop()


def test_stop_before_the_first_step_makes_none(cluster: LocalCluster) -> None:
    run = begin(cluster, Stopping(), steps=99).wait(30)

    assert (run.step, run.state) == (0, "done")
    assert same_bits(run.params, initial())


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        (FeedFnHook(dict), "give data instead"),
        (GlobalStepWaiterHook(3), "would never begin"),
        (ProfilerHook(save_steps=2), "run.trace.save"),
        (SummarySaverHook(save_steps=2, summary_op=1), "use TensorBoardHook"),
    ],
)
def test_hook_that_means_nothing_in_a_training_is_refused_at_once(
    cluster: LocalCluster, hook: SessionRunHook, why: str
) -> None:
    with pytest.raises(UnimplementedError, match=f"{type(hook).__name__} .*{why}"):
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
