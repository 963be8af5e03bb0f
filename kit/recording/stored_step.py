"""The step function in a recording, by cloudpickle: only on request.

Loading it executes code from the file. So it is written only with `store_step=True`,
and loaded only for a caller that trusts the recording (`kit.replay(folder,
trust_step=True)`).
"""

from __future__ import annotations

from typing import Any

from kit.errors import DataLossError, InvalidArgumentError


def pickled(step: Any) -> bytes:
    """Return the function as bytes; `InvalidArgumentError` if it cannot be pickled."""
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(step)
    except Exception as exc:
        raise InvalidArgumentError(
            f"the step function cannot be stored with the recording "
            f"({type(exc).__name__}: {exc}); leave store_step out and give it to "
            f"kit.replay(..., step=...)."
        ) from exc
    return data


def unpickled(data: bytes) -> Any:
    """Load what `pickled` has written, which executes it: only if it is trusted."""
    import cloudpickle

    try:
        return cloudpickle.loads(data)
    except Exception as exc:
        raise DataLossError(
            f"the step function in the recording cannot be loaded "
            f"({type(exc).__name__}: {exc}); give it as step=...."
        ) from exc
