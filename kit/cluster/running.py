"""Which cluster is meant where none is named: the one started or entered last.

Importing this lets the layers below find it: trainings, devices, dask, and the sessions
that carry Python functions of a graph to its engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.cluster import lifecycle
from kit.cluster.cluster import Cluster
from kit.devices.device import set_known_tasks
from kit.errors import FailedPreconditionError, InvalidArgumentError, KitError
from kit.graph.ops.state.function import take
from kit.session.client.dask_graph import set_cluster
from kit.session.client.remote import set_function_carrier
from kit.task import Task
from kit.training.train import set_current


def current() -> Cluster:
    """Return the running cluster that was started or entered last.

    Raises
    ------
    FailedPreconditionError
        No cluster is running.

    Examples
    --------
    End whatever cluster runs::

        kit.current_cluster().stop()
    """
    cluster = _newest()
    if cluster is None:
        raise FailedPreconditionError(
            "no cluster is running; start one: kit.Cluster(ps=1, worker=3).start()."
        )
    return cluster


def _newest() -> Cluster | None:
    clusters = [c for c in lifecycle.running() if isinstance(c, Cluster)]
    return clusters[-1] if clusters else None


def _known_tasks() -> list[Task] | None:
    cluster = _newest()
    return None if cluster is None else cluster.tasks


def carry(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Hand Python functions of a graph to all engines; does nothing without a cluster.

    Like all calls to engines they go by cloudpickle, over ipyparallel's encrypted
    channel. Raises `InvalidArgumentError` for a function that cannot be pickled.
    """
    cluster = _newest()
    if cluster is None:
        return
    try:
        cluster.call("all", take, dict(functions))
    except KitError:
        raise
    except Exception as exc:  # pickling raises whatever the object's class does
        names = ", ".join(repr(function) for function in functions.values())
        raise InvalidArgumentError(
            f"a Python function of the graph cannot travel to the engines ({names}): "
            f"{exc}. Make what it needs inside of it, or leave out what is bound to "
            f"this process, such as files and locks."
        ) from exc


set_current(current)
set_known_tasks(_known_tasks)
set_cluster(current)
set_function_carrier(carry)
