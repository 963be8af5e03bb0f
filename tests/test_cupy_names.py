"""What is called of cupy is there, and takes what it is given; no GPU is needed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from kit.arrays import all_gpus, gpu
from kit.errors import FailedPreconditionError
from tests.cases import for_each

cupy = pytest.importorskip("cupy")


def arguments(function: Any) -> list[str]:
    """Return the names of arguments; compiled functions have them in their text."""
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:
        line = function.__doc__.split("\n")[0]
        inside = line[line.index("(") + 1 : line.rindex(")")]
        return [item.split("=")[0].split()[-1] for item in inside.split(",") if item]


@for_each(
    ("path", "wanted"),
    [
        ("runtime.getDeviceCount", []),
        ("runtime.memGetInfo", []),
        ("runtime.ipcGetMemHandle", ["devPtr"]),
        ("runtime.ipcOpenMemHandle", ["handle", "flags"]),
        ("runtime.ipcCloseMemHandle", ["devPtr"]),
        ("runtime.hostRegister", ["ptr", "size", "flags"]),
        ("runtime.hostUnregister", ["ptr"]),
        ("Memory", ["size"]),
        ("MemoryPointer", ["mem", "offset"]),
        ("UnownedMemory", ["ptr", "size", "owner", "device_id"]),
    ],
)
def test_functions_of_cuda_take_these_arguments(path: str, wanted: list[str]) -> None:
    function = cupy.cuda
    for name in path.split("."):
        function = getattr(function, name)

    assert [name for name in arguments(function) if name != "self"] == wanted


@for_each("name", ["get", "set", "view", "reshape", "ravel", "fill", "tolist", "data"])
def test_arrays_have_these_methods(name: str) -> None:
    assert hasattr(cupy.ndarray, name)


def test_a_copy_to_the_host_goes_into_an_array_that_is_there() -> None:
    assert "out" in cupy.ndarray.get.__doc__.split("\n")[0]


@for_each(
    "function",
    [
        *(np.add, np.subtract, np.multiply, np.divide, np.sqrt, np.maximum, np.sign),
        *(np.absolute, np.isfinite, np.isnan, np.isinf, np.copyto, np.dot),
        *(np.empty_like, np.may_share_memory, np.flatnonzero),
    ],
)
def test_what_numpy_is_asked_for_cupy_has_by_the_same_name(function: Any) -> None:
    assert callable(getattr(cupy, function.__name__))


def test_a_driver_that_does_not_suit_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if all_gpus():
        pytest.skip("a GPU is here")
    monkeypatch.setattr("kit.arrays.DRIVERS", ("/dev/null",))

    with pytest.raises(FailedPreconditionError, match=r"cudaError.*cupy-cuda1"):
        gpu(0)
