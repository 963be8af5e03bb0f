r"""`tf.compat`: texts and bytes of both Pythons, and `v1`, which is `tf` itself.

>>> as_bytes("é"), as_text(b"a"), as_str_any(1)
(b'\xc3\xa9', 'a', '1')
"""

from __future__ import annotations

import numbers
import os
import sys
from typing import Any, Final

import numpy as np

from kit.tf1.not_offered import refusing

v1: Final = sys.modules["kit.tf1"]  # which imports this module
sys.modules[f"{__name__}.v1"] = v1  # import kit.tf1.compat.v1 as tf

bytes_or_text_types: Final = (bytes, str)
integral_types: Final = (numbers.Integral, np.integer)
real_types: Final = (numbers.Real, np.integer, np.floating)
complex_types: Final = (numbers.Complex, np.number)


def as_bytes(bytes_or_text: bytes | str, encoding: str = "utf-8") -> bytes:
    """Return a text as bytes, and bytes as they are; `TypeError` for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    return _checked(bytes_or_text)


def as_text(bytes_or_text: bytes | str, encoding: str = "utf-8") -> str:
    """Return bytes as a text, and a text as it is; `TypeError` for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    return _checked(bytes_or_text).decode(encoding)


as_str = as_text


def as_str_any(value: Any) -> str:
    """Return bytes as a text, and `str` of anything else."""
    return as_text(value) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Return a path as a text; what is no path is returned as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


def _checked(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    raise TypeError(f"Expected binary or unicode string, got {value!r}")


__getattr__ = refusing("compat")
