"""`tensorflow.core.util.event_pb2`: messages of event files, TensorBoard's classes."""

from __future__ import annotations

from typing import Any

from kit.tf1.summary.messages import MESSAGES, message


def __getattr__(name: str) -> Any:
    if name not in MESSAGES["summary"] | MESSAGES[""]:
        raise AttributeError(f"module {__name__!r} has no {name!r}.")
    return message(name)
