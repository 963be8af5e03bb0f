"""`tf.layers`: layers that make their own variables, as functions and as classes."""

from __future__ import annotations

from typing import Any

from kit.tf1.layers.core import Dense as Dense
from kit.tf1.layers.core import Dropout as Dropout
from kit.tf1.layers.core import Flatten as Flatten
from kit.tf1.layers.core import dense as dense
from kit.tf1.layers.core import dropout as dropout
from kit.tf1.layers.core import flatten as flatten
from kit.tf1.layers.images import AveragePooling2D as AveragePooling2D
from kit.tf1.layers.images import Conv2D as Conv2D
from kit.tf1.layers.images import Conv2DTranspose as Conv2DTranspose
from kit.tf1.layers.images import MaxPooling2D as MaxPooling2D
from kit.tf1.layers.images import average_pooling2d as average_pooling2d
from kit.tf1.layers.images import conv2d as conv2d
from kit.tf1.layers.images import conv2d_transpose as conv2d_transpose
from kit.tf1.layers.images import max_pooling2d as max_pooling2d
from kit.tf1.layers.layer import Layer as Layer
from kit.tf1.layers.normalization import BatchNormalization as BatchNormalization
from kit.tf1.layers.normalization import batch_normalization as batch_normalization
from kit.tf1.not_offered import refuse

__all__ = [
    "AveragePooling2D",
    "BatchNormalization",
    "Conv2D",
    "Conv2DTranspose",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "MaxPooling2D",
    "average_pooling2d",
    "batch_normalization",
    "conv2d",
    "conv2d_transpose",
    "dense",
    "dropout",
    "flatten",
    "max_pooling2d",
]


def __getattr__(name: str) -> Any:
    refuse("layers", name)
