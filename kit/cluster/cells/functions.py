"""Python functions of a graph, carried to the engines of the current cluster.

They go by cloudpickle over ipyparallel's encrypted channel, as all calls to engines do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.cluster.running import current
from kit.errors import FailedPreconditionError, InvalidArgumentError, KitError
from kit.graph.ops.state.function import take
from kit.session.client.remote import set_function_carrier


def carry(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Hand functions to all engines; does nothing when no cluster is running.

    Raises `InvalidArgumentError` for a function that cannot be pickled.
    """
    try:
        cluster = current()
    except FailedPreconditionError:
        return
    try:
        cluster.call("all", take, dict(functions))
    except KitError:
        raise
    except Exception as exc:  # what pickling raises is the object's own affair
        names = ", ".join(repr(one) for one in functions.values())
        raise InvalidArgumentError(
            f"a Python function of the graph cannot travel to the engines ({names}): "
            f"{exc}. Make what it needs inside of it, or leave out what is bound to "
            f"this process, such as files and locks."
        ) from exc


set_function_carrier(carry)
