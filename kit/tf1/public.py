"""The public names of `tf` and of its parts: what the modules behind them define.

A function of `kit/tf1/ops/arithmetic.py` is `tf.<name>` and `tf.math.<name>` because it
is defined there: there is no second list. A module that is offered so calls what it
keeps for itself `_name`.
"""

from __future__ import annotations

import sys
from collections.abc import Container
from importlib import import_module


def offer(
    facade: str,
    *modules: str,
    without: Container[str] = (),
    only: Container[str] | None = None,
) -> None:
    """Give a module the public names that other modules define, and none they import.

    `only` are those that it may have, as `names_of` has them.

    >>> offer(__name__, "kit.tf1.ops.clip", without=["clip_by_value"])
    >>> sys.modules[__name__].clip_by_norm.__module__, hasattr(sys, "clip_by_value")
    ('kit.tf1.ops.clip', False)
    """
    for path in modules:
        for name, value in vars(import_module(path)).items():
            is_own = getattr(value, "__module__", None) == path
            fits = name not in without and (only is None or name in only)
            if is_own and fits and not name.startswith("_"):
                setattr(sys.modules[facade], name, value)
