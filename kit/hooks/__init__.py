"""Hooks: what happens beside the steps of a training, in sessions and in kit.train."""

from __future__ import annotations

from kit.hooks.checkpoint_saver import CheckpointSaverHook as CheckpointSaverHook
from kit.hooks.checkpoint_saver import (
    CheckpointSaverListener as CheckpointSaverListener,
)
from kit.hooks.feed_fn import FeedFnHook as FeedFnHook
from kit.hooks.final_ops import FinalOpsHook as FinalOpsHook
from kit.hooks.global_step_waiter import GlobalStepWaiterHook as GlobalStepWaiterHook
from kit.hooks.hook import SessionRunArgs as SessionRunArgs
from kit.hooks.hook import SessionRunContext as SessionRunContext
from kit.hooks.hook import SessionRunHook as SessionRunHook
from kit.hooks.hook import SessionRunValues as SessionRunValues
from kit.hooks.logging_tensor import LoggingTensorHook as LoggingTensorHook
from kit.hooks.nan_tensor import (
    NanLossDuringTrainingError as NanLossDuringTrainingError,
)
from kit.hooks.nan_tensor import NanTensorHook as NanTensorHook
from kit.hooks.profiler import ProfilerHook as ProfilerHook
from kit.hooks.step_counter import StepCounterHook as StepCounterHook
from kit.hooks.stop_at_step import StopAtStepHook as StopAtStepHook
from kit.hooks.summary_saver import SummarySaverHook as SummarySaverHook
from kit.hooks.timer import SecondOrStepTimer as SecondOrStepTimer

__all__ = [
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LoggingTensorHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
]
