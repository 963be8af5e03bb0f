"""`tensorflow.contrib.learn.python.learn`: its `datasets`."""

from kit.tf1.contrib.learn import datasets as datasets
from kit.tf1.python.submodules import importable

importable(__name__, ["datasets", "datasets.mnist"])
