"""Hooks: what happens beside the steps of a training, in sessions and in kit.train."""

from __future__ import annotations

from kit.hooks.checkpoint_saver import CheckpointSaverHook as CheckpointSaverHook
from kit.hooks.checkpoint_saver import (
    CheckpointSaverListener as CheckpointSaverListener,
)
from kit.hooks.hook import SessionRunArgs as SessionRunArgs
from kit.hooks.hook import SessionRunContext as SessionRunContext
from kit.hooks.hook import SessionRunHook as SessionRunHook
from kit.hooks.hook import SessionRunValues as SessionRunValues
from kit.hooks.loggers import LoggerHook as LoggerHook
from kit.hooks.loggers import OptunaHook as OptunaHook
from kit.hooks.loggers import TensorBoardHook as TensorBoardHook
from kit.hooks.loggers import WandbHook as WandbHook
from kit.hooks.steps import GlobalStepWaiterHook as GlobalStepWaiterHook
from kit.hooks.steps import StepCounterHook as StepCounterHook
from kit.hooks.steps import StopAtStepHook as StopAtStepHook
from kit.hooks.timer import SecondOrStepTimer as SecondOrStepTimer
from kit.hooks.validation import EarlyStoppingHook as EarlyStoppingHook
from kit.hooks.validation import ValidationHook as ValidationHook
from kit.hooks.values import FeedFnHook as FeedFnHook
from kit.hooks.values import FinalOpsHook as FinalOpsHook
from kit.hooks.values import LoggingTensorHook as LoggingTensorHook
from kit.hooks.values import NanLossDuringTrainingError as NanLossDuringTrainingError
from kit.hooks.values import NanTensorHook as NanTensorHook
from kit.hooks.writers import ProfilerHook as ProfilerHook
from kit.hooks.writers import SummarySaverHook as SummarySaverHook
