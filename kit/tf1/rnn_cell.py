"""`tf.nn.rnn_cell`: cells of recurrent networks."""

from __future__ import annotations

from kit.tf1.not_offered import refusing
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.rnn.cells",
    without=["LoopNoise", "check_cell", "like", "mapped"],
)

__getattr__ = refusing("nn.rnn_cell")
