"""`tensorflow.core.framework.summary_pb2`: what a summary holds."""

from __future__ import annotations

from functools import partial

from kit.tf1.core.util import event_pb2

__getattr__ = partial(getattr, event_pb2)
