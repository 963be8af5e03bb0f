"""Put trained values into the variables of a graph, on the tasks where they live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.errors import NotFoundError
from kit.session.client.session import Session


def load_variables(session: Session, values: Mapping[str, Any]) -> None:
    """Set variables of the session's graph, by name, for example from `run.params`.

    A name is that of the variable, `w` or `w:0`. Variables that are not named keep what
    they have, and nothing is added to the graph. Raises `NotFoundError` for a name that
    the graph does not have, before anything is set, and `ValueError` for a value of
    another shape. Costs one run, and one transfer for each task that holds some.
    """
    known = {one.op.name: one for one in session.graph.variables}
    names = {name: name.removesuffix(":0") for name in values}
    missing = [name for name, own in names.items() if own not in known]
    if missing:
        raise NotFoundError(
            f"the graph has no variable {missing[0]!r}; its variables are "
            f"{', '.join(known) or 'none'}."
        )
    left = {known[own]: values[name] for name, own in names.items()}
    while left:
        # Variables that begin with the same tensor cannot be fed in one run.
        by_initial = {one.initial_value: one for one in reversed(left)}
        feeds = {initial: left.pop(one) for initial, one in by_initial.items()}
        session.run([one.initializer for one in by_initial.values()], feeds)
