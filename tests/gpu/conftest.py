"""What a process keeps of CUDA is there before its first test looks for leaks."""

from __future__ import annotations

import numpy as np
import pytest

from kit.arrays import all_gpus


@pytest.fixture(scope="session", autouse=True)
def context() -> None:
    """Make the context of each GPU: its descriptors stay until the process ends."""
    for gpu in all_gpus():
        with gpu.entered():
            x = gpu.put(np.ones((2, 2), np.float32))
            gpu.get(x @ x)
