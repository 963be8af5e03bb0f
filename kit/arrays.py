"""Arrays of any library, converted to numpy, and the GPUs of this process.

The only module that knows cupy. To inspect an array it imports no library but numpy: an
array of another library proves that this library is loaded already. Only `all_gpus`
imports cupy, where there may be a GPU. Nothing here computes with an array.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from kit.errors import (
    FailedPreconditionError,
    GradientMismatch,
    InvalidArgumentError,
    NotEnoughMemory,
)

# Elements at a time in the slow check of `is_finite`, so that its mask stays small.
PIECE = 1 << 16

_LOG = logging.getLogger(__name__)

_PORTABLE: Final = 1  # cudaHostRegisterPortable: pinned for all GPUs of the process

# Devices of the drivers of NVIDIA (on Linux, in WSL) and AMD.
DRIVERS: Final = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


class Gpu(Protocol):
    """One GPU: the module that computes on it, and copies to and from it.

    The work of all threads is done in the order in which they submit it.
    """

    module: ModuleType
    """The equivalent of numpy with arrays on the GPU: cupy."""

    def entered(self) -> AbstractContextManager[None]:
        """Create and compute arrays on this GPU in a block."""

    # Any: an array of a library that may not be installed where the types are checked.
    def put(self, x: npt.NDArray[Any]) -> Any:
        """Return a numpy array's values as an array on this GPU."""

    def get(self, x: Any) -> npt.NDArray[Any]:
        """Copy an array of this GPU to the host; waits until it is computed."""

    def empty(self, n_bytes: int) -> Any:
        """Return bytes in an allocation of their own, with any content."""

    def fill(self, x: Any, values: npt.NDArray[Any]) -> None:
        """Copy to an array of this GPU, of the same form; waits until it is done."""

    def read(self, x: Any, out: npt.NDArray[Any]) -> None:
        """Copy an array of this GPU, once it is computed, to one of the same form."""

    def wait(self) -> None:
        """Wait until all that was begun here is computed."""

    def handle(self, x: Any) -> bytes:
        """Return the 64 bytes by which another process opens what `empty` gave."""

    def open(self, handle: bytes, n_bytes: int) -> Any:
        """Return the bytes behind a handle of another process; raises if it cannot."""

    def close(self, arrays: Sequence[Any]) -> None:
        """Let go of what `open` gave; nothing may use it any more."""

    def pin(self, memory: npt.NDArray[Any]) -> Callable[[], None]:
        """Make copies from and to memory of the host fast; returns what undoes that."""

    def free(self) -> None:
        """Give back the memory that arrays no longer use."""


class _CupyGpu(Gpu):
    """A GPU by cupy. All work goes into one stream, so its order is kept."""

    def __init__(self, cupy: ModuleType, number: int) -> None:
        self.module, self._number, self.process = cupy, number, os.getpid()
        self._made: Any = None
        self._making = threading.Lock()

    @property
    def _stream(self) -> Any:
        # Made when something is computed: it makes a context, which takes time and
        # hundreds of megabytes of the GPU, and devices are listed without need of one.
        with self._making:
            if self._made is None:
                with self.module.cuda.Device(self._number):
                    self._made = self.module.cuda.Stream()
            return self._made

    @contextmanager
    def entered(self) -> Iterator[None]:
        # A `Device` stores the device to return to in itself, so threads cannot share
        # it.
        with self.module.cuda.Device(self._number), self._stream:
            yield

    def put(self, x: npt.NDArray[Any]) -> Any:
        with self.entered():
            return self.module.asarray(x)

    def get(self, x: Any) -> npt.NDArray[Any]:
        with self.entered():
            self._stream.synchronize()
            return np.asarray(x.get())

    def empty(self, n_bytes: int) -> Any:
        cuda = self.module.cuda
        with self.entered():
            # Not of the pool: another process can be shown a whole allocation alone.
            try:
                start = cuda.MemoryPointer(cuda.Memory(max(1, n_bytes)), 0)
            except (cuda.runtime.CUDARuntimeError, cuda.memory.OutOfMemoryError) as exc:
                free, total = cuda.runtime.memGetInfo()
                raise NotEnoughMemory(
                    f"GPU {self._number} has {free} of {total} bytes free, and "
                    f"{n_bytes} are needed for the parameters, gradients or slots of a "
                    f"worker: {exc}. Train a smaller model there, or with fewer "
                    f"workers on one GPU."
                ) from exc
            return self.module.ndarray((n_bytes,), np.uint8, start)

    def fill(self, x: Any, values: npt.NDArray[Any]) -> None:
        with self.entered():
            x.set(values)
            self._stream.synchronize()

    def read(self, x: Any, out: npt.NDArray[Any]) -> None:
        with self.entered():
            x.get(out=out)
            self._stream.synchronize()

    def wait(self) -> None:
        self._stream.synchronize()

    def handle(self, x: Any) -> bytes:
        with self.entered():
            return bytes(self.module.cuda.runtime.ipcGetMemHandle(x.data.ptr))

    def open(self, handle: bytes, n_bytes: int) -> Any:
        with self.entered():
            cuda = self.module.cuda
            at = cuda.runtime.ipcOpenMemHandle(handle)
            memory = cuda.UnownedMemory(at, n_bytes, None)
            start = cuda.MemoryPointer(memory, 0)
            return self.module.ndarray((n_bytes,), np.uint8, start)

    def close(self, arrays: Sequence[Any]) -> None:
        with self.entered():
            self._stream.synchronize()
            for x in arrays:
                self.module.cuda.runtime.ipcCloseMemHandle(x.data.ptr)

    def pin(self, memory: npt.NDArray[Any]) -> Callable[[], None]:
        runtime, at = self.module.cuda.runtime, memory.ctypes.data
        with self.entered():
            try:
                runtime.hostRegister(at, memory.nbytes, _PORTABLE)
            except runtime.CUDARuntimeError as error:
                # Slower copies are no reason to end: the system may lock no more.
                _LOG.info("%d bytes are not pinned: %s", memory.nbytes, str(error))
                return lambda: None

        def undo() -> None:
            with self.entered():
                runtime.hostUnregister(at)

        return undo

    def free(self) -> None:
        with self.entered():
            self.module.get_default_memory_pool().free_all_blocks()


