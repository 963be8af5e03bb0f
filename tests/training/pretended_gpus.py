"""Two GPUs that compute with numpy, for trainings with device="gpu" in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kit import arrays
from tests.strict_arrays import StrictArray, StrictGpu, strict
from tests.training.compiled_kernels import COMPILER, CompiledKernel


@contextmanager
def pretended_gpus(*, can_be_opened: bool = True) -> Iterator[list[StrictGpu]]:
    """Give this process two GPUs, whose memory workers can open, or cannot."""
    gpus = [StrictGpu(0), StrictGpu(1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "all_gpus", lambda: gpus)
        patch.setitem(sys.modules, "cupy", strict)
        patch.setattr(StrictArray, "__module__", "cupy")
        if COMPILER is not None:
            patch.setattr(strict, "ElementwiseKernel", CompiledKernel, raising=False)
        if not can_be_opened:
            patch.setattr(StrictGpu, "open", _refuse)
        yield gpus
    assert [gpu.pinned for gpu in gpus] == [{}, {}]


def _refuse(gpu: StrictGpu, handle: bytes, n_bytes: int) -> None:
    raise RuntimeError("cudaErrorInvalidDevice")
