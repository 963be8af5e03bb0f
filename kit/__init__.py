"""psring: learn and try distributed training, from a notebook.

    import kit

    with kit.Cluster(ps=1, worker=3) as cluster:
        run = kit.train(step, params, data, topology="ps", steps=300)
        run.topology = "ring"       # taken up between two steps
        run.wait()

Importing this package starts nothing and prints nothing.
"""

from __future__ import annotations

from kit import errors as errors
from kit.cluster import Cluster as Cluster
from kit.cluster import current as current_cluster
from kit.device import DeviceSpec as DeviceSpec
from kit.server.server import Server as Server
from kit.settings import Settings as Settings
from kit.settings import settings as settings
from kit.spec import ClusterSpec as ClusterSpec
from kit.task import Task as Task
from kit.trace import Trace as Trace
from kit.train.launch import train as train
from kit.train.optimizers import Adagrad as Adagrad
from kit.train.optimizers import Adam as Adam
from kit.train.optimizers import GradientDescent as GradientDescent
from kit.train.optimizers import Momentum as Momentum
from kit.train.optimizers import RMSProp as RMSProp
from kit.train.run import Run as Run

__all__ = [
    "Adagrad",
    "Adam",
    "Cluster",
    "ClusterSpec",
    "DeviceSpec",
    "GradientDescent",
    "Momentum",
    "RMSProp",
    "Run",
    "Server",
    "Settings",
    "Task",
    "Trace",
    "current_cluster",
    "errors",
    "settings",
    "train",
]
