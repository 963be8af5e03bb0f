"""Who reads which rows: a mini-batch's split over workers, and the order of a pass.

Pure arithmetic on sizes and seeds; the arrays themselves are in
`kit.training.data.sources`.

    one pass over the examples        | mini-batch 0 | mini-batch 1 | ... | tail |
    one mini-batch, three workers     | worker 0 | worker 1 | worker 2 |
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kit.errors import InvalidArgumentError


def split_bounds(batch: int, n_workers: int, worker: int) -> tuple[int, int]:
    """Return the rows lo..hi-1 of a mini-batch that `worker` of `n_workers` reads.

    The parts are contiguous, in the order of the workers, disjoint, cover the batch,
    and their sizes differ by one at most. Raises `InvalidArgumentError` when a worker
    would get nothing or does not exist.

    >>> [split_bounds(10, 3, worker) for worker in range(3)]
    [(0, 4), (4, 7), (7, 10)]
    """
    if not 0 <= worker < n_workers:
        raise InvalidArgumentError(
            f"there is no worker {worker} among {n_workers} workers; they are numbered "
            f"from 0."
        )
    if batch < n_workers:
        raise InvalidArgumentError(
            f"a mini-batch of {batch} cannot be split over {n_workers} workers; give "
            f"at least {n_workers} examples, or take fewer workers."
        )
    size, larger = divmod(batch, n_workers)
    lo = worker * size + min(worker, larger)
    return lo, lo + size + (worker < larger)


def shuffled(
    n: int, seed: int, pass_index: int, stream: int = 0
) -> npt.NDArray[np.intp]:
    """Return the numbers below `n` in a random order, another one for each pass.

    The order depends on nothing but the arguments: it is the same in every process, on
    every machine and in every version of numpy, since it is made of raw Philox bits and
    a stable sort. `stream` gives several orders for one pass. Costs a sort of `n`
    integers, about 0.25 s for a million. Raises `InvalidArgumentError` for a seed
    outside 0..2**64-1.

    >>> shuffled(4, seed=1, pass_index=0), shuffled(4, seed=1, pass_index=1)
    (array([3, 2, 0, 1]), array([0, 3, 2, 1]))
    """
    check_seed(seed)
    # Explicit words: numpy would turn a list with a large seed into floats.
    key = np.array([seed, pass_index], dtype=np.uint64)
    # The counter's highest word keeps the streams 2**192 blocks apart.
    counter = np.array([0, 0, 0, stream], dtype=np.uint64)
    bits = np.random.Philox(key=key, counter=counter).random_raw(n)
    return np.argsort(bits, kind="stable")


def check_seed(seed: int) -> None:
    """Refuse what is not a 64-bit seed with `InvalidArgumentError`."""
    if not 0 <= seed < 2**64:
        raise InvalidArgumentError(f"the seed is {seed}; give one from 0 to 2**64 - 1.")


def check_step(step: int) -> None:
    """Refuse a negative step with `InvalidArgumentError`."""
    if step < 0:
        raise InvalidArgumentError(f"step is {step}; the first step is 0.")
