"""What is held for the tasks of a host: one copy, private when written."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from kit.cluster.training_start import Pickled
from kit.errors import FailedPreconditionError


@pytest.mark.parametrize("travels", [False, True])
def test_what_is_opened_is_equal_and_stays_when_its_holder_has_let_go(
    travels: bool,
) -> None:
    factor = 3
    data: dict[str, Any] = {
        "x": np.arange(100_000.0),
        "odd": np.ones((3, 5), np.int8),
        "none": np.zeros((0, 2)),
        "every other": np.arange(10)[::2],
        "step": lambda x: factor * x,
    }
    pickled = Pickled.of(data, "the data")
    if travels:
        pickled = pickle.loads(pickle.dumps(pickled))
    with pickled.held() as mapped:
        left, other = mapped.open(), mapped.open()
    with pytest.raises(FailedPreconditionError, match="has ended, or this task"):
        mapped.open()

    left["x"][:] = 0
    for result, first in (left, 0.0), (other, 1.0):
        assert result["x"][1] == first
        assert result["odd"].tolist() == data["odd"].tolist()
        assert result["none"].shape == (0, 2)
        assert result["every other"].tolist() == [0, 2, 4, 6, 8]
        assert result["step"](2) == 6
        assert result["x"].flags.aligned
    assert data["x"][1] == 1.0
