"""`tf.layers`: layers that make their own variables, as functions and as classes."""

from __future__ import annotations

from kit.tf1.layers.layer import Layer as Layer
from kit.tf1.not_offered import refusing
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.layers.core",
    "kit.tf1.layers.images",
    "kit.tf1.layers.normalization",
    without=["pair"],
)

__getattr__ = refusing("layers")
