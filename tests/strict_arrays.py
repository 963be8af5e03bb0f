"""An array module that behaves like a device, for tests without one.

    from tests.strict_arrays import strict as xp

    x = xp.asarray(numpy_array)      # the way in
    xp.exp(x) + 1                    # numbers are welcome
    x + numpy_array                  # TypeError, as with cupy
    numpy.asarray(x)                 # TypeError
    x.get(), xp.asnumpy(x)           # the way out

    with StrictGpu(1).entered():    # a second device, whose arrays do not mix
        xp.exp(x)                    # TypeError: x is on device 0

It computes with numpy, so results are exactly numpy's, but for some in which cupy's
are others: of floats that fit into no integer, of negative powers of integers, of
divisions of infinite floats, and an empty argmax. As on a device, a reduction gives an
array without axes and not a number, and names that cupy lacks are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from types import ModuleType
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from kit.arrays import Gpu

Host = npt.NDArray[Any]

_FIELDS: Final = frozenset(
    {"shape", "ndim", "size", "dtype", "nbytes", "itemsize", "strides", "flags"}
)
_VIEWS: Final = frozenset({"T", "real", "imag"})
_METHODS: Final = frozenset(
    {"sum", "prod", "mean", "std", "var", "max", "min", "any", "all", "argmax"}
    | {"argmin", "argsort", "sort", "cumsum", "cumprod", "clip", "round", "dot", "take"}
    | {"astype", "view", "copy", "fill", "nonzero", "repeat", "conj", "diagonal"}
    | {"reshape", "ravel", "flatten", "squeeze", "swapaxes", "transpose", "trace"}
)
# Names of numpy that a device's module lacks.
_ABSENT: Final = frozenset(
    {"errstate", "seterr", "geterr", "nditer", "ndenumerate", "frompyfunc", "memmap"}
    | {"matrix", "recarray", "chararray", "char", "strings", "rec", "ma", "object_"}
    | {"str_", "bytes_", "datetime64", "timedelta64", "ctypeslib", "fromregex"}
)
_current: ContextVar[int] = ContextVar("device", default=0)
_reads: Final[Counter[int]] = Counter()
_WAY_OUT: Final = "call .get() where the value should leave the device."


class StrictArray(NDArrayOperatorsMixin):
    """An array on the simulated device; `strict.asarray` makes one."""

    __slots__ = ("host", "number")

    def __init__(self, data: Host) -> None:
        """Lie on the device that is entered now."""
        self.host = data
        self.number = _current.get()

    def get(self, out: Host | None = None) -> Host:
        """Return a copy on the host, or fill `out` with it."""
        if out is None:
            return self.host.copy()
        np.copyto(out, self.host)
        return out

    def tolist(self) -> Any:
        """Return the values as Python numbers, in nested lists."""
        return self._read().tolist()

    def item(self, *where: int) -> Any:
        """Return one value as a Python number."""
        return self._read().item(*where)

    def _read(self) -> Host:
        """Return the values to the host, which waits for the device."""
        _reads[self.number] += 1
        return self.host

    @property
    def device(self) -> str:
        """Name the pretended device."""
        return f"strict:{self.number}"

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self.host, name)
        if name in _VIEWS:
            return _leave(getattr(_enter(self), name))
        if name == "astype":
            return _Guarded(partial(_astype, _enter(self)))
        if name in _METHODS:
            return _Guarded(getattr(_enter(self), name))
        raise AttributeError(f"{name!r} is not offered by a strict array")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            f"an array on a device does not become a numpy array by itself; {_WAY_OUT}"
        )

    def __dlpack__(self, **how: Any) -> Any:
        """Show the memory; what reads it takes it for memory of the host."""
        return _enter(self).__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.host.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.host.__array_interface__

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any
    ) -> Any:
        out = named.get("out", ())
        if not all(isinstance(x, _OPERANDS) for x in (*inputs, *out) if x is not None):
            return NotImplemented
        own = _AS_CUPY.get(ufunc) if method == "__call__" and not named else None
        return _Guarded(own or getattr(ufunc, method))(*inputs, **named)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, named: Mapping[str, Any]
    ) -> Any:
        return _Guarded(func)(*args, **named)

    def __getitem__(self, where: Any) -> Any:
        return _leave(_enter(self)[_enter(where)])

    def __setitem__(self, where: Any, value: Any) -> None:
        _enter(self)[_enter(where)] = _enter(value)

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __repr__(self) -> str:
        return f"strict.{self.host!r}"


def _astype(x: Host, dtype: Any, **how: Any) -> Host:
    """Cast as cupy does: a float that fits into no integer gives any integer."""
    wanted = np.dtype(dtype)
    if x.dtype.kind != "f" or wanted.kind not in "iu":
        return x.astype(dtype, **how)
    limits, wide = np.iinfo(wanted), x.astype(float)
    fits = (wide >= limits.min) & (wide < limits.max + 1.0)
    return np.where(fits, np.where(fits, x, 0).astype(wanted), wanted.type(77))


def _power(x: Any, y: Any) -> Any:
    whole = np.result_type(x, y).kind in "iu"
    if not whole or not np.any(np.less(y, 0)):
        return np.power(x, y)
    inverse = np.where(abs(x) == 1, x, 0)
    return np.where(np.less(y, 0), inverse ** abs(y), np.power(x, np.maximum(y, 0)))


def _floor_divide(x: Any, y: Any) -> Any:
    is_float = np.result_type(x, y).kind == "f"
    return np.floor(np.divide(x, y)) if is_float else np.floor_divide(x, y)


def _remainder(x: Any, y: Any) -> Any:
    is_float = np.result_type(x, y).kind == "f"
    return x - np.floor(np.divide(x, y)) * y if is_float else np.remainder(x, y)


def _argmax(x: Host, axis: int | None = None, **how: Any) -> Any:
    if (x.size if axis is None else x.shape[axis]) == 0:
        raise ValueError("zero-size arrays; set CUPY_ACCELERATORS otherwise")
    return np.argmax(x, axis, **how)


_AS_CUPY: Final[Mapping[Any, Callable[..., Any]]] = {
    np.argmax: _argmax,
    np.power: _power,
    np.floor_divide: _floor_divide,
    np.remainder: _remainder,
}
_OTHERWISE: Final = {ufunc.__name__ for ufunc in _AS_CUPY}

# numpy arrays are among them so that their refusal says why.
_OPERANDS: Final = (StrictArray, np.ndarray, np.generic, int, float, complex)


class _Guarded:
    """A function, ufunc or generator of numpy that takes and gives strict arrays."""

    # Any: whatever numpy has.
    def __init__(self, target: Any) -> None:
        self._target = target

    def __call__(self, *args: Any, **named: Any) -> Any:
        result = self._target(*_enter(args), **_enter(named))
        out = named.get("out")
        out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        return _leave(result) if out is None else out

    def __getattr__(self, name: str) -> Any:
        return _guarded(self._target, name)


class StrictModule(ModuleType):
    """The pretended device's array module: numpy's names, for strict arrays only."""

    def __init__(self, name: str, behind: ModuleType) -> None:
        super().__init__(name, f"{behind.__name__}, for strict arrays only.")
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT:
            raise AttributeError(f"{self.__name__} has no {name}, as cupy has none")
        return _guarded(self._behind, name)


class _Strict(StrictModule):
    """The outermost module, with the two ways between host and device."""

    ndarray = StrictArray

    # Any: whatever numpy makes an array of.
    def asarray(self, x: Any, dtype: Any = None) -> StrictArray:
        """Return the values as a strict array; `x` itself if it is one already."""
        if isinstance(x, StrictArray) and dtype in (None, x.dtype):
            _enter(x)  # it must be on this device
            return x
        return self.array(x, dtype)

    def array(self, x: Any, dtype: Any = None) -> StrictArray:
        """Return a copy of the values as a strict array."""
        host = x if isinstance(x, np.ndarray) else _enter(x)
        return StrictArray(np.array(host, dtype=dtype))

    def asnumpy(self, x: StrictArray) -> Host:
        """Return a copy on the host."""
        return x.get()


def _guarded(behind: Any, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    result = getattr(behind, name)
    if isinstance(result, ModuleType):
        return StrictModule(f"strict.{name}", result)
    if isinstance(result, type) or not callable(result):
        return result
    return _Guarded(_AS_CUPY.get(result, result) if name in _OTHERWISE else result)


def _enter(value: Any) -> Any:
    """Return what numpy sees; refuse arrays that are not on the device."""
    if isinstance(value, StrictArray):
        if value.number != _current.get():
            raise TypeError(
                f"an array of {value.device} meets work on strict:{_current.get()}; "
                f"move it there first."
            )
        return value.host
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"a numpy array of shape {list(value.shape)} meets arrays on a device; "
            f"bring it there with asarray first, or {_WAY_OUT}"
        )
    if isinstance(value, list | tuple):
        parts = [_enter(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {key: _enter(part) for key, part in value.items()}
    return value


def _leave(result: Any) -> Any:
    """Return what the caller sees: every array and numpy scalar as strict."""
    if isinstance(result, np.ndarray | np.generic):
        return StrictArray(np.asarray(result))
    if isinstance(result, np.random.Generator):
        return _Guarded(result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*map(_leave, result))
    if isinstance(result, list | tuple):
        return type(result)(map(_leave, result))
    return result


strict: Final = _Strict("strict", np)


HANDLES: Final[dict[bytes, StrictArray]] = {}
_numbers: Final = count()


class StrictGpu(Gpu):
    """A pretended GPU, as the provider of a task's devices.

    Attributes:
        n_put: how many arrays came from the host.
        n_got: how many went there.
        n_entered: how often a thread that was not there yet entered it.
        n_waits: how often the host waited for all that it had begun.
    """

    def __init__(self, number: int) -> None:
        self.number, self.module = number, strict
        self.n_put = self.n_got = self.n_entered = self.n_waits = 0
        self.pinned: dict[int, int] = {}
        self._n_read_before = _reads[number]
        self._is_entered: ContextVar[bool] = ContextVar("entered", default=False)

    @property
    def n_read(self) -> int:
        """How often Python asked for a value of an array, and waited for it."""
        return _reads[self.number] - self._n_read_before

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Compute on this device in a block."""
        self.n_entered += not self._is_entered.get()
        token, inside = _current.set(self.number), self._is_entered.set(True)
        try:
            yield
        finally:
            _current.reset(token)
            self._is_entered.reset(inside)

    def put(self, x: Host) -> StrictArray:
        """Return a copy on this device, and count it in `n_put`."""
        self.n_put += 1
        with self.entered():
            return strict.array(x)

    def get(self, x: StrictArray) -> Host:
        """Return a copy on the host, and count it in `n_got`."""
        if x.device != f"strict:{self.number}":
            raise TypeError(f"an array of {x.device} was taken for one of {self!r}")
        self.n_got += 1
        return x.get()

    def empty(self, n_bytes: int) -> StrictArray:
        """Return bytes on this device; they are not 0."""
        with self.entered():
            return StrictArray(np.full(n_bytes, 0xA5, np.uint8))

    def fill(self, x: StrictArray, values: Host) -> None:
        """Copy to an array of this device."""
        with self.entered():
            x[...] = strict.array(values)

    def read(self, x: StrictArray, out: Host) -> None:
        """Copy an array of this device to the host."""
        with self.entered():
            np.copyto(out, _enter(x), casting="no")

    def wait(self) -> None:
        """Return, and count it: it computes at once."""
        self.n_waits += 1

    def handle(self, x: StrictArray) -> bytes:
        """Return what opens an array, in this process too, unlike CUDA's."""
        handle = f"{next(_numbers):064x}".encode()
        HANDLES[handle] = x
        return handle

    def open(self, handle: bytes, n_bytes: int) -> StrictArray:
        """Return an array of another device as one of this."""
        with self.entered():
            return StrictArray(HANDLES[handle].host[:n_bytes])

    def close(self, arrays: Sequence[StrictArray]) -> None:
        """Let nobody use them any more."""
        for x in arrays:
            del x.host

    def pin(self, memory: Host) -> Callable[[], None]:
        """Note where it is; what is pinned already is refused."""
        at, size = memory.ctypes.data, memory.nbytes
        assert not any(a < at + size and at < a + n for a, n in self.pinned.items())
        self.pinned[at] = size
        return partial(self.pinned.__delitem__, at)

    def free(self) -> None:
        """Return: numpy has no pool."""

    def __repr__(self) -> str:
        return f"strict:{self.number}"
