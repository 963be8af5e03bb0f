"""The oracle: one process, plain numpy, no code of the exchange.

It repeats what is promised: each element is added up worker by worker, beginning with
the worker whose number is that of the element's chunk, divided by the number of workers
and handed to the optimizer. Chunks and buckets are found again from their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
CHUNK_BYTES = 512 * 1024


def first_adder(n_items: int, itemsize: int, n_workers: int, bucket: int) -> Array:
    """Return for each element of a flat dtype group the worker that begins its sum."""
    wanted = max(bucket or CHUNK_BYTES * n_workers, itemsize)
    n_buckets = -(-n_items * itemsize // wanted)
    first = np.zeros(n_items, int)
    start = 0
    for part in np.array_split(np.arange(n_items), n_buckets) if n_buckets else []:
        sizes = [len(chunk) for chunk in np.array_split(part, n_workers)]
        for worker, size in enumerate(sizes):
            first[start : start + size] = worker
            start += size
    return first


def total(gradients: Sequence[dict[str, Array]], bucket: int = 0) -> dict[str, Array]:
    """Return the sum of the workers' gradients, in the promised order."""
    n, names = len(gradients), list(reversed(gradients[0]))
    result: dict[str, Array] = {}
    for dtype in dict.fromkeys(gradients[0][name].dtype for name in names):
        group = [name for name in names if gradients[0][name].dtype == dtype]
        flats = np.stack(
            [np.concatenate([g[name].ravel() for name in group]) for g in gradients]
        )
        first = first_adder(flats.shape[1], dtype.itemsize, n, bucket)
        columns = np.arange(flats.shape[1])
        summed = flats[first, columns].copy()
        for hop in range(1, n):
            summed += flats[(first + hop) % n, columns]
        sizes = [gradients[0][name].size for name in group]
        pieces = np.split(summed, np.cumsum(sizes)[:-1])
        for name, piece in zip(group, pieces, strict=True):
            result[name] = piece.reshape(gradients[0][name].shape)
    return {name: result[name] for name in gradients[0]}


def train(
    params: dict[str, Array],
    steps: int,
    gradients: Callable[[dict[str, Array], int], Sequence[dict[str, Array]]],
    update: Callable[[Array, Array, dict[str, Array], int], Array],
    bucket: int = 0,
) -> dict[str, Array]:
    """Return the parameters after `steps` steps of synchronous training."""
    state: dict[str, dict[str, Array]] = {name: {} for name in params}
    for step in range(steps):
        all_gradients = gradients(params, step)
        summed = total(all_gradients, bucket)
        n = len(all_gradients)
        params = {
            name: update(
                value,
                summed[name] * value.dtype.type(1 / n) if n > 1 else summed[name],
                state[name],
                step,
            )
            for name, value in params.items()
        }
    return params
