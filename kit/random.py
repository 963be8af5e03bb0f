"""Random tensors: each run draws new numbers, and a seed repeats them.

Every op has its own stream, which begins anew in each session. Two seeds decide
it, the op's (`seed=`) and the graph's (`graph.seed`): with either set, equal programs
draw equal numbers, on every device.

    w = kit.Variable(kit.random.normal([784, 10], stddev=0.01, seed=1), name="w")
"""

from __future__ import annotations

from kit.graph.ops.math.random import integers as integers
from kit.graph.ops.math.random import normal as normal
from kit.graph.ops.math.random import shuffle as shuffle
from kit.graph.ops.math.random import truncated_normal as truncated_normal
from kit.graph.ops.math.random import uniform as uniform

__all__ = ["integers", "normal", "shuffle", "truncated_normal", "uniform"]
