"""Whether the variables of a session have values, and which have none."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.errors import FailedPreconditionError

_MARK = "uninitialized"


_WHAT = "Variables not initialized: "


def missing(session: Any, op: Any) -> str | None:
    """Return what is not ready, None if all is.

    `op` gives the names of what is not ready; nothing, an operation, and whole numbers
    mean that all is. Raises what the run raises, unless that is a variable without a
    value, and `AttributeError` for other than names.
    """
    if op is None:
        return None
    try:
        found = session.run(op)
    except FailedPreconditionError as error:
        if _MARK not in str(error):
            raise
        return error.message
    if found is None:
        return None
    names = np.ravel(found)
    if names.dtype == np.int32 or not names.size:
        return None
    return f"{_WHAT}{', '.join(map(_text, names))}"


def located(graph: Any, lacking: str) -> str:
    """Return what `missing` has said, with the devices that the variables are on."""
    if not lacking.startswith(_WHAT):
        return lacking
    by_device: dict[str, list[str]] = {}
    for name in lacking.removeprefix(_WHAT).split(", "):
        try:
            device = graph.get_operation_by_name(name).device
        except (KeyError, ValueError):
            device = ""
        by_device.setdefault(device, []).append(name)
    return "; ".join(
        f"variables {', '.join(names)}{f' on {device}' if device else ''} are not "
        f"initialised"
        for device, names in by_device.items()
    )


def _text(name: Any) -> str:
    if not isinstance(name, bytes | str):
        raise AttributeError(  # as the original, which decodes what it gets
            f"a ready_op gives the names of variables that have no value, not {name!r}."
        )
    return name.decode() if isinstance(name, bytes) else name
