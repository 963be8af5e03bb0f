"""The entries of the table of ops, and the functions that write them into a graph.

Importing this package imports all its files, which fills the table (`kit.graph.table`)
and the tables of numpy's functions (`kit.graph.array_protocol`). One file a family.
"""

from importlib import import_module
from pkgutil import walk_packages

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
