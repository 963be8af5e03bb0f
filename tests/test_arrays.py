"""Arrays of other libraries, played by small classes with the same manners."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import arrays
from kit.arrays import copy_into, is_finite, to_numpy
from kit.errors import GradientMismatch, InvalidArgumentError
from tests.cases import for_each

Array = npt.NDArray[Any]


class OnDevice:
    """Refuses to become a numpy array by itself, and counts its copies to the host."""

    def __init__(self, data: Array) -> None:
        self._data = data
        self.shape, self.dtype = data.shape, data.dtype
        self.gets: list[object] = []

    def __array__(self, *args: object, **named: object) -> Array:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self, out: Array | None = None) -> Array:
        self.gets.append(out)
        if out is None:
            return self._data.copy()
        assert out.flags.c_contiguous
        out[...] = self._data
        return out


OnDevice.__module__ = "cupy._core.core"


class Tracked:
    """A tensor that must be detached, brought home and resolved, in that order."""

    def __init__(self, data: Array, todo: tuple[str, ...]) -> None:
        self._data, self._todo = data, todo

    def _after(self, step: str) -> Tracked:
        assert self._todo[0] == step
        return Tracked(self._data, self._todo[1:])

    def detach(self) -> Tracked:
        return self._after("detach")

    def cpu(self) -> Tracked:
        return self._after("cpu")

    def resolve_conj(self) -> Tracked:
        return self._after("conj")

    def resolve_neg(self) -> Tracked:
        return self._after("neg")

    def numpy(self) -> Array:
        if self._todo:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self._data


Tracked.__module__ = "torch.nn.parameter"
STEPS = ("detach", "cpu", "conj", "neg")


class ByProtocol:
    """Offers `__dlpack__` and nothing else."""

    def __init__(self, data: Array) -> None:
        self._data = data

    def __dlpack__(self, **named: Any) -> Any:
        return self._data.__dlpack__(**named)

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()


class ByArray:
    """Offers `__array__` and nothing else."""

    def __init__(self, data: Array) -> None:
        self._data = data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._data, dtype)


def test_numpy_array_is_handed_back_itself() -> None:
    x = np.arange(6.0).reshape(2, 3)

    assert to_numpy(x) is x


@for_each(("x", "shape"), [(1.5, ()), (3, ()), ([[1, 2]], (1, 2))])
def test_python_numbers_become_arrays(x: object, shape: tuple[int, ...]) -> None:
    array = to_numpy(x)

    assert array.shape == shape
    assert array.tolist() == x


@for_each("make", [OnDevice, ByProtocol, ByArray, lambda data: Tracked(data, STEPS)])
def test_array_of_another_library_arrives_with_its_values(make: Any) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)

    array = to_numpy(make(data))

    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, data)


def test_dlpack_shares_memory_with_its_owner() -> None:
    data = np.zeros(3)

    array = to_numpy(ByProtocol(data))
    data[1] = 7

    assert array.tolist() == [0, 7, 0]


@pytest.mark.parametrize(
    ("x", "part"),
    [
        (object(), "builtins.object holds Python objects"),
        (None, "NoneType holds Python objects"),
        ([[1, 2], [3]], "builtins.list cannot be read"),
        ({"a": 1}, "builtins.dict holds Python objects"),
        (Tracked(np.zeros(2), (*STEPS, "more")), "requires grad"),
    ],
)
def test_what_is_no_array_is_refused_by_its_type(x: object, part: str) -> None:
    with pytest.raises(InvalidArgumentError, match=part):
        to_numpy(x)


def test_no_array_library_is_imported_for_a_look() -> None:
    before = {"cupy", "torch", "jax"} & sys.modules.keys()

    to_numpy(OnDevice(np.zeros(1)))

    assert {"cupy", "torch", "jax"} & sys.modules.keys() == before


def test_device_array_is_copied_straight_into_its_place() -> None:
    target, x = np.zeros((2, 2)), OnDevice(np.ones((2, 2)))

    copy_into(target, x)

    assert len(x.gets) == 1
    assert x.gets[0] is target
    assert target.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("make", [OnDevice, np.asarray, lambda x: Tracked(x, STEPS)])
def test_copy_reaches_a_place_with_gaps(make: Any) -> None:
    buffer = np.zeros((2, 4))

    copy_into(buffer[:, ::2], make(np.ones((2, 2))))

    assert buffer.tolist() == [[1, 0, 1, 0], [1, 0, 1, 0]]


@for_each("make", [OnDevice, np.asarray, lambda x: Tracked(x, STEPS)])
@for_each(
    ("x", "part"),
    [
        (np.ones((2, 3)), r"w1 is float64\[2, 3\].*float64\[3, 2\]"),
        (np.ones((3, 2), np.float32), r"float32\[3, 2\].*float64\[3, 2\]"),
        (np.ones((1, 2)), r"float64\[1, 2\]"),
        (np.ones((3, 2), ">f8"), r">f8"),
        (np.ones((6, 1)), r"reshape it to \(3, 2\)\.$"),
        (np.ones((5, 3, 2)), r"\.mean\(axis=0\)"),
        (np.ones((6, 1), np.float32), r"reshape .* and convert .*\('float64"),
        (None, r"w1 is None.*np.zeros\(\(3, 2\), np."),  # of torch, without a use
    ],
)
def test_mismatch_names_both_and_writes_nothing(make: Any, x: Any, part: str) -> None:
    target = np.zeros((3, 2))

    with pytest.raises(GradientMismatch, match=part):
        copy_into(target, None if x is None else make(x), what="w1")

    assert not target.any()


@given(
    n=st.integers(0, 70_000),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    large=st.booleans(),
    bad=st.sampled_from([None, np.nan, np.inf, -np.inf]),
    where=st.floats(0, 1, exclude_max=True),
)
def test_finite_means_what_numpy_says_element_by_element(
    n: int, dtype: Any, large: bool, bad: float | None, where: float
) -> None:
    flat = np.full(n, np.finfo(dtype).max if large else 0.5, dtype)
    if bad is not None and n:
        flat[int(where * n)] = bad

    assert is_finite(flat) is bool(np.isfinite(flat).all())


def test_check_is_silent_about_overflow() -> None:
    with np.errstate(all="raise"):
        assert is_finite(np.full(10, 1e200))
        assert not is_finite(np.array([np.inf, -np.inf, np.nan]))


def test_fast_check_spares_the_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PIECE", 0)  # the slow check would raise

    assert is_finite(np.ones(1000, np.float32))
    with pytest.raises(ValueError, match="zero"):
        is_finite(np.array([np.nan]))


@pytest.mark.parametrize(
    "x", [np.zeros((2, 2)), np.zeros(2, int), np.zeros(2, complex)]
)
def test_check_takes_flat_floats_only(x: Array) -> None:
    with pytest.raises(InvalidArgumentError, match="flat buffer"):
        is_finite(x)


@pytest.mark.gpu
def test_real_cupy_arrays_reach_the_host() -> None:
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no GPU here")
    x = cupy.arange(6, dtype="float32").reshape(2, 3)
    target = np.zeros((3, 2), np.float32)

    copy_into(target, x.T)  # not contiguous on the device

    assert target.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert to_numpy(x).tolist() == [[0, 1, 2], [3, 4, 5]]
