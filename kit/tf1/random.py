"""`tf.random`: random numbers, under the names of the last releases."""

from __future__ import annotations

from kit.tf1.not_offered import refusing
from kit.tf1.ops.random import random_normal, random_shuffle, random_uniform
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.ops.random",
    without=["random_crop", "random_normal", "random_shuffle", "random_uniform"],
)
normal, shuffle, uniform = random_normal, random_shuffle, random_uniform

__getattr__ = refusing("random")
