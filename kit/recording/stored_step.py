"""The step function in a recording, by cloudpickle: only for who asks for it.

To load one is to execute what the file says. So it is written only where a recording is
asked for it (`store_step=True`), and loaded only for a caller who says that the
recording can be trusted (`kit.replay(folder, trust_step=True)`).
"""

from __future__ import annotations

from typing import Any

from kit.errors import DataLossError, InvalidArgumentError


def pickled(step: Any) -> bytes:
    """Return the function as bytes; `InvalidArgumentError` if it has no such form."""
    import cloudpickle

    try:
        found: bytes = cloudpickle.dumps(step)
    except Exception as exc:
        raise InvalidArgumentError(
            f"the step function cannot be stored with the recording "
            f"({type(exc).__name__}: {exc}); leave store_step out and give it to "
            f"kit.replay(..., step=...)."
        ) from exc
    return found


def unpickled(data: bytes) -> Any:
    """Execute what `pickled` has written; only of a recording that is trusted."""
    import cloudpickle

    try:
        return cloudpickle.loads(data)
    except Exception as exc:
        raise DataLossError(
            f"the step function in the recording cannot be loaded "
            f"({type(exc).__name__}: {exc}); give it as step=...."
        ) from exc
