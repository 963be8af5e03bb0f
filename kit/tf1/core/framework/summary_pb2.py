"""`tensorflow.core.framework.summary_pb2`: what a summary holds."""

from __future__ import annotations

from typing import Any

from kit.tf1.core.util import event_pb2


def __getattr__(name: str) -> Any:
    return getattr(event_pb2, name)
