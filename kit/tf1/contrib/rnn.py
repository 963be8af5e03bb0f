"""`tf.contrib.rnn`: the cells of `tf.nn.rnn_cell`, and static unrolling."""

from __future__ import annotations

from typing import Any

from kit.tf1 import rnn_cell as rnn_cell
from kit.tf1.not_offered import refuse
from kit.tf1.rnn.cells import BasicLSTMCell as BasicLSTMCell
from kit.tf1.rnn.cells import BasicRNNCell as BasicRNNCell
from kit.tf1.rnn.cells import DropoutWrapper as DropoutWrapper
from kit.tf1.rnn.cells import GRUCell as GRUCell
from kit.tf1.rnn.cells import LSTMCell as LSTMCell
from kit.tf1.rnn.cells import MultiRNNCell as MultiRNNCell
from kit.tf1.rnn.cells import RNNCell as RNNCell
from kit.tf1.rnn.states import LSTMStateTuple as LSTMStateTuple
from kit.tf1.rnn.unroll import static_bidirectional_rnn as static_bidirectional_rnn
from kit.tf1.rnn.unroll import static_rnn as static_rnn

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "rnn_cell",
    "static_bidirectional_rnn",
    "static_rnn",
]


def __getattr__(name: str) -> Any:
    refuse("contrib.rnn", name)
