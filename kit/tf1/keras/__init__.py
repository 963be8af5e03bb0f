"""`tf.keras`: only the digits of its `datasets`, and `utils.to_categorical`."""

from __future__ import annotations

from kit.tf1.keras import categories
from kit.tf1.keras import datasets as datasets
from kit.tf1.not_offered import refusing
from kit.tf1.python.submodules import importable

utils = categories
importable(__name__, ["utils"])

__getattr__ = refusing("keras")
