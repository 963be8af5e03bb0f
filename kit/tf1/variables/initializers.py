"""`tf.initializers`: functions of a shape that give variables their initial values."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse
from kit.tf1.variables.initial_values import Constant as constant
from kit.tf1.variables.initial_values import GlorotNormal as glorot_normal
from kit.tf1.variables.initial_values import GlorotUniform as glorot_uniform
from kit.tf1.variables.initial_values import Identity as identity
from kit.tf1.variables.initial_values import Ones as ones
from kit.tf1.variables.initial_values import Orthogonal as orthogonal
from kit.tf1.variables.initial_values import RandomNormal as random_normal
from kit.tf1.variables.initial_values import RandomUniform as random_uniform
from kit.tf1.variables.initial_values import TruncatedNormal as truncated_normal
from kit.tf1.variables.initial_values import UniformUnitScaling as uniform_unit_scaling
from kit.tf1.variables.initial_values import VarianceScaling as variance_scaling
from kit.tf1.variables.initial_values import Zeros as zeros
from kit.tf1.variables.initial_values import he_normal as he_normal
from kit.tf1.variables.initial_values import he_uniform as he_uniform
from kit.tf1.variables.initial_values import lecun_normal as lecun_normal
from kit.tf1.variables.initial_values import lecun_uniform as lecun_uniform
from kit.tf1.variables.variable_lists import (
    global_variables_initializer as global_variables,
)
from kit.tf1.variables.variable_lists import (
    local_variables_initializer as local_variables,
)
from kit.tf1.variables.variable_lists import variables_initializer as variables

__all__ = [
    "constant",
    "global_variables",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "local_variables",
    "ones",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "uniform_unit_scaling",
    "variables",
    "variance_scaling",
    "zeros",
]


def __getattr__(name: str) -> Any:
    refuse("initializers", name)
