"""Steps on a GPU where everything else stays in the memory of the host.

So do trainings whose workers keep more than the exchange of a synchronous step has: a
compressor's rest, parameters of their own, copies for others. Parameters are brought to
the GPU for each step, and gradients back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.arrays import Gpu, copy_into
from kit.training.core.workplace import Workplace
from kit.training.worker.worker import GRADS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kit.training.core.context import MemberContext


class StepsOnGpu(Workplace):
    """The memory of the host, and a GPU that computes gradients; see `Workplace`."""

    def __init__(self, context: MemberContext, gpu: Gpu) -> None:
        super().__init__(context)
        self._gpu = gpu

    def at_work(self, context: MemberContext) -> AbstractContextManager[object]:
        """See `Workplace`."""
        return self._gpu.entered()

    def leave(self) -> bool:
        """See `Workplace`."""
        self._gpu.free()
        return False

    def take_in(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """See `Workplace`."""
        return taken_in(self._gpu, batch)

    def step_of(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """See `Workplace`: it gets the parameters there, and writes gradients there."""
        gpu = self._gpu

        @wraps(step, updated=())
        def there(params: Mapping[str, Any], batch: Any, **more: Any) -> Any:
            own = {name: gpu.put(value) for name, value in params.items()}
            on_host = more.get(GRADS)
            if on_host is None:
                return step(own, batch, **more)
            # With the marks of what is not written yet, which come back if it never is.
            grads = {name: gpu.put(value) for name, value in on_host.items()}
            result = step(own, batch, **more | {GRADS: grads})
            if isinstance(result, Generator):
                return _handed_over(result, grads, on_host)
            for name, gradient in grads.items():
                copy_into(on_host[name], gradient, what=name)
            return result

        return there


def _handed_over(
    names: Generator[Any, None, Any], grads: Mapping[str, Any], on_host: Any
) -> Generator[Any, None, Any]:
    """Copy each gradient to the host before its name is told."""
    while True:
        try:
            name = next(names)
        except StopIteration as end:
            return end.value
        if name in grads:
            copy_into(on_host[name], grads[name], what=name)
        yield name


def taken_in(gpu: Gpu, batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a mini-batch whose arrays of numbers are on a GPU."""
    return tuple(
        gpu.put(part)
        if isinstance(part, np.ndarray) and part.dtype.kind in "biufc"
        else part
        for part in batch
    )
