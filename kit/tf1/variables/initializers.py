"""`tf.initializers`: functions of a shape that give variables their initial values."""

from __future__ import annotations

from kit.tf1.not_offered import refusing
from kit.tf1.variables import initial_values as values
from kit.tf1.variables import variable_lists

constant = values.Constant
glorot_normal = values.GlorotNormal
glorot_uniform = values.GlorotUniform
identity = values.Identity
ones = values.Ones
orthogonal = values.Orthogonal
random_normal = values.RandomNormal
random_uniform = values.RandomUniform
truncated_normal = values.TruncatedNormal
uniform_unit_scaling = values.UniformUnitScaling
variance_scaling = values.VarianceScaling
zeros = values.Zeros
he_normal = values.he_normal
he_uniform = values.he_uniform
lecun_normal = values.lecun_normal
lecun_uniform = values.lecun_uniform
global_variables = variable_lists.global_variables_initializer
local_variables = variable_lists.local_variables_initializer
variables = variable_lists.variables_initializer

__getattr__ = refusing("initializers")
