"""Import lines that go into a module which is `tf` itself, or a part of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import attrgetter
from types import ModuleType


def importable(package: str, names: Iterable[str]) -> None:
    """Let `from kit.tf1.python.ops.array_ops import reshape` find what `ops` names.

    There is no file of that name: `array_ops` is `tf`.
    """
    module = sys.modules[package]
    for name in names:
        sys.modules.setdefault(f"{package}.{name}", attrgetter(name)(module))


def alias(package: str, module: ModuleType, names: str) -> None:
    """Let submodules of a package, named in a text, be a module that lies elsewhere."""
    for name in names.split():
        setattr(sys.modules[package], name, module)
        sys.modules.setdefault(f"{package}.{name}", module)
