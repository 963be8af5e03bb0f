"""psring: learn and try distributed training, from a notebook.

    import kit

    with kit.Cluster(ps=1, worker=3) as cluster:
        run = kit.train(step, params, data, topology="ps", steps=300)
        run.topology = "ring"       # taken up between two steps
        run.wait()

Importing this package starts nothing and prints nothing. `Cluster` is imported when it
is first asked for: a task's process does without ipyparallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit import errors as errors
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

if TYPE_CHECKING:
    from kit.cluster import Cluster as Cluster
    from kit.cluster import current as current_cluster

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


def __getattr__(name: str) -> Any:
    if name in ("Cluster", "current_cluster"):
        from kit import cluster

        return cluster.current if name == "current_cluster" else cluster.Cluster
    raise AttributeError(f"module 'kit' has no attribute {name!r}")
