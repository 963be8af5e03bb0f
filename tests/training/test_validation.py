"""How good a model is on held-out data, measured while it trains."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit import tf1 as tf
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    StepFailed,
    UnimplementedError,
)
from kit.hooks import EarlyStoppingHook, ValidationHook
from kit.pickling import dumps
from kit.testing.cluster import LocalCluster
from kit.training.features.hooks.adapters import hooks_of
from tests.cases import for_each
from tests.training.hook_scene import begin
from tests.training.toy import Params, fit, initial, quick_cluster, replayed, same_bits

DICE = np.random.default_rng(11)
HELD_OUT = DICE.normal(size=(7, 3)).astype(np.float32), DICE.normal(size=7)
DESCENT = kit.GradientDescent()
pytestmark = pytest.mark.slow


def measuring(params: Params, batch: Any) -> Any:
    """As `fit`, with a measure that depends on the parameters, and one called as it."""
    size = abs(params["w"]).sum()
    return (*fit(params, batch), {"size": size, "loss": 2 * size})


@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_what_is_measured_is_of_the_parameters_after_that_step(
    cluster: LocalCluster, topology: str
) -> None:
    hook = ValidationHook(measuring, HELD_OUT, every=3)

    run = begin(cluster, hook, step=measuring, steps=8, topology=topology).wait(30)

    steps, losses = run.trace.measured("validation_loss")
    after = [replayed(step + 1, 2, DESCENT) for step in (2, 5, 7)]
    assert steps.tolist() == [2, 5, 7]  # each third, and the last
    assert losses.tolist() == [fit(params, HELD_OUT)[0] for params in after]
    sizes = run.frame()["validation_size"].dropna()
    assert sizes.tolist() == [float(abs(params["w"]).sum()) for params in after]
    twice = run.frame()["validation_loss (2)"].dropna()
    assert twice.tolist() == [2 * size for size in sizes]
    assert same_bits(run.params, after[-1])


def test_a_training_that_is_measured_moves_no_more_bytes(cluster: LocalCluster) -> None:
    plain = begin(cluster).wait(30)
    measured = begin(cluster, ValidationHook(fit, HELD_OUT, every=1)).wait(30)

    assert np.array_equal(plain.trace.totals, measured.trace.totals)
    assert len(measured.trace.measures) == 4


def nothing(params: Params, data: Any) -> None:
    return None


def fails(params: Params, data: Any) -> float:
    raise ValueError("no such data")


@for_each(
    ("function", "error", "said"),
    [
        (nothing, InvalidArgumentError, "returned None; let it return the loss"),
        (lambda p, d: (), InvalidArgumentError, "let it return the loss"),
        (lambda p, d: (1.0, {}, {"x" * 23: 1}), InvalidArgumentError, "1 to 21"),
        (lambda p, d: (1.0, {}, {"": 1}), InvalidArgumentError, "measured ''"),
        (lambda p, d: (1.0, {}, {"a\0": 1}), InvalidArgumentError, "printable"),
        (lambda p, d: (1.0, {}, {"a": "b"}), InvalidArgumentError, "dict of numbers"),
        (fails, StepFailed, "no such data"),
    ],
)
def test_a_function_that_measures_nothing_ends_the_training_with_its_name(
    cluster: LocalCluster, function: Any, error: type[Exception], said: str
) -> None:
    run = begin(cluster, ValidationHook(function, HELD_OUT, every=1))

    with pytest.raises(error, match=f"ValidationHook.after_run.*{said}"):
        run.wait(30)


def test_in_a_session_the_hook_says_where_it_belongs() -> None:
    with tf.Graph().as_default():
        tf.train.create_global_step()
        hook = ValidationHook(fit, HELD_OUT)
        with pytest.raises(UnimplementedError, match=r"give the hook to kit\.train"):
            tf.train.MonitoredSession(hooks=[hook])


# -- hooks that decide by what was measured ------------------------------------------


class Remembering(ValidationHook):
    """Its function writes to the hook itself, which only the same object can see."""

    def __init__(self) -> None:
        self.sizes: list[float] = []

        def measure(params: Params, data: Any) -> float:
            self.sizes.append(float(abs(params["w"]).sum()))
            return fit(params, data)[0]

        self.measure = measure
        super().__init__(measure, HELD_OUT, every=1)


def test_hook_refers_to_itself_and_to_what_it_shares_also_in_the_task() -> None:
    shared: list[float] = []
    first, second = Remembering(), Remembering()
    first.sizes = second.sizes = shared
    hooks = hooks_of([first, second], fit)
    there = pickle.loads(dumps(hooks, "the hooks", None, hooks.reducer()))

    a, b = there
    a.measure(initial(), HELD_OUT)

    assert a.sizes == [float(abs(initial()["w"]).sum())]
    assert a.sizes is b.sizes


def test_early_stopping_ends_at_the_measurement_that_used_up_its_patience(
    cluster: LocalCluster,
) -> None:
    values = iter([5.0, 4.0, 4.5, 3.0, 3.0, 3.5, 2.0])

    def curve(params: Params, data: Any) -> float:
        return next(values)

    hook = EarlyStoppingHook(curve, HELD_OUT, every=2, patience=2)
    run = begin(cluster, hook, steps=1_000).wait(30)

    # Best after step 7, then two without improvement: after the steps 9 and 11.
    assert (run.state, run.step) == ("done", 12)
    assert run.trace.measured("validation_loss")[1].tolist() == [5, 4, 4.5, 3, 3, 3.5]


def test_early_stopping_looks_at_the_measure_and_in_the_direction_that_were_named(
    cluster: LocalCluster,
) -> None:
    values = iter([0.5, 0.54, 0.62, 0.66, 0.1])

    def accuracy(params: Params, data: Any) -> Any:
        return 1.0, {}, {"accuracy": next(values)}

    hook = EarlyStoppingHook(
        accuracy,
        HELD_OUT,
        1,
        patience=1,
        measure="accuracy",
        mode="max",
        min_delta=0.05,
    )
    run = begin(cluster, hook, steps=1_000).wait(30)

    assert run.step == 2  # 0.54 is no improvement by 0.1


def test_early_stopping_says_which_measures_there_are(cluster: LocalCluster) -> None:
    hook = EarlyStoppingHook(measuring, HELD_OUT, 1, measure="accuracy")
    run = begin(cluster, hook)
    with pytest.raises(
        InvalidArgumentError, match="not measure 'accuracy', only 'loss', 'size', "
    ):
        run.wait(30)


def test_a_long_training_keeps_all_that_was_measured_seldom() -> None:
    with quick_cluster(1, 2, trace_rows=400) as cluster:
        hook = ValidationHook(fit, HELD_OUT, every=30)
        run = begin(cluster, hook, steps=1_200, topology="ring").wait(60)
        frame = run.frame()

    assert run.trace.kept.stride > 1  # of the losses, most steps are gone
    measured = frame["validation_loss"].dropna()
    assert measured.index.tolist() == list(range(29, 1_200, 30))
    assert frame["loss"].isna().any()


@pytest.mark.parametrize("stops", [False, True])
def test_the_last_parameters_are_measured_where_each_goes_at_its_own_pace(
    stops: bool,
) -> None:
    class Stopping(ValidationHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            super().after_run(run_context, run_values)
            if stops and run_values.results > 12:
                run_context.request_stop()

    hook = Stopping(lambda p, d: fit(p, d)[0], HELD_OUT, every=10)
    with quick_cluster(1, 3) as cluster:
        run = begin(cluster, hook, steps=40, topology="ps", sync=False).wait(30)

    steps, losses = run.trace.measured("validation_loss")
    assert (run.step < 40) == stops
    assert steps[-1] == run.step - 1
    assert losses[-1] == fit(run.params, HELD_OUT)[0]


def test_a_training_that_is_stopped_is_measured_at_its_end(
    cluster: LocalCluster,
) -> None:
    class Stopping(ValidationHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            super().after_run(run_context, run_values)
            if run_values.results == 4:
                run_context.request_stop()

    run = begin(cluster, Stopping(fit, HELD_OUT, every=4), steps=99).wait(30)

    steps, losses = run.trace.measured("validation_loss")
    assert steps.tolist() == [3, run.step - 1]
    assert losses[-1] == fit(run.params, HELD_OUT)[0]


def test_validation_sees_a_copy_of_what_the_step_function_keeps(
    cluster: LocalCluster,
) -> None:
    def step(params: Params, batch: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", np.zeros(1)) + 1
        return fit(params, batch)

    def count(params: Params, data: Any, state: dict[str, Any]) -> float:
        state["n"] += 0.5  # its own
        return float(state["n"][0])

    run = begin(cluster, ValidationHook(count, None, every=2), step=step).wait(30)

    assert run.trace.measured("validation_loss")[1].tolist() == [2.5, 4.5]


@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_early_stopping_ends_with_the_best_parameters_if_asked_to(
    cluster: LocalCluster, topology: str
) -> None:
    values = iter([5.0, 3.0, 4.0, 4.0])
    hook = EarlyStoppingHook(
        lambda p, d: next(values), HELD_OUT, every=1, patience=2, restore_best=True
    )

    run = begin(cluster, hook, steps=1_000, topology=topology).wait(30)

    assert run.step == 4
    assert same_bits(run.params, replayed(2, 2, DESCENT))


def test_the_best_parameters_are_saved_and_a_resumed_training_compares_with_them(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    best, values = tmp_path / "best", iter([5.0, 3.0, 4.0, 3.5, 2.0, 9.0, 1.0])

    def hook() -> EarlyStoppingHook:
        return EarlyStoppingHook(
            lambda p, d: next(values), HELD_OUT, every=1, save_best=best
        )

    options: dict[str, Any] = {"checkpoint": tmp_path / "all"}
    begin(cluster, hook(), steps=3, **options).wait(30)
    first = kit.load_checkpoint(best)
    begin(cluster, hook(), steps=6, **options).wait(30)
    second = kit.load_checkpoint(best)

    assert (first.step, second.step) == (2, 5)
    assert same_bits(dict(first), replayed(2, 2, DESCENT))
    assert same_bits(dict(second), replayed(5, 2, DESCENT))
    with pytest.raises(FailedPreconditionError, match="best parameters of another"):
        begin(cluster, hook(), steps=6).wait(30)
