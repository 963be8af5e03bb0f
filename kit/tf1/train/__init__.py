"""`tf.train`: clusters, servers, optimizers, schedules, the global step."""

from __future__ import annotations

from typing import Any

from kit.tf1.scope import refuse
from kit.tf1.train.average import ExponentialMovingAverage as ExponentialMovingAverage
from kit.tf1.train.global_step import assert_global_step as assert_global_step
from kit.tf1.train.global_step import create_global_step as create_global_step
from kit.tf1.train.global_step import get_global_step as get_global_step
from kit.tf1.train.global_step import (
    get_or_create_global_step as get_or_create_global_step,
)
from kit.tf1.train.global_step import global_step as global_step
from kit.tf1.train.optimizer import Optimizer as Optimizer
from kit.tf1.train.optimizers import AdagradOptimizer as AdagradOptimizer
from kit.tf1.train.optimizers import AdamOptimizer as AdamOptimizer
from kit.tf1.train.optimizers import (
    GradientDescentOptimizer as GradientDescentOptimizer,
)
from kit.tf1.train.optimizers import MomentumOptimizer as MomentumOptimizer
from kit.tf1.train.optimizers import RMSPropOptimizer as RMSPropOptimizer
from kit.tf1.train.schedule import cosine_decay as cosine_decay
from kit.tf1.train.schedule import exponential_decay as exponential_decay
from kit.tf1.train.schedule import inverse_time_decay as inverse_time_decay
from kit.tf1.train.schedule import natural_exp_decay as natural_exp_decay
from kit.tf1.train.schedule import piecewise_constant as piecewise_constant
from kit.tf1.train.schedule import piecewise_constant as piecewise_constant_decay
from kit.tf1.train.schedule import polynomial_decay as polynomial_decay
from kit.tf1.train_servers import ClusterDef as ClusterDef
from kit.tf1.train_servers import ClusterSpec as ClusterSpec
from kit.tf1.train_servers import JobDef as JobDef
from kit.tf1.train_servers import Server as Server
from kit.tf1.train_servers import ServerDef as ServerDef
from kit.tf1.train_servers import replica_device_setter as replica_device_setter

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "ClusterDef",
    "ClusterSpec",
    "ExponentialMovingAverage",
    "GradientDescentOptimizer",
    "JobDef",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
    "Server",
    "ServerDef",
    "assert_global_step",
    "cosine_decay",
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "inverse_time_decay",
    "natural_exp_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
    "replica_device_setter",
]


def __getattr__(name: str) -> Any:
    refuse("train", name)
