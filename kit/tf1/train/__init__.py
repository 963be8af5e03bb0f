"""`tf.train`: clusters, servers, optimizers, schedules, the global step."""

from __future__ import annotations

from typing import Any

from kit.cluster_def import ClusterDef as ClusterDef
from kit.cluster_def import JobDef as JobDef
from kit.devices.replica import replica_device_setter as replica_device_setter
from kit.hooks import CheckpointSaverHook as CheckpointSaverHook
from kit.hooks import CheckpointSaverListener as CheckpointSaverListener
from kit.hooks import FeedFnHook as FeedFnHook
from kit.hooks import FinalOpsHook as FinalOpsHook
from kit.hooks import GlobalStepWaiterHook as GlobalStepWaiterHook
from kit.hooks import LoggingTensorHook as LoggingTensorHook
from kit.hooks import NanLossDuringTrainingError as NanLossDuringTrainingError
from kit.hooks import NanTensorHook as NanTensorHook
from kit.hooks import ProfilerHook as ProfilerHook
from kit.hooks import SecondOrStepTimer as SecondOrStepTimer
from kit.hooks import SessionRunArgs as SessionRunArgs
from kit.hooks import SessionRunContext as SessionRunContext
from kit.hooks import SessionRunHook as SessionRunHook
from kit.hooks import SessionRunValues as SessionRunValues
from kit.hooks import StepCounterHook as StepCounterHook
from kit.hooks import StopAtStepHook as StopAtStepHook
from kit.hooks import SummarySaverHook as SummarySaverHook
from kit.spec import ClusterSpec as ClusterSpec
from kit.tf1.not_offered import refuse
from kit.tf1.public import offer
from kit.tf1.session.server import Server as Server
from kit.tf1.session.server import ServerDef as ServerDef
from kit.tf1.summary import event_files
from kit.tf1.summary.event_files import summary_iterator as summary_iterator
from kit.tf1.train.checkpointing.saver import Saver as Saver
from kit.tf1.train.checkpointing.saver import export_meta_graph as export_meta_graph
from kit.tf1.train.checkpointing.saver import import_meta_graph as import_meta_graph
from kit.tf1.train.checkpointing.saver_ops import SaverDef as SaverDef
from kit.tf1.train.graph_file import write_graph as write_graph
from kit.tf1.train.monitored.basic_loops import basic_train_loop as basic_train_loop
from kit.tf1.train.monitored.scaffold import Scaffold as Scaffold
from kit.tf1.train.monitored.session_manager import SessionManager as SessionManager
from kit.tf1.train.monitored.supervisor import Supervisor as Supervisor
from kit.tf1.train.optimizers.average import (
    ExponentialMovingAverage as ExponentialMovingAverage,
)
from kit.tf1.train.optimizers.optimizer import Optimizer as Optimizer
from kit.tf1.train.optimizers.schedule import piecewise_constant
from kit.tf1.train.optimizers.sync_replicas import (
    SyncReplicasOptimizer as SyncReplicasOptimizer,
)
from kit.tf1.train.queues import queue_runner as queue_runner

offer(
    __name__,
    "kit.tf1.train.checkpointing.checkpoint_reader",
    "kit.tf1.train.checkpointing.checkpoint_state",
    "kit.tf1.train.example",
    "kit.tf1.train.global_step",
    "kit.tf1.train.monitored.monitored_session",
    "kit.tf1.train.monitored.session_creators",
    "kit.tf1.train.optimizers.optimizers",
    "kit.tf1.train.optimizers.proximal",
    "kit.tf1.train.optimizers.schedule",
    "kit.tf1.train.queues.coordinator",
    "kit.tf1.train.queues.inputs",
    "kit.tf1.train.queues.queue_runner",
    without=[
        "CoordinatedCreator",
        "QueueThreads",
        "RuleOptimizer",
        "is_inside",
        "outside",
        "write_state",
    ],
)

# Names from before 1.0, and a second one of a schedule.
SummaryWriter = event_files.FileWriter
SummaryWriterCache = event_files.FileWriterCache
SyncReplicasOptimizerV2 = SyncReplicasOptimizer
piecewise_constant_decay = piecewise_constant


def __getattr__(name: str) -> Any:
    refuse("train", name)
