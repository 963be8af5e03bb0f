"""The format before SavedModel: what asks for it is told of that one."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse


def __getattr__(name: str) -> Any:
    refuse("contrib.session_bundle.exporter", name)
