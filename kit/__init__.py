"""psring: learn and try distributed training, from a notebook.

    import kit

    with kit.Cluster(ps=1, worker=3) as cluster:
        run = kit.train(step, params, data, topology="ps", steps=300)
        run.topology = "ring"       # taken up between two steps
        run.wait()

Importing this package starts nothing and prints nothing. `Cluster` is imported at its
first use, because a task's process does not need ipyparallel.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

# Before anything else: elsewhere, the imports below fail with an unhelpful message.
if sys.platform not in ("linux", "darwin") and "bsd" not in sys.platform:
    raise ImportError(
        f"psring runs on Linux, and this is {sys.platform}: open the repository in its "
        "devcontainer or on Binder, or install psring in WSL2 on Windows."
    )
if sys.platform != "linux":
    import warnings

    warnings.warn(
        f"psring is not tested on a Mac yet, nor elsewhere than on Linux, and this is "
        f"{sys.platform}. kit.Cluster starts nothing here: for it, open the repository "
        f"in its devcontainer or on Binder.",
        stacklevel=2,
    )

from kit import errors as errors
from kit import features
from kit import kubernetes as kubernetes
from kit import nn as nn
from kit import picture as picture  # graphs show themselves
from kit import random as random
from kit.devices.device import DeviceSpec as DeviceSpec
from kit.devices.replica import replica_device_setter as replica_device_setter
from kit.experiments.comparison import Comparison as Comparison
from kit.experiments.comparison import compare as compare
from kit.experiments.folder import load_sweep as load_sweep
from kit.experiments.results import Sweep as Sweep
from kit.experiments.sweep import sweep as sweep
from kit.experiments.sweep import sweep_async as sweep_async
from kit.graph.clip import clip_by_global_norm as clip_by_global_norm
from kit.graph.clip import clip_by_norm as clip_by_norm
from kit.graph.clip import global_norm as global_norm
from kit.graph.default import colocate_with as colocate_with
from kit.graph.default import control_dependencies as control_dependencies
from kit.graph.default import device as device
from kit.graph.default import name_scope as name_scope
from kit.graph.gradients import gradients as gradients
from kit.graph.graph import Graph as Graph
from kit.graph.op import Op as Op
from kit.graph.op import Tensor as Tensor
from kit.graph.ops.state.function import py_function as py_function
from kit.graph.ops.state.source import constant as constant
from kit.graph.ops.state.source import identity as identity
from kit.graph.ops.state.source import placeholder as placeholder
from kit.graph.ops.state.source import stop_gradient as stop_gradient
from kit.graph.variable import Variable as Variable
from kit.graph.variable import initialize_all as initialize_all
from kit.groups.group import TaskGroup as Group
from kit.server import target as _target  # noqa: F401  # how far sessions reach
from kit.server.attached import AttachedCluster as AttachedCluster
from kit.server.attached import attach as attach
from kit.server.engine import current as this_server
from kit.server.opening import group as group
from kit.server.server import Server as Server
from kit.session.client import dask_graph as _dask_graph  # noqa: F401  # tensors become its collections
from kit.session.client.metadata import RunMetadata as RunMetadata
from kit.session.client.saving import restore_variables as restore_variables
from kit.session.client.saving import save_variables as save_variables
from kit.session.client.session import Session as Session
from kit.settings import Settings as Settings
from kit.settings import settings as settings
from kit.spec import ClusterSpec as ClusterSpec
from kit.task import Task as Task
from kit.trace.bottleneck import Bottleneck as Bottleneck
from kit.trace.bottleneck import Cause as Cause
from kit.trace.trace import Trace as Trace
from kit.training.client.flight_recorder import Flight as Flight
from kit.training.client.run import Run as Run
from kit.training.optimizers import graph_rules as _graph_rules  # noqa: F401  # ops of `minimize`
from kit.training.optimizers.averaged import Averaged as Averaged
from kit.training.optimizers.compensated import DelayCompensated as DelayCompensated
from kit.training.optimizers.groups import Groups as Groups
from kit.training.optimizers.layer_rules import LAMB as LAMB
from kit.training.optimizers.layer_rules import LARS as LARS
from kit.training.optimizers.rules import Adagrad as Adagrad
from kit.training.optimizers.rules import Adam as Adam
from kit.training.optimizers.rules import AdamW as AdamW
from kit.training.optimizers.rules import GradientDescent as GradientDescent
from kit.training.optimizers.rules import Lion as Lion
from kit.training.optimizers.rules import Momentum as Momentum
from kit.training.optimizers.rules import RMSProp as RMSProp
from kit.training.optimizers.schedules import Cosine as Cosine
from kit.training.optimizers.schedules import OneCycle as OneCycle
from kit.training.optimizers.schedules import WarmUp as WarmUp
from kit.training.train import train as train
from kit.wire.handshake.credentials import Credentials as Credentials

# What a copy of the package may lack.
with features.if_there():
    from kit.exchange.topologies.gossip import Gossip as _Gossip  # noqa: F401  # registers itself
with features.if_there():
    from kit.exchange.topologies.recursive_doubling import (
        RecursiveDoubling as _Doubling,  # noqa: F401
    )
    from kit.exchange.topologies.tree import Tree as _Tree  # noqa: F401
with features.if_there():
    from kit.exchange.compression.clipping import ClipByNorm as ClipByNorm
    from kit.exchange.compression.gathering import Gathered as Gathered
    from kit.exchange.compression.gathering import Krum as Krum
    from kit.exchange.compression.gathering import MajorityVote as MajorityVote
    from kit.exchange.compression.gathering import Median as Median
    from kit.exchange.compression.gathering import TrimmedMean as TrimmedMean
    from kit.exchange.compression.loss_scale import LossScale as LossScale
    from kit.exchange.compression.power_sgd import PowerSGD as PowerSGD
    from kit.exchange.compression.top_k import TopK as TopK
with features.if_there():
    from kit.recording.difference import diff as diff
    from kit.recording.loaded import load_run as load_run
    from kit.recording.options import Recording as Recording
    from kit.recording.replay import replay as replay
with features.if_there():
    from kit.rehearsal.recommend import Recommendation as Recommendation
    from kit.rehearsal.recommend import recommend as recommend
    from kit.rehearsal.rehearsal import Rehearsal as Rehearsal
    from kit.rehearsal.rehearse import rehearse as rehearse
with features.if_there():
    from kit.training.features.checkpointing.loading import (
        load_checkpoint as load_checkpoint,
    )
    from kit.training.features.checkpointing.policy import Checkpoints as Checkpoints
with features.if_there():
    from kit.training.features.elastic.options import Elastic as Elastic
with features.if_there():
    from kit.training.features.evolve import evolve as evolve
with features.if_there():
    from kit.training.features.graph_step.loss import load_variables as load_variables

if TYPE_CHECKING:
    from kit.cluster import Cluster as Cluster
    from kit.cluster import current as current_cluster
    from kit.cluster import launchers as launchers

__all__ = [
    "LAMB",
    "LARS",
    "Adagrad",
    "Adam",
    "AdamW",
    "AttachedCluster",
    "Averaged",
    "Bottleneck",
    "Cause",
    "Checkpoints",
    "ClipByNorm",
    "Cluster",
    "ClusterSpec",
    "Comparison",
    "Cosine",
    "Credentials",
    "DelayCompensated",
    "DeviceSpec",
    "Elastic",
    "Flight",
    "Gathered",
    "GradientDescent",
    "Graph",
    "Group",
    "Groups",
    "Krum",
    "Lion",
    "LossScale",
    "MajorityVote",
    "Median",
    "Momentum",
    "OneCycle",
    "Op",
    "PowerSGD",
    "RMSProp",
    "Recommendation",
    "Recording",
    "Rehearsal",
    "Run",
    "RunMetadata",
    "Server",
    "Session",
    "Settings",
    "Sweep",
    "Task",
    "Tensor",
    "TopK",
    "Trace",
    "TrimmedMean",
    "Variable",
    "WarmUp",
    "attach",
    "clip_by_global_norm",
    "clip_by_norm",
    "colocate_with",
    "compare",
    "constant",
    "control_dependencies",
    "current_cluster",
    "device",
    "diff",
    "errors",
    "evolve",
    "global_norm",
    "gradients",
    "group",
    "identity",
    "initialize_all",
    "kubernetes",
    "launchers",
    "load_checkpoint",
    "load_run",
    "load_sweep",
    "load_variables",
    "name_scope",
    "nn",
    "placeholder",
    "py_function",
    "random",
    "recommend",
    "rehearse",
    "replay",
    "replica_device_setter",
    "restore_variables",
    "save_variables",
    "settings",
    "stop_gradient",
    "this_server",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in ("Cluster", "current_cluster", "launchers"):
        from kit import cluster

        return getattr(cluster, "current" if name == "current_cluster" else name)
    if name == "__version__":  # pyproject.toml says it, and what is installed
        from importlib.metadata import version

        return version("psring")
    raise features.lacking(__name__, name)


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to a notebook; `%load_ext kit` calls this."""
    from kit import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics again; `%unload_ext kit` calls this."""
    from kit import magics

    magics.unload(shell)
