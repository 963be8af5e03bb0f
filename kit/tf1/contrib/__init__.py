"""The few names of `tf.contrib` that training in a cluster needs."""

from __future__ import annotations

from typing import Any

from kit.tf1.contrib import framework as framework
from kit.tf1.contrib import rnn as rnn
from kit.tf1.contrib import training as training
from kit.tf1.not_offered import refuse

__all__ = ["framework", "rnn", "training"]


def __getattr__(name: str) -> Any:
    refuse("contrib", name)
