"""`tf.contrib.rnn`: the cells of `tf.nn.rnn_cell`, and static unrolling."""

from __future__ import annotations

from kit.tf1 import rnn_cell as rnn_cell
from kit.tf1.not_offered import refusing
from kit.tf1.public import offer
from kit.tf1.rnn.unroll import static_bidirectional_rnn as static_bidirectional_rnn
from kit.tf1.rnn.unroll import static_rnn as static_rnn

offer(
    __name__,
    "kit.tf1.rnn.cells",
    without=["LoopNoise", "check_cell", "like", "mapped"],
)

__getattr__ = refusing("contrib.rnn")
