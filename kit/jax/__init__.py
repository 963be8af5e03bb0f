"""jax through psring: functions of pytrees as step functions."""

from importlib.util import find_spec

if find_spec("jax") is None:
    raise ImportError("kit.jax needs jax; run: pip install jax")

from kit.jax.trees import step as step
