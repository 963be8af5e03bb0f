"""The parts of `tf.contrib` that programs use in a cluster, and to write a model."""

from __future__ import annotations

from kit.tf1 import older
from kit.tf1.contrib import framework as framework
from kit.tf1.contrib import layers as layers
from kit.tf1.contrib import learn as learn
from kit.tf1.contrib import legacy_seq2seq as legacy_seq2seq
from kit.tf1.contrib import losses as losses
from kit.tf1.contrib import metrics as metrics
from kit.tf1.contrib import nn as nn
from kit.tf1.contrib import opt as opt
from kit.tf1.contrib import rnn as rnn
from kit.tf1.contrib import seq2seq as seq2seq
from kit.tf1.contrib import session_bundle as session_bundle
from kit.tf1.contrib import slim as slim
from kit.tf1.contrib import staging as staging
from kit.tf1.contrib import training as training
from kit.tf1.not_offered import refusing
from kit.tf1.python.submodules import importable

deprecated = older
importable(
    f"{__name__}.layers",
    ["python", "python.layers", "python.layers.initializers"],
)

__getattr__ = refusing("contrib")
