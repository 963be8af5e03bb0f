"""psring: learn and try distributed training, from a notebook."""

from __future__ import annotations

from kit.device import DeviceSpec as DeviceSpec
from kit.server.server import Server as Server
from kit.spec import ClusterSpec as ClusterSpec
from kit.task import Task as Task
from kit.train.launch import train as train
from kit.train.optimizers import Adagrad as Adagrad
from kit.train.optimizers import Adam as Adam
from kit.train.optimizers import GradientDescent as GradientDescent
from kit.train.optimizers import Momentum as Momentum
from kit.train.optimizers import RMSProp as RMSProp
