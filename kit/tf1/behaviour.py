"""Switches between the original's first and second version: this is the first.

A program that begins with `tf.disable_v2_behavior()` goes on as it is.
"""

from __future__ import annotations


def disable_v2_behavior() -> None:
    """Do nothing: graphs are built and run in sessions anyway."""


def disable_eager_execution() -> None:
    """Do nothing: lines build a graph anyway."""


def executing_eagerly() -> bool:
    """Return False: a line builds a graph, and nothing is computed yet."""
    return False
