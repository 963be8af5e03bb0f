"""Bring a topology of one's own to the tasks of a cluster, wherever it is defined.

It travels by value over ipyparallel's encrypted channel, as a cell does, and is
registered in each task under its name. So it may be of a notebook's cell, of a script,
or of a module that the tasks do not have; what it imports they must have.
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
    """Return the topology of that name, if it is one's own; else nothing.

    Raises `InvalidArgumentError` for one that holds what cannot be sent, such as a
    lock, and for a name that is not known here.
    """
    topology = by_name(name)
    if not is_own(topology):
        return {}
    try:
        with _by_value(topology):
            return {name: cloudpickle.dumps(topology)}
    except Exception as error:  # whatever the classes of its attributes raise
        raise InvalidArgumentError(
            f"topology {name!r} cannot be sent to the tasks: {type(error).__name__}: "
            f"{error}. Keep plain values in it, and make the rest in plan()."
        ) from error


def take(topologies: Mapping[str, bytes]) -> None:
    """Register in this task what `packed` gave."""
    for data in topologies.values():
        register(cloudpickle.loads(data))


@contextmanager
def _by_value(topology: Topology) -> Iterator[None]:
    """Have the modules of its classes pickled by value, not by their names.

    One that was imported by name would be looked up in the task: it may not be there,
    or be what it was before it was changed here.
    """
    known = cloudpickle.list_registry_pickle_by_value()
    with ExitStack() as stack:
        for module in _own_modules(topology):
            if module.__name__ not in known:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield


def _own_modules(topology: Topology) -> list[ModuleType]:
    names = {one.__module__ for one in type(topology).__mro__}
    theirs = {"kit", *sys.stdlib_module_names}
    return [
        sys.modules[name]
        for name in sorted(names)
        if name in sys.modules and name.split(".")[0] not in theirs
    ]
