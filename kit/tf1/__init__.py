"""The names of TensorFlow 1.x: `from kit import tf1 as tf` in place of its import.

Graphs, sessions, servers, variables, placement and optimizers of the original's
distributed runtime, on top of `kit`. Values, names, dtypes and types of errors are the
original's; where it would wait for ever, a `DeadlineExceededError` says what is
missing.
"""

from __future__ import annotations

from typing import Any

from kit.devices.device import DeviceSpec as DeviceSpec
from kit.graph.op import IndexedSlices as IndexedSlices
from kit.session.client.cached_run import IndexedSlicesValue as IndexedSlicesValue
from kit.tf1 import app as app
from kit.tf1 import compat as compat
from kit.tf1 import contrib as contrib
from kit.tf1 import data as data
from kit.tf1 import errors as errors
from kit.tf1 import flags as flags
from kit.tf1 import gfile as gfile
from kit.tf1 import graph_util as graph_util
from kit.tf1 import image as image
from kit.tf1 import keras as keras
from kit.tf1 import layers as layers
from kit.tf1 import logging as logging
from kit.tf1 import losses as losses
from kit.tf1 import math as math
from kit.tf1 import metrics as metrics
from kit.tf1 import nn as nn
from kit.tf1 import older as older
from kit.tf1 import python_io as python_io
from kit.tf1 import random as random
from kit.tf1 import saved_model as saved_model
from kit.tf1 import summary as summary
from kit.tf1 import test as test
from kit.tf1 import train as train
from kit.tf1.errors import OpError as OpError
from kit.tf1.graph.importing import import_graph_def as import_graph_def
from kit.tf1.not_offered import names_of, refuse
from kit.tf1.older import inv as inv
from kit.tf1.older import merge_summary as merge_summary
from kit.tf1.older import mul as mul
from kit.tf1.older import neg as neg
from kit.tf1.older import pack as pack
from kit.tf1.older import sub as sub
from kit.tf1.older import unpack as unpack
from kit.tf1.ops.arithmetic import abs as abs
from kit.tf1.public import offer
from kit.tf1.session.run_metadata import RunMetadata as RunMetadata
from kit.tf1.session.running import get_default_session as get_default_session
from kit.tf1.session.session import InteractiveSession as InteractiveSession
from kit.tf1.session.session import Session as Session
from kit.tf1.summary.messages import MESSAGES, message
from kit.tf1.tensor.dtypes import bool_ as bool  # noqa: F401
from kit.tf1.tensor.shape import Dimension as Dimension
from kit.tf1.tensor.shape import TensorShape as TensorShape
from kit.tf1.tensor.shape import dimension_value as dimension_value
from kit.tf1.tensor.tensor import Tensor as Tensor
from kit.tf1.variables import initializers as initializers

offer(
    __name__,
    "kit.tf1.accumulators",
    "kit.tf1.graph.collections",
    "kit.tf1.graph.control",
    "kit.tf1.graph.graph",
    "kit.tf1.graph.graph_def",
    "kit.tf1.graph.operation",
    "kit.tf1.ops.arithmetic",
    "kit.tf1.ops.blocks",
    "kit.tf1.ops.checks",
    "kit.tf1.ops.clip",
    "kit.tf1.ops.composed",
    "kit.tf1.ops.condition",
    "kit.tf1.ops.flow",
    "kit.tf1.ops.loop",
    "kit.tf1.ops.creation",
    "kit.tf1.ops.function",
    "kit.tf1.ops.gradient",
    "kit.tf1.ops.index",
    "kit.tf1.ops.join",
    "kit.tf1.ops.numbers",
    "kit.tf1.ops.random",
    "kit.tf1.ops.reduce",
    "kit.tf1.ops.segment",
    "kit.tf1.ops.shape",
    "kit.tf1.ops.sparse",
    "kit.tf1.parsing",
    "kit.tf1.queues",
    "kit.tf1.readers",
    "kit.tf1.session.config",
    "kit.tf1.tensor.convert",
    "kit.tf1.tensor.dtypes",
    "kit.tf1.tensor.proto",
    "kit.tf1.tensor.sparse",
    "kit.tf1.variables.assigning",
    "kit.tf1.variables.partitioners",
    "kit.tf1.variables.scopes",
    "kit.tf1.variables.variable_lists",
    "kit.tf1.variables.variables",
    "kit.tf1.older",  # its op_scope is the one of that time
    only=names_of("") | vars(older).keys(),
)

newaxis = None
globals().update(
    (f"{name}_initializer", getattr(initializers, name))
    for name in (
        *("constant", "glorot_normal", "glorot_uniform", "ones", "orthogonal"),
        *("random_normal", "random_uniform", "truncated_normal"),
        *("uniform_unit_scaling", "variance_scaling", "zeros"),
    )
)
# The release that these names are from: programs check that it begins with "1.".
VERSION = __version__ = "1.15.5"
GIT_VERSION = __git_version__ = f"v{VERSION}"


def __getattr__(name: str) -> Any:
    if name in MESSAGES[""]:
        return message(name)
    refuse("", name)
