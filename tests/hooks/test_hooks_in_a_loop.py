"""Each hook in a loop without graph and session: what it asks, tells and ends."""

from __future__ import annotations

import numpy as np
import pytest

from kit.hooks import (
    CheckpointSaverHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    ProfilerHook,
    SessionRunHook,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
    environment,
)
from tests.cases import for_each
from tests.hooks.notes import Counter, Notes, begun, one_run


def test_end_is_asked_for_when_the_step_that_is_read_again_is_the_last(
    notes: Notes,
) -> None:
    hook = begun(StopAtStepHook(last_step=5))

    assert not one_run(hook, Counter(3), 3)
    assert not one_run(hook, Counter(4), 4)  # read before the update of another worker
    assert one_run(hook, Counter(5), 4)


def test_number_of_steps_counts_from_the_first_session_alone(notes: Notes) -> None:
    hook = begun(StopAtStepHook(num_steps=3))
    hook.after_create_session(Counter(10), None)

    hook.after_create_session(Counter(11), None)  # after a recovery

    assert not one_run(hook, Counter(12), 12)
    assert one_run(hook, Counter(13), 12)


@for_each(
    "hook",
    [
        StopAtStepHook(last_step=1),
        CheckpointSaverHook("folder", save_steps=1),
        StepCounterHook(),
        GlobalStepWaiterHook(1),
        ProfilerHook(save_steps=1),
        SummarySaverHook(save_steps=1, summary_op="op"),
    ],
    ids=lambda hook: type(hook).__name__,
)
def test_hook_that_counts_steps_names_itself_where_none_is_counted(
    hook: SessionRunHook,
) -> None:
    with (
        environment.inside(Notes(step=None)),
        pytest.raises(RuntimeError, match=type(hook).__name__),
    ):
        hook.begin()


def test_checkpoints_are_saved_at_the_begin_at_the_time_and_at_the_end(
    notes: Notes,
) -> None:
    hook = begun(CheckpointSaverHook("folder", save_steps=3))
    hook.after_create_session(Counter(10), None)

    for step in range(10, 15):
        one_run(hook, Counter(step + 1), step)
    hook.end(Counter(15))

    path = "folder/model.ckpt"
    assert notes.saved == [
        *(("begin", -1), ("describe", 10)),
        *((path, 10), (path, 13), (path, 15), ("end", -1)),
    ]


def test_nothing_is_saved_at_the_end_of_a_training_that_has_not_moved(
    notes: Notes,
) -> None:
    hook = begun(CheckpointSaverHook("folder", save_steps=3))
    hook.after_create_session(Counter(10), None)

    hook.end(Counter(10))

    kinds = [what for what, _ in notes.saved]
    assert kinds == ["begin", "describe", "folder/model.ckpt", "end"]


def test_rate_is_told_from_the_second_time_on(notes: Notes) -> None:
    seen: list[tuple[int, int]] = []

    class Kept(StepCounterHook):
        def _log_and_record(
            self, elapsed_steps: int, elapsed_time: float, global_step: int
        ) -> None:
            seen.append((elapsed_steps, global_step))
            super()._log_and_record(elapsed_steps, elapsed_time, global_step)

    hook = begun(Kept(every_n_steps=2))

    for step in range(6):
        one_run(hook, Counter(step + 1), step)

    assert seen == [(2, 3), (2, 5)]
    assert len(notes.texts("progress")) == 2
    assert "global_step/sec" in notes.texts("progress")[0]


def test_step_that_stands_still_is_warned_of_five_times(notes: Notes) -> None:
    hook = begun(StepCounterHook(every_n_steps=100))

    for _ in range(20):
        one_run(hook, Counter(7), 7)

    assert len(notes.texts("warning")) == 5
    assert "it is 7" in notes.texts("warning")[0]


def test_values_are_told_in_the_order_of_the_list_and_sorted_for_a_dict(
    notes: Notes,
) -> None:
    hook = begun(LoggingTensorHook(["b", "a"], every_n_iter=2))
    for number in range(3):
        one_run(hook, None, {"a": number, "b": 10 * number})
    other = begun(LoggingTensorHook({"z": "b", "y": "a"}, at_end=True))
    one_run(other, None, None)
    other.end(Counter({"z": 1, "y": 2}))

    reply = notes.texts("progress")
    assert reply[0] == "b = 0, a = 0"
    assert reply[1].startswith("b = 20, a = 2 (")
    assert reply[2:] == ["y = 2, z = 1"]


def test_nan_raises_and_infinity_does_not(notes: Notes) -> None:
    hook = NanTensorHook("loss")
    one_run(hook, None, np.float32("inf"))

    with pytest.raises(NanLossDuringTrainingError, match="NaN loss during training"):
        one_run(hook, None, np.float32("nan"))

    assert notes.texts("error") == ["Model diverged with loss = NaN."]
    assert issubclass(NanLossDuringTrainingError, RuntimeError)
