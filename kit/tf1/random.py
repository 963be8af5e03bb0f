"""`tf.random`: random numbers, under the names of the last releases."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse
from kit.tf1.ops.random import categorical as categorical
from kit.tf1.ops.random import get_seed as get_seed
from kit.tf1.ops.random import multinomial as multinomial
from kit.tf1.ops.random import random_normal as normal
from kit.tf1.ops.random import random_shuffle as shuffle
from kit.tf1.ops.random import random_uniform as uniform
from kit.tf1.ops.random import set_random_seed as set_random_seed
from kit.tf1.ops.random import truncated_normal as truncated_normal

__all__ = [
    "categorical",
    "get_seed",
    "multinomial",
    "normal",
    "set_random_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]


def __getattr__(name: str) -> Any:
    refuse("random", name)
