"""Whether an outcome of ours agrees with a recorded one.

Pure: two pieces of plain data in, a sentence about the first difference out.
"""

from __future__ import annotations

import math
from typing import Any

# Relative and absolute, by the type of the array; other types must be equal.
TOLERANCES = {
    "float16": (2e-3, 1e-3),
    "float32": (1e-5, 1e-6),
    "float64": (1e-9, 1e-12),
}
OF_PLAIN_FLOATS = TOLERANCES["float32"]  # a case may have made one from any array


def difference(ours: Any, recorded: Any) -> str | None:
    """Say where the outcomes differ; None when they agree.

    An error agrees with one of the same name, or with an ancestor of that name, if it
    is of all the recorded kinds. What blocked the original must end in a deadline.
    """
    if "blocks" in recorded:
        recorded = {"raises": "DeadlineExceededError", "is": ["OpError"]}
    if "raises" in recorded:
        return _difference_of_errors(ours, recorded)
    if "value" not in ours or "value" not in recorded:
        same = _public(ours) == recorded
        return None if same else f"{str(recorded)[:200]} was seen, here {_short(ours)}"
    return _difference_of_values(ours["value"], recorded["value"], "the value")


def _difference_of_errors(ours: Any, recorded: Any) -> str | None:
    expected = recorded["raises"]
    if "raises" not in ours:
        return f"{expected} was raised, here {_short(ours)}"
    missing = sorted({*recorded["is"], expected} - {*ours["is"], *ours["_classes"]})
    return f"it is no {', '.join(missing)}: {_short(ours)}" if missing else None


def _difference_of_values(ours: Any, recorded: Any, where: str) -> str | None:
    if type(ours) is not type(recorded):
        return f"{where}: {ours!r} is no {type(recorded).__name__} {recorded!r}"
    if isinstance(recorded, dict) and "dtype" in recorded and "dtype" in ours:
        return _difference_of_arrays(ours, recorded, where)
    if isinstance(recorded, dict):
        if ours.keys() != recorded.keys():
            return f"{where}: {ours!r} is not {recorded!r}"
        pairs = {key: (ours[key], recorded[key]) for key in recorded}
    elif isinstance(recorded, list):
        if len(ours) != len(recorded):
            return f"{where}: {ours!r} is not as long as {recorded!r}"
        pairs = dict(enumerate(zip(ours, recorded, strict=True)))
    else:
        return _difference_of_leaves(ours, recorded, where, OF_PLAIN_FLOATS)
    result = (
        _difference_of_values(item, other, f"{where}[{key!r}]")
        for key, (item, other) in pairs.items()
    )
    return next((text for text in result if text), None)


def _difference_of_arrays(ours: Any, recorded: Any, where: str) -> str | None:
    for key in ("dtype", "shape"):
        if ours[key] != recorded[key]:
            return f"{where}: the {key} is {ours[key]}, not {recorded[key]}"
    tolerance = TOLERANCES.get(recorded["dtype"], (0.0, 0.0))
    pairs = zip(ours["values"], recorded["values"], strict=True)
    result = (
        _difference_of_leaves(item, other, f"{where}, element {index}", tolerance)
        for index, (item, other) in enumerate(pairs)
    )
    return next((text for text in result if text), None)


def _difference_of_leaves(
    ours: Any, recorded: Any, where: str, tolerance: tuple[float, float]
) -> str | None:
    if isinstance(ours, float) and isinstance(recorded, float):
        relative, absolute = tolerance
        same = math.isclose(ours, recorded, rel_tol=relative, abs_tol=absolute)
    else:
        same = type(ours) is type(recorded) and ours == recorded
    return None if same else f"{where}: {ours!r} is not {recorded!r}"


def _public(outcome: Any) -> Any:
    return {key: item for key, item in outcome.items() if not key.startswith("_")}


def _short(outcome: Any) -> str:
    if "raises" in outcome:
        return f"{outcome['raises']} was raised:\n{outcome['_traceback']}"
    return f"{str(outcome)[:200]} came back"
