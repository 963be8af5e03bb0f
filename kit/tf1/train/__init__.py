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
from kit.tf1.session.server import Server as Server
from kit.tf1.session.server import ServerDef as ServerDef
from kit.tf1.summary.event_files import FileWriter as SummaryWriter
from kit.tf1.summary.event_files import FileWriterCache as SummaryWriterCache
from kit.tf1.summary.event_files import summary_iterator as summary_iterator
from kit.tf1.train.checkpointing.checkpoint_reader import (
    CheckpointReader as CheckpointReader,
)
from kit.tf1.train.checkpointing.checkpoint_reader import (
    NewCheckpointReader as NewCheckpointReader,
)
from kit.tf1.train.checkpointing.checkpoint_reader import (
    list_variables as list_variables,
)
from kit.tf1.train.checkpointing.checkpoint_reader import (
    load_checkpoint as load_checkpoint,
)
from kit.tf1.train.checkpointing.checkpoint_reader import load_variable as load_variable
from kit.tf1.train.checkpointing.checkpoint_state import (
    CheckpointState as CheckpointState,
)
from kit.tf1.train.checkpointing.checkpoint_state import (
    checkpoint_exists as checkpoint_exists,
)
from kit.tf1.train.checkpointing.checkpoint_state import (
    generate_checkpoint_state_proto as generate_checkpoint_state_proto,
)
from kit.tf1.train.checkpointing.checkpoint_state import (
    get_checkpoint_mtimes as get_checkpoint_mtimes,
)
from kit.tf1.train.checkpointing.checkpoint_state import (
    get_checkpoint_state as get_checkpoint_state,
)
from kit.tf1.train.checkpointing.checkpoint_state import (
    latest_checkpoint as latest_checkpoint,
)
from kit.tf1.train.checkpointing.checkpoint_state import (
    remove_checkpoint as remove_checkpoint,
)
from kit.tf1.train.checkpointing.checkpoint_state import (
    update_checkpoint_state as update_checkpoint_state,
)
from kit.tf1.train.checkpointing.saver import Saver as Saver
from kit.tf1.train.checkpointing.saver import export_meta_graph as export_meta_graph
from kit.tf1.train.checkpointing.saver import import_meta_graph as import_meta_graph
from kit.tf1.train.checkpointing.saver_ops import SaverDef as SaverDef
from kit.tf1.train.example import BytesList as BytesList
from kit.tf1.train.example import Example as Example
from kit.tf1.train.example import Feature as Feature
from kit.tf1.train.example import Features as Features
from kit.tf1.train.example import FloatList as FloatList
from kit.tf1.train.example import Int64List as Int64List
from kit.tf1.train.global_step import assert_global_step as assert_global_step
from kit.tf1.train.global_step import create_global_step as create_global_step
from kit.tf1.train.global_step import get_global_step as get_global_step
from kit.tf1.train.global_step import (
    get_or_create_global_step as get_or_create_global_step,
)
from kit.tf1.train.global_step import global_step as global_step
from kit.tf1.train.graph_file import write_graph as write_graph
from kit.tf1.train.monitored.basic_loops import basic_train_loop as basic_train_loop
from kit.tf1.train.monitored.monitored_session import (
    MonitoredSession as MonitoredSession,
)
from kit.tf1.train.monitored.monitored_session import (
    MonitoredTrainingSession as MonitoredTrainingSession,
)
from kit.tf1.train.monitored.monitored_session import (
    SingularMonitoredSession as SingularMonitoredSession,
)
from kit.tf1.train.monitored.scaffold import Scaffold as Scaffold
from kit.tf1.train.monitored.session_creators import (
    ChiefSessionCreator as ChiefSessionCreator,
)
from kit.tf1.train.monitored.session_creators import SessionCreator as SessionCreator
from kit.tf1.train.monitored.session_creators import (
    WorkerSessionCreator as WorkerSessionCreator,
)
from kit.tf1.train.monitored.session_manager import SessionManager as SessionManager
from kit.tf1.train.monitored.supervisor import Supervisor as Supervisor
from kit.tf1.train.optimizers.average import (
    ExponentialMovingAverage as ExponentialMovingAverage,
)
from kit.tf1.train.optimizers.optimizer import Optimizer as Optimizer
from kit.tf1.train.optimizers.optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from kit.tf1.train.optimizers.optimizers import AdagradOptimizer as AdagradOptimizer
from kit.tf1.train.optimizers.optimizers import AdamOptimizer as AdamOptimizer
from kit.tf1.train.optimizers.optimizers import FtrlOptimizer as FtrlOptimizer
from kit.tf1.train.optimizers.optimizers import (
    GradientDescentOptimizer as GradientDescentOptimizer,
)
from kit.tf1.train.optimizers.optimizers import MomentumOptimizer as MomentumOptimizer
from kit.tf1.train.optimizers.optimizers import RMSPropOptimizer as RMSPropOptimizer
from kit.tf1.train.optimizers.proximal import (
    ProximalAdagradOptimizer as ProximalAdagradOptimizer,
)
from kit.tf1.train.optimizers.proximal import (
    ProximalGradientDescentOptimizer as ProximalGradientDescentOptimizer,
)
from kit.tf1.train.optimizers.schedule import cosine_decay as cosine_decay
from kit.tf1.train.optimizers.schedule import (
    cosine_decay_restarts as cosine_decay_restarts,
)
from kit.tf1.train.optimizers.schedule import exponential_decay as exponential_decay
from kit.tf1.train.optimizers.schedule import inverse_time_decay as inverse_time_decay
from kit.tf1.train.optimizers.schedule import linear_cosine_decay as linear_cosine_decay
from kit.tf1.train.optimizers.schedule import natural_exp_decay as natural_exp_decay
from kit.tf1.train.optimizers.schedule import (
    noisy_linear_cosine_decay as noisy_linear_cosine_decay,
)
from kit.tf1.train.optimizers.schedule import piecewise_constant as piecewise_constant
from kit.tf1.train.optimizers.schedule import (
    piecewise_constant as piecewise_constant_decay,
)
from kit.tf1.train.optimizers.schedule import polynomial_decay as polynomial_decay
from kit.tf1.train.optimizers.sync_replicas import (
    SyncReplicasOptimizer as SyncReplicasOptimizer,
)
from kit.tf1.train.optimizers.sync_replicas import (
    SyncReplicasOptimizer as SyncReplicasOptimizerV2,
)
from kit.tf1.train.queues import queue_runner as queue_runner
from kit.tf1.train.queues.coordinator import Coordinator as Coordinator
from kit.tf1.train.queues.coordinator import LooperThread as LooperThread
from kit.tf1.train.queues.inputs import batch as batch
from kit.tf1.train.queues.inputs import batch_join as batch_join
from kit.tf1.train.queues.inputs import input_producer as input_producer
from kit.tf1.train.queues.inputs import limit_epochs as limit_epochs
from kit.tf1.train.queues.inputs import match_filenames_once as match_filenames_once
from kit.tf1.train.queues.inputs import range_input_producer as range_input_producer
from kit.tf1.train.queues.inputs import shuffle_batch as shuffle_batch
from kit.tf1.train.queues.inputs import shuffle_batch_join as shuffle_batch_join
from kit.tf1.train.queues.inputs import slice_input_producer as slice_input_producer
from kit.tf1.train.queues.inputs import string_input_producer as string_input_producer
from kit.tf1.train.queues.queue_runner import QueueRunner as QueueRunner
from kit.tf1.train.queues.queue_runner import QueueRunnerDef as QueueRunnerDef
from kit.tf1.train.queues.queue_runner import add_queue_runner as add_queue_runner
from kit.tf1.train.queues.queue_runner import start_queue_runners as start_queue_runners

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "BytesList",
    "CheckpointReader",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "CheckpointState",
    "ChiefSessionCreator",
    "ClusterDef",
    "ClusterSpec",
    "Coordinator",
    "Example",
    "ExponentialMovingAverage",
    "Feature",
    "Features",
    "FeedFnHook",
    "FinalOpsHook",
    "FloatList",
    "FtrlOptimizer",
    "GlobalStepWaiterHook",
    "GradientDescentOptimizer",
    "Int64List",
    "JobDef",
    "LoggingTensorHook",
    "LooperThread",
    "MomentumOptimizer",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NewCheckpointReader",
    "Optimizer",
    "ProfilerHook",
    "QueueRunner",
    "QueueRunnerDef",
    "RMSPropOptimizer",
    "Saver",
    "SaverDef",
    "Scaffold",
    "SecondOrStepTimer",
    "Server",
    "ServerDef",
    "SessionCreator",
    "SessionManager",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "SingularMonitoredSession",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "SummaryWriter",
    "SummaryWriterCache",
    "Supervisor",
    "SyncReplicasOptimizer",
    "SyncReplicasOptimizerV2",
    "WorkerSessionCreator",
    "add_queue_runner",
    "assert_global_step",
    "batch",
    "batch_join",
    "checkpoint_exists",
    "cosine_decay",
    "create_global_step",
    "exponential_decay",
    "generate_checkpoint_state_proto",
    "get_checkpoint_mtimes",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "input_producer",
    "inverse_time_decay",
    "latest_checkpoint",
    "limit_epochs",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "match_filenames_once",
    "natural_exp_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
    "queue_runner",
    "range_input_producer",
    "remove_checkpoint",
    "replica_device_setter",
    "shuffle_batch",
    "shuffle_batch_join",
    "slice_input_producer",
    "start_queue_runners",
    "string_input_producer",
    "summary_iterator",
    "update_checkpoint_state",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    refuse("train", name)
