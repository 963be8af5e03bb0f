"""A tensor as a numpy array: its own memory on a CPU, a copy on the host elsewhere."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kit.errors import InvalidArgumentError
from kit.groups.values import Array

# What numpy has no dtype for travels as its bits, and is added up as float32.
_WHOLE = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64"
_FLOATS = "float16 float32 float64 complex64 complex128"
_DTYPES = {
    getattr(torch, name): np.dtype(name) for name in [*_WHOLE.split(), *_FLOATS.split()]
}


@dataclass(frozen=True)
class OnHost:
    """A tensor's numbers on the host."""

    array: Array
    put_back: Callable[[], Any] | None  # to the tensor, if the array is a copy


def on_host(tensor: Any, *, adds: bool = False) -> OnHost:
    """Return a tensor's numbers as a contiguous array, without a copy if possible.

    `adds`: they will be added up, so what numpy cannot add becomes float32.
    """
    if _is_plain(tensor):
        return OnHost(_memory_of(tensor), None)
    dense = tensor.detach()
    if dense.layout is not torch.strided or dense.is_quantized or dense.is_meta:
        raise InvalidArgumentError(
            f"psring exchanges dense tensors, and this one is {dense.layout}, "
            f"{dense.dtype} on {dense.device}; convert it first: x.to_dense()."
        )
    host = dense.cpu().resolve_conj().resolve_neg().contiguous()
    if adds and host.dtype not in _DTYPES:
        host = host.float()
    is_own = host.dtype == dense.dtype and host.data_ptr() == dense.data_ptr()
    return OnHost(_memory_of(host), None if is_own else lambda: dense.copy_(host))


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor's own memory is what `on_host` would return: the usual case."""
    return bool(
        tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.dtype in _DTYPES
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
    )


def _memory_of(host: Any) -> Array:
    """Return a contiguous tensor's memory; `numpy()` would fix its size for ever."""
    dtype = _DTYPES.get(host.dtype) or np.dtype(f"uint{8 * host.element_size()}")
    shape, n_bytes = tuple(host.shape), host.numel() * host.element_size()
    if not n_bytes:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * n_bytes).from_address(host.data_ptr())
    memory.owner = host  # for as long as somebody has the array
    return np.frombuffer(memory, dtype).reshape(shape)


def all_on_host(tensors: Sequence[Any], *, adds: bool = False) -> list[OnHost]:
    """Return the numbers of several tensors."""
    return [on_host(tensor, adds=adds) for tensor in tensors]


def arrays_of(parts: Sequence[OnHost]) -> list[Array]:
    """Return the arrays alone."""
    return [part.array for part in parts]


def put_back(parts: Sequence[OnHost]) -> None:
    """Bring results to tensors whose memory they are not in."""
    for part in parts:
        if part.put_back is not None:
            part.put_back()


def pieces(part: OnHost, sizes: Sequence[int]) -> list[Array]:
    """Return an array as pieces along its first axis: of these sizes."""
    parts_of, at = [], 0
    for size in sizes:
        parts_of.append(part.array[at : at + size])
        at += size
    return parts_of
