"""How a hook finds what counts the steps, where it runs."""

from __future__ import annotations

from typing import Any

from kit.hooks.environment import Environment
from kit.hooks.hook import SessionRunHook


def needed_global_step(where: Environment, hook: SessionRunHook) -> Any:
    """Return the fetch for the global step; raises `RuntimeError` if there is none."""
    step = where.global_step()
    if step is None:
        raise RuntimeError(
            f"Global step should be created to use {type(hook).__name__}: call "
            f"tf.train.get_or_create_global_step() and give it to minimize()."
        )
    return step