@cache
def all_gpus() -> Sequence[Gpu]:
    """Return the GPUs that this process sees; empty without cupy or a driver.

    Imports cupy if there may be a GPU, which takes seconds; later calls cost nothing.
    """
    if "cupy" not in sys.modules and not _may_have_gpus():
        return ()
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception:  # cupy has a different error for each way to have no GPU
        return ()
    return tuple(_CupyGpu(cupy, number) for number in range(count))


def gpu(number: int) -> Gpu:
    """Return a GPU of this process; where there are fewer, they are shared in turn.

    Raises `FailedPreconditionError` if there is none, and says what is missing.
    """
    gpus = all_gpus()
    if not gpus:
        raise FailedPreconditionError(f"this process has no GPU: {_why_none()}")
    chosen = gpus[number % len(gpus)]
    if getattr(chosen, "process", os.getpid()) != os.getpid():
        raise FailedPreconditionError(
            "this process was forked from one that uses a GPU, and CUDA works in "
            "neither of two such processes; start it anew: "
            'multiprocessing.get_context("spawn"), or the tasks of a kit.Cluster.'
        )
    return chosen


def _why_none() -> str:
    if not any(map(Path.exists, map(Path, DRIVERS))):
        return (
            f"none of {', '.join(DRIVERS)} is on this machine. Train where there is "
            f'one, or with device="cpu".'
        )
    if "cupy" not in sys.modules and find_spec("cupy") is None:
        return (
            f"cupy is not installed here. Run: {sys.executable} -m pip install "
            f"cupy-cuda12x (or cupy-cuda13x, for the CUDA that nvidia-smi shows)."
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    shown = "" if visible is None else f" CUDA_VISIBLE_DEVICES is {visible!r}."
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return (
            f"cupy cannot use it: {type(error).__name__}: {error}.{shown} Install the "
            f"cupy for the CUDA that nvidia-smi shows (cupy-cuda12x, cupy-cuda13x)."
        )
    return f"cupy counts {count}.{shown} Unset it, or name a card that is there."


def module_of(x: Any) -> ModuleType:
    """Return what computes with an array: numpy, or cupy.

    >>> module_of(np.ones(2)).__name__
    'numpy'
    """
    return np if isinstance(x, np.ndarray) else sys.modules[_library(x)]


def _may_have_gpus() -> bool:
    return any(map(Path.exists, map(Path, DRIVERS))) and find_spec("cupy") is not None


# Any: an array of a library that may not be installed where the types are checked.
def to_numpy(x: Any) -> npt.NDArray[Any]:
    """Return `x` as a numpy array on the host, without a copy if possible.

    Takes numpy, cupy, torch, jax and tensorflow arrays, any object with `__array__` or
    `__dlpack__`, Python numbers and nested lists of them. The result may share memory
    with `x` and may be read-only. Raises `InvalidArgumentError` for anything that would
    become an array of Python objects. Blocks until a device has finished computing `x`.

    >>> to_numpy([1, 2]) + to_numpy(0.5)
    array([1.5, 2.5])
    """
    try:
        array = _convert(x)
    except (TypeError, ValueError, RuntimeError, BufferError) as exc:
        raise InvalidArgumentError(
            f"{_name(x)} cannot be read as a numpy array: {exc}. Convert it to a dense "
            f"array of numbers in your own code first."
        ) from exc
    if array.dtype.hasobject:
        raise InvalidArgumentError(
            f"{_name(x)} holds Python objects, not numbers; convert it to an array "
            f"with a numeric dtype first."
        )
    return array


# Any: see `to_numpy`.
def copy_into(
    destination: npt.NDArray[Any], x: Any, *, what: str = "the array"
) -> None:
    """Copy `x`, an array of any library, into `destination`.

    Raises `GradientMismatch`, before anything is written, for None and unless shape and
    dtype are exactly those of `destination`; `what` names the array in the message.
    From cupy to a contiguous destination the bytes are copied once, straight from the
    device. The destination may be an array of cupy too.
    """
    if x is None:
        raise GradientMismatch(
            f"{what} is None, as torch gives it for a parameter that the loss does not "
            f"use; return zeros: np.zeros({destination.shape}, np.{destination.dtype})."
        )
    on_device = _library(x) == "cupy"
    is_for_host = isinstance(destination, np.ndarray)
    source: Any = x if on_device else to_numpy(x) if is_for_host else _on_gpu(x)
    if (tuple(source.shape), source.dtype) != (destination.shape, destination.dtype):
        to_do = _to_do(source, destination)
        raise GradientMismatch(
            f"{what} is {source.dtype}{list(source.shape)}, but its place holds "
            f"{destination.dtype}{list(destination.shape)}; {to_do}."
        )
    if on_device and is_for_host and destination.flags.c_contiguous:
        source.get(out=destination)
    else:
        np.copyto(destination, source.get() if on_device and is_for_host else source)


# Any: see `to_numpy`.
def _on_gpu(x: Any) -> Any:
    """Return an array of any library on the GPU that is entered."""
    cupy = sys.modules["cupy"]
    if _library(x) == "torch" and x.is_cuda:
        return cupy.from_dlpack(x.detach().resolve_conj().resolve_neg())
    return cupy.asarray(to_numpy(x))


def _to_do(source: Any, destination: npt.NDArray[Any]) -> str:
    """Return what makes an array one that fits, in words."""
    shape, wanted, steps = tuple(source.shape), destination.shape, []
    if shape != wanted and math.prod(shape) == destination.size:
        steps.append(f"reshape it to {wanted}")
    elif shape[1:] == wanted:
        steps.append("take the mean over its first axis, .mean(axis=0)")
    elif shape != wanted:
        steps.append(f"return an array of shape {wanted}")
    if source.dtype != destination.dtype:
        steps.append(f"convert it with .astype({str(destination.dtype)!r})")
    return " and ".join(steps)


def is_finite(flat: npt.NDArray[np.floating[Any]]) -> bool:
    """Return whether a contiguous 1-d float array has no NaN and no infinity.

    Costs one pass at the speed of memory, and a second one only if the sum of squares
    is not finite. Raises `InvalidArgumentError` for other arrays.

    >>> is_finite(np.array([1e300, -1e300])), is_finite(np.array([0.0, np.nan]))
    (True, False)
    """
    if flat.ndim != 1 or flat.dtype.kind != "f":
        raise InvalidArgumentError(
            f"is_finite checks a 1-d float array and got {flat.dtype}"
            f"{list(flat.shape)}; pass the flat buffer."
        )
    # NaN and infinity survive every sum of squares, so a finite sum proves their
    # absence. An infinite one proves nothing: squares of large numbers overflow.
    with np.errstate(all="ignore"):
        if np.isfinite(np.dot(flat, flat)):
            return True
    pieces = range(0, flat.size, PIECE)
    return all(np.isfinite(flat[lo : lo + PIECE]).all() for lo in pieces)


def _library(x: object) -> str:
    """Return the root package of the first class of `x` that comes from a library."""
    for kind in type(x).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("numpy", "cupy", "torch"):
            return root
    return ""


def _name(x: object) -> str:
    return f"a {type(x).__module__}.{type(x).__qualname__}"


def _convert(x: Any) -> npt.NDArray[Any]:
    library = _library(x)
    if library == "cupy" and hasattr(x, "get"):
        return np.asarray(x.get())
    if library == "torch" and hasattr(x, "detach"):
        # A tensor that is tracked, conjugated lazily or on a device refuses numpy().
        return np.asarray(x.detach().cpu().resolve_conj().resolve_neg().numpy())
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asarray(x)


# Any: see `to_numpy`.
def like(array: npt.NDArray[Any], original: Any) -> Any:
    """Return a numpy array as an array of the library and on the device of another.

    Known are numpy, cupy and torch; for others it stays a numpy array. The result may
    share memory with `array`.

    >>> like(np.ones(2), np.zeros(3))
    array([1., 1.])
    """
    library = _library(original)
    if library == "torch":
        return sys.modules["torch"].from_numpy(array).to(original.device)
    if library == "cupy":
        with original.device:
            return sys.modules["cupy"].asarray(array)
    return array
