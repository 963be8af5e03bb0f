"""`tensorflow.python.util`: texts and bytes of both Pythons."""

from typing import Any

from kit.tf1 import compat as compat
from kit.tf1.not_offered import refuse
from kit.tf1.python.submodules import alias

alias(__name__, compat, "compat")


def __getattr__(name: str) -> Any:
    refuse("python.util", name)
