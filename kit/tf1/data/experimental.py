"""`tf.data.experimental`: the few names of it that programs use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kit.tf1.data.dataset import Dataset
from kit.tf1.not_offered import refusing

# For num_parallel_calls and prefetch, which change nothing here.
AUTOTUNE: Final = -1


def shuffle_and_repeat(
    buffer_size: Any, count: Any = None, seed: int | None = None
) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply` that shuffles and repeats."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function for `Dataset.apply` that maps and batches."""
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


__getattr__ = refusing("data.experimental")
