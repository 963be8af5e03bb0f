"""Every kernel is tried with numpy and with a module that behaves like a device."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from tests.strict_arrays import strict


@pytest.fixture(params=[np, strict], ids=["numpy", "strict"], scope="session")
def xp(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module
