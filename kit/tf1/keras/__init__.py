"""`tf.keras`: only the digits of its `datasets`."""

from __future__ import annotations

from typing import Any

from kit.tf1.keras import datasets as datasets
from kit.tf1.not_offered import refuse

__all__ = ["datasets"]


def __getattr__(name: str) -> Any:
    refuse("keras", name)
