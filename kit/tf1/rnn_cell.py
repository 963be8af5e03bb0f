"""`tf.nn.rnn_cell`: cells of recurrent networks."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse
from kit.tf1.rnn.cells import BasicLSTMCell as BasicLSTMCell
from kit.tf1.rnn.cells import BasicRNNCell as BasicRNNCell
from kit.tf1.rnn.cells import DropoutWrapper as DropoutWrapper
from kit.tf1.rnn.cells import GRUCell as GRUCell
from kit.tf1.rnn.cells import LSTMCell as LSTMCell
from kit.tf1.rnn.cells import MultiRNNCell as MultiRNNCell
from kit.tf1.rnn.cells import RNNCell as RNNCell
from kit.tf1.rnn.states import LSTMStateTuple as LSTMStateTuple

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
]


def __getattr__(name: str) -> Any:
    refuse("nn.rnn_cell", name)
