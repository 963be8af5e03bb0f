"""`tf.train`: clusters, servers, optimizers, schedules, the global step."""

from __future__ import annotations

from kit.cluster_def import ClusterDef as ClusterDef
from kit.cluster_def import JobDef as JobDef
from kit.tf1.not_offered import names_of, refusing
from kit.tf1.public import offer
from kit.tf1.session.server import Server as Server
from kit.tf1.session.server import ServerDef as ServerDef
from kit.tf1.summary import event_files
from kit.tf1.summary.event_files import summary_iterator as summary_iterator
from kit.tf1.train.checkpointing.saver import Saver as Saver
from kit.tf1.train.checkpointing.saver import export_meta_graph as export_meta_graph
from kit.tf1.train.checkpointing.saver import import_meta_graph as import_meta_graph
from kit.tf1.train.checkpointing.saver_ops import SaverDef as SaverDef
from kit.tf1.train.monitored.session_manager import SessionManager as SessionManager
from kit.tf1.train.monitored.supervisor import Supervisor as Supervisor
from kit.tf1.train.optimizers.optimizer import Optimizer as Optimizer
from kit.tf1.train.optimizers.schedule import piecewise_constant
from kit.tf1.train.optimizers.sync_replicas import (
    SyncReplicasOptimizer as SyncReplicasOptimizer,
)
from kit.tf1.train.queues import queue_runner as queue_runner

offer(
    __name__,
    "kit.devices.replica",
    "kit.hooks.checkpoint_saver",
    "kit.hooks.hook",
    "kit.hooks.steps",
    "kit.hooks.timer",
    "kit.hooks.values",
    "kit.hooks.writers",
    "kit.spec",
    "kit.tf1.train.checkpointing.checkpoint_reader",
    "kit.tf1.train.checkpointing.checkpoint_state",
    "kit.tf1.train.example",
    "kit.tf1.train.global_step",
    "kit.tf1.train.graph_file",
    "kit.tf1.train.monitored.basic_loops",
    "kit.tf1.train.monitored.monitored_session",
    "kit.tf1.train.monitored.scaffold",
    "kit.tf1.train.optimizers.average",
    "kit.tf1.train.optimizers.optimizers",
    "kit.tf1.train.optimizers.schedule",
    "kit.tf1.train.queues.coordinator",
    "kit.tf1.train.queues.inputs",
    "kit.tf1.train.queues.queue_runner",
    only={*names_of("train"), "CheckpointReader", "CheckpointState", "QueueRunnerDef"},
)

# Names from before 1.0, and a second one of a schedule.
SummaryWriter = event_files.FileWriter
SummaryWriterCache = event_files.FileWriterCache
SyncReplicasOptimizerV2 = SyncReplicasOptimizer
piecewise_constant_decay = piecewise_constant

__getattr__ = refusing("train")
