"""`tf` of the recorded cases: the module of TensorFlow 1.x's names that they try.

That is `kit.tf1`, unless `record.py` has put an original in its place. Runs under the
interpreters of the recorded systems too, so it stays with the syntax of Python 3.7.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Case = Callable[[], Any]
else:
    Case = None  # Python 3.7 cannot evaluate this


class Tried:
    """Has the names of the module that is tried."""

    def __init__(self) -> None:
        self.module: Any = None

    def __getattr__(self, name: str) -> Any:
        if self.module is None:
            self.module = importlib.import_module("kit.tf1")
        return getattr(self.module, name)


tf: Any = Tried()
