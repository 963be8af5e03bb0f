"""Hooks around a loop of steps: what the later ones of the table do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.errors import DeadlineExceededError, FailedPreconditionError
from kit.hooks import (
    CheckpointSaverHook,
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanTensorHook,
    ProfilerHook,
    SessionRunArgs,
    SessionRunContext,
    SessionRunValues,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
    environment,
)
from kit.settings import settings
from tests.cases import for_each
from tests.hooks.notes import Counter, Notes, Time, begun, one_run


def test_nan_asks_for_the_end_if_it_shall_not_fail(notes: Notes) -> None:
    hook = NanTensorHook("loss", fail_on_nan_loss=False)

    assert one_run(hook, None, np.float32("nan"))
    assert notes.texts("warning") == ["Model diverged with loss = NaN."]


def test_final_values_are_there_after_the_end(notes: Notes) -> None:
    hook = FinalOpsHook("accuracy")
    before = hook.final_ops_values

    hook.end(Counter(0.9))

    assert (before, hook.final_ops_values) == (None, 0.9)


def test_function_feeds_each_run_anew() -> None:
    numbers = iter(range(3))
    hook = FeedFnHook(lambda: {"x": next(numbers)})
    context = SessionRunContext(SessionRunArgs("loss"), None)

    fed = [hook.before_run(context).feed_dict for _ in range(3)]

    assert fed == [{"x": 0}, {"x": 1}, {"x": 2}]


def test_waiter_lets_the_first_run_begin_at_its_step(notes: Notes) -> None:
    time = Time()
    hook = begun(GlobalStepWaiterHook(30, clock=time, sleep=time.sleep))

    one_run(hook, Counter(0, 10, 20, 30), None)
    waited = time.now
    one_run(hook, Counter(0), None)

    assert (waited, time.now) == (101.5, 101.5)


def test_waiter_gives_up_when_the_step_has_stood_still(notes: Notes) -> None:
    time = Time()
    hook = begun(GlobalStepWaiterHook(30, clock=time, sleep=time.sleep))

    with (
        settings(run_deadline_s=4.0),
        pytest.raises(DeadlineExceededError, match="step 30, but it has stood at 20"),
    ):
        one_run(hook, Counter(0, 10, 20), None)

    assert time.now == 105.0  # 4 seconds after the step has moved last


def test_profile_is_written_from_the_second_run_on(
    notes: Notes, tmp_path: Path
) -> None:
    hook = begun(ProfilerHook(save_steps=2, output_dir=str(tmp_path / "new")))
    options = []

    for step in range(6):
        context = SessionRunContext(SessionRunArgs("loss"), Counter(step + 1))
        options.append(hook.before_run(context).options)
        values = SessionRunValues({"global_step": step}, None, f"run {step}")
        hook.after_run(context, values)

    assert options == [None, "traced"] * 3
    written = sorted((tmp_path / "new").iterdir())
    assert [item.name for item in written] == [f"timeline-{i}.json" for i in (2, 4, 6)]
    assert json.loads(written[0].read_text()) == {
        "traceEvents": [{"ph": "X", "name": "run 1"}]
    }


class Writer:
    """Keeps summaries."""

    def __init__(self) -> None:
        self.added: list[tuple[Any, int]] = []

    def add_summary(self, summary: Any, step: int) -> None:
        self.added.append((summary, step))


def test_summaries_go_to_the_writer_of_the_program(notes: Notes) -> None:
    writer = Writer()
    hook = begun(SummarySaverHook(save_steps=2, summary_writer=writer, summary_op="op"))

    for step in range(4):
        one_run(hook, Counter(step + 1), {"global_step": step, "summary": b"s"})

    assert writer.added == [(b"s", 1), (b"s", 4)]


def test_summaries_without_a_writer_are_warned_of_and_not_run(notes: Notes) -> None:
    hook = begun(SummarySaverHook(save_steps=2, output_dir="folder", summary_op="op"))
    hook.after_create_session(None, None)

    context = SessionRunContext(SessionRunArgs("loss"), None)

    assert hook.before_run(context) is None
    assert "writes nothing" in notes.texts("warning")[0]


TEXT: Any = "10"


@for_each(
    ("make", "words"),
    [
        (lambda: StopAtStepHook(), "num_steps"),
        (lambda: StopAtStepHook(1, 1), "num_steps"),
        (lambda: CheckpointSaverHook("f"), "every_secs"),
        (lambda: CheckpointSaverHook("f", 1, 1), "every_secs"),
        (lambda: CheckpointSaverHook("f", 1, saver=1, scaffold=1), "saver"),
        (lambda: StepCounterHook(None), "every_n_steps"),
        (lambda: StepCounterHook(1, 1), "every_n_steps"),
        (lambda: LoggingTensorHook(["a"]), "every_n_iter"),
        (lambda: LoggingTensorHook(["a"], 1, 1.0), "every_n_iter"),
        (lambda: LoggingTensorHook(["a"], 0), "every_n_iter"),
        (lambda: LoggingTensorHook(["a"], TEXT), "every_n_iter='10'"),
        (lambda: LoggingTensorHook("loss", 10), "'loss'"),
        (lambda: StopAtStepHook(last_step=TEXT), "last_step is '10'"),
        (lambda: ProfilerHook(), "every_secs"),
        (lambda: SummarySaverHook(1), "scaffold"),
        (lambda: SummarySaverHook(1, scaffold=1, summary_op=1), "scaffold"),
    ],
)
def test_arguments_that_say_too_little_or_too_much_are_value_errors(
    make: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_hook_outside_of_any_training_says_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "_of_the_process", [])

    with pytest.raises(FailedPreconditionError, match=r"kit\.train\(hooks="):
        StopAtStepHook(last_step=1).begin()
