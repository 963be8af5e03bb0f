"""`tf.math`: operations on numbers, under the names of the last releases."""

from __future__ import annotations

from kit.tf1.not_offered import names_of, refusing
from kit.tf1.ops.arithmetic import abs as abs
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.ops.arithmetic",
    "kit.tf1.ops.composed",
    "kit.tf1.ops.nn_activation",
    "kit.tf1.ops.nn_layer",
    "kit.tf1.ops.numbers",
    "kit.tf1.ops.reduce",
    "kit.tf1.ops.segment",
    only=names_of("math"),
)

__getattr__ = refusing("math")
