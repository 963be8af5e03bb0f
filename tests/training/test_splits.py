"""The split of a mini-batch and the order of a pass, on numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.training.data.splits import shuffled, split_bounds


@given(batch=st.integers(1, 500), data=st.data())
def test_split_is_contiguous_covers_and_is_even(
    batch: int, data: st.DataObject
) -> None:
    n_workers = data.draw(st.integers(1, batch))

    bounds = [split_bounds(batch, n_workers, w) for w in range(n_workers)]

    rows = [row for lo, hi in bounds for row in range(lo, hi)]
    sizes = {hi - lo for lo, hi in bounds}
    assert rows == list(range(batch))
    assert max(sizes) - min(sizes) <= 1


def test_more_workers_than_examples_are_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidArgumentError, match=r"mini-batch of 3 .* 4 workers"):
        split_bounds(3, 4, 0)


@pytest.mark.parametrize("worker", [-1, 2])
def test_split_of_a_worker_that_does_not_exist_is_refused(worker: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"no worker {worker} among 2"):
        split_bounds(10, 2, worker)


@given(n=st.integers(0, 300), seed=st.integers(0, 2**64 - 1), turn=st.integers(0, 99))
def test_shuffled_order_holds_every_number_once(n: int, seed: int, turn: int) -> None:
    assert sorted(shuffled(n, seed, turn).tolist()) == list(range(n))


def test_shuffled_order_is_another_for_each_seed_pass_and_stream() -> None:
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**64 - 1, 0, 0)]

    assert len({tuple(shuffled(50, *key)) for key in keys}) == len(keys)


def test_shuffled_order_favours_no_place() -> None:
    orders = np.array([shuffled(8, seed=3, pass_index=p) for p in range(2000)])

    counts = np.array([np.bincount(column, minlength=8) for column in orders.T])
    # 250 expected in each cell, with a standard deviation of 15.
    assert np.abs(counts - 250).max() < 75


def test_shuffled_order_is_pinned_for_every_version_of_numpy() -> None:
    # Philox 4x64-10 in plain integers: an oracle that does not use numpy.
    words: list[int] = []
    for block in (1, 2):  # numpy steps the counter before it draws
        counter, key = [block, 0, 0, 7], [2**63 + 5, 3]
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
            low = 2**64 - 1
            counter = [
                (b >> 64) ^ counter[1] ^ key[0],
                b & low,
                (a >> 64) ^ counter[3] ^ key[1],
                a & low,
            ]
            steps = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
            key = [(k + s) & low for k, s in zip(key, steps, strict=True)]
        words += counter
    wanted = sorted(range(7), key=words.__getitem__)

    assert shuffled(7, seed=2**63 + 5, pass_index=3, stream=7).tolist() == wanted


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_beyond_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"seed is {seed}"):
        shuffled(3, seed, 0)
