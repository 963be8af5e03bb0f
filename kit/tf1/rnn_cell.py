"""`tf.nn.rnn_cell`: cells of recurrent networks."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.rnn.cells",
    "kit.tf1.rnn.states",
    without=["check_cell", "like", "mapped"],
)


def __getattr__(name: str) -> Any:
    refuse("nn.rnn_cell", name)
