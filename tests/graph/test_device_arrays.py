"""Arrays of other libraries, on devices too, are taken wherever numpy's are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.session.client.session import Session
from tests.cases import for_each

VALUES = np.array([[1, -2], [3, 0.5]], np.float32)


class OnDevice:
    """As cupy's arrays: only `get` brings the values to the host."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values
        self.shape, self.dtype = values.shape, values.dtype

    def get(self) -> npt.NDArray[Any]:
        return self._values.copy()

    def __array__(self, *args: object, **named: object) -> npt.NDArray[Any]:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack__(self, *args: object, **named: object) -> object:
        raise BufferError("it is not on the host.")

    def __mul__(self, other: Any) -> Any:
        # As cupy 14 does for operands that have the method.
        kernel = SimpleNamespace(name="cupy_multiply")
        return other.__cupy_override_elementwise_kernel__(kernel, self, other)


OnDevice.__module__ = "cupy._core.core"


def value_of(tensor: Any) -> npt.NDArray[Any]:
    with Session() as session:
        session.run(kit.initialize_all())
        return np.asarray(session.run(tensor))


@for_each(
    "make",
    [
        lambda x: kit.constant(x),
        lambda x: kit.Variable(x) + 0.0,
        lambda x: kit.constant(np.ones_like(VALUES)) * x,
        lambda x: x * kit.constant(np.ones_like(VALUES)),
    ],
    ["a constant", "a variable", "on the right", "on the left"],
)
def test_a_device_array_is_taken_where_numpys_are(
    make: Callable[[Any], Any],
) -> None:
    result = value_of(make(OnDevice(VALUES)))

    assert result.dtype == VALUES.dtype
    assert np.array_equal(result, VALUES)


def test_a_device_array_is_cast_as_numpys_are() -> None:
    assert value_of(kit.constant(OnDevice(VALUES), "float64")).dtype == np.float64


def test_what_cannot_be_read_from_a_device_says_what_it_is() -> None:
    class Sparse(OnDevice):
        def get(self) -> npt.NDArray[Any]:
            raise ValueError("it is sparse.")

    with pytest.raises(InvalidArgumentError, match=r"Sparse.* cannot be read"):
        kit.constant(Sparse(VALUES))
