"""Bring a user's own topology to the tasks of a cluster, wherever it is defined.

It travels by value over ipyparallel's encrypted channel, as a cell does, and is
registered in each task under its name. So it may be defined in a notebook's cell, a
script, or a module that the tasks do not have; they must have the modules it imports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType

import cloudpickle

from kit.errors import InvalidArgumentError
from kit.exchange.topologies.topology import Topology, by_name, is_own, register


def packed(name: str) -> dict[str, bytes]:
    """Return the pickled topology of that name if the user wrote it; else nothing.

    Raises `InvalidArgumentError` for a topology with an attribute that cannot be sent,
    such as a lock, and for a name that is not known here.
    """
    topology = by_name(name)
    if not is_own(topology):
        return {}
    try:
        with _by_value(topology):
            return {name: cloudpickle.dumps(topology)}
    except Exception as error:  # the classes of its attributes may raise anything
        raise InvalidArgumentError(
            f"topology {name!r} cannot be sent to the tasks: {type(error).__name__}: "
            f"{error}. Keep plain values in it, and make the rest in plan()."
        ) from error


def take(topologies: Mapping[str, bytes]) -> None:
    """Register in this task the topologies that `packed` returned."""
    for data in topologies.values():
        register(cloudpickle.loads(data))


@contextmanager
def _by_value(topology: Topology) -> Iterator[None]:
    """Have the modules of its classes pickled by value, not by name.

    By name they would be imported in the task, where they may be missing, or older than
    what was changed here.
    """
    modules = cloudpickle.list_registry_pickle_by_value()
    with ExitStack() as stack:
        for module in _own_modules(topology):
            # What the user has registered stays registered.
            if module.__name__ not in modules:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield


def _own_modules(topology: Topology) -> list[ModuleType]:
    names = {kind.__module__ for kind in type(topology).__mro__}
    theirs = {"kit", *sys.stdlib_module_names}
    return [
        sys.modules[name]
        for name in sorted(names)
        if name in sys.modules and name.split(".")[0] not in theirs
    ]
