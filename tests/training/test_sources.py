"""Every example of a mini-batch is read by one worker, in an order of chance."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
import kit.data
from kit.errors import InvalidArgumentError, OutOfRangeError
from kit.testing.cluster import local_cluster
from kit.training.data.dask_source import BlockSource
from kit.training.data.sources import ArraySource, IterableSource, Source, make_source
from kit.training.data.splits import shuffled, split_bounds
from tests.cases import for_each

Array = npt.NDArray[Any]


def joined(sources: list[Any], step: int) -> list[Any]:
    """The first array of the step, over all workers in their order."""
    return [row for source in sources for row in source.batch(step)[0].tolist()]


def over_arrays(n: int, batch: int, n_workers: int, seed: int = 5) -> list[ArraySource]:
    x = np.arange(n)
    return [ArraySource(x, batch, seed, w, n_workers) for w in range(n_workers)]


@given(
    n=st.integers(1, 60), step=st.integers(0, 40), seed=st.integers(0, 9), d=st.data()
)
def test_mini_batch_is_the_same_whatever_the_number_of_workers(
    n: int, step: int, seed: int, d: st.DataObject
) -> None:
    batch = d.draw(st.integers(1, n))
    n_workers = d.draw(st.integers(1, batch))

    many = joined(list(over_arrays(n, batch, n_workers, seed)), step)
    first = joined(list(over_arrays(n, batch, 1, seed)), step)

    assert many == first
    assert len(set(many)) == batch


def test_pass_visits_no_example_twice_and_drops_the_tail() -> None:
    (source,) = over_arrays(n=23, batch=5, n_workers=1)

    passes = [
        [row for step in range(4) for row in source.batch(4 * p + step)[0].tolist()]
        for p in range(3)
    ]

    assert [len(set(rows)) for rows in passes] == [20, 20, 20]
    assert passes[0] != passes[1] != passes[2]


def test_rows_of_all_arrays_belong_together() -> None:
    x = np.arange(40).reshape(20, 2)
    source = ArraySource((x, x[:, 0] * 10, np.arange(20.0)), 6, 0, 1, 2)

    rows, tens, index = source.batch(7)

    assert rows.shape == (3, 2) == (source.examples(7), 2)
    assert (rows[:, 0] * 10).tolist() == tens.tolist() == (index * 20).tolist()


def test_step_can_be_read_at_any_time() -> None:
    steps = [7, 0, 3, 3, 21, 1]
    first, other = over_arrays(20, 4, 2)[0], over_arrays(20, 4, 2)[0]

    wild = {step: first.batch(step)[0].tolist() for step in steps}
    tidy = {step: other.batch(step)[0].tolist() for step in sorted(steps)}

    assert wild == tidy


def test_without_shuffling_the_rows_come_in_their_order() -> None:
    source = ArraySource(np.arange(10), 4, 0, 1, 2, shuffle=False)

    assert [source.batch(k)[0].tolist() for k in range(3)] == [[2, 3], [6, 7], [2, 3]]


@pytest.mark.parametrize("shuffle", [True, False])
def test_writing_into_a_batch_spares_the_data(shuffle: bool) -> None:
    x = np.arange(10)
    source = ArraySource(x, 4, 0, 0, 1, shuffle=shuffle)

    source.batch(0)[0][:] = -1

    assert x.tolist() == list(range(10))


def test_writing_into_a_batch_of_an_iterable_spares_what_it_yields() -> None:
    yielded = np.arange(8.0)
    source = IterableSource([yielded], worker=0, n_workers=2)

    source.batch(0)[0][:] = -1

    assert yielded.tolist() == list(range(8))
    assert source.batch(0)[0].tolist() == [0, 1, 2, 3]


def test_order_is_made_once_per_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(n: int, seed: int, pass_index: int) -> Array:
        made.append(pass_index)
        return shuffled(n, seed, pass_index)

    sources = import_module("kit.training.data.sources")  # `kit.train` is the function
    monkeypatch.setattr(sources, "shuffled", counted)
    (source,) = over_arrays(n=20, batch=5, n_workers=1)
    for step in range(12):
        source.batch(step)

    assert made == [0, 1, 2]


@for_each(
    ("make", "part"),
    [
        (lambda: ArraySource((np.ones((3, 2)), np.ones(4)), 2, 0, 0, 1), r"\(3, 2\)"),
        (lambda: ArraySource((np.ones(3), np.float64(1)), 2, 0, 0, 1), r"\(\)"),
        (lambda: ArraySource((), 2, 0, 0, 1), "at least one array"),
        (lambda: ArraySource(np.ones(3), 4, 0, 0, 1), "4 is larger than all 3"),
        (lambda: ArraySource(np.ones(9), 2, 0, 0, 3), "mini-batch of 2 .* 3 workers"),
        (lambda: ArraySource(np.ones(9), 2, -1, 0, 1), "seed is -1"),
        (lambda: ArraySource(np.ones(9), 2, 0, 0, 1).batch(-1), "step is -1"),
        (lambda: ArraySource(np.ones(9), 2, 0, 0, 1).examples(-1), "step is -1"),
    ],
)
def test_arrays_that_cannot_be_split_are_refused(
    make: Callable[[], object], part: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=part):
        make()


def pairs(count: int, rows: int = 5) -> Iterator[tuple[Array, Array]]:
    for k in range(count):
        x = np.arange(rows) + 100 * k
        yield x, x * 2.0


def test_workers_share_out_what_an_iterable_yields() -> None:
    sources = [IterableSource(lambda: pairs(3), w, 2) for w in range(2)]

    assert joined(sources, 0) == [0, 1, 2, 3, 4]
    assert joined(sources, 2) == [200, 201, 202, 203, 204]
    assert [source.examples(2) for source in sources] == [3, 2]
    assert sources[1].batch(2)[1].tolist() == [406.0, 408.0]


@pytest.mark.parametrize("data", [list(pairs(3)), lambda: pairs(3)])
def test_iterable_starts_anew_when_it_is_exhausted(data: Any) -> None:
    source = IterableSource(data, 0, 1)

    firsts = [int(source.batch(step)[0][0]) for step in range(8)]

    assert firsts == [0, 100, 200, 0, 100, 200, 0, 100]


def test_current_step_may_be_read_again_and_an_earlier_one_not() -> None:
    source = IterableSource(pairs(5), 0, 1)

    assert source.batch(3)[0][0] == 300
    assert source.batch(3)[0][0] == 300
    with pytest.raises(InvalidArgumentError, match="step 2 was asked for after step 3"):
        source.batch(2)


def test_iterator_that_ends_names_the_step_and_keeps_its_last_one() -> None:
    source = IterableSource(pairs(3), 0, 1)

    for _ in range(2):
        with pytest.raises(OutOfRangeError, match=r"ended after 3 .* step 3") as caught:
            source.batch(6)
        assert caught.value.step == 3
    assert source.batch(2)[0][0] == 200


@pytest.mark.parametrize("data", [[], lambda: iter(())])
def test_empty_iterable_is_out_of_range_at_once(data: Any) -> None:
    with pytest.raises(OutOfRangeError, match="step 0: the iterable is empty"):
        IterableSource(data, 0, 1).batch(0)


def test_error_of_the_iterable_itself_comes_through() -> None:
    def broken() -> Iterator[Array]:
        yield np.ones(2)
        raise OSError("disk on fire")

    source = IterableSource(broken, 0, 1)
    source.batch(0)

    with pytest.raises(OSError, match="disk on fire"):
        source.batch(1)


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ((np.ones(3), np.ones(4)), r"\(3,\), \(4,\)"),
        (3.0, r"shapes \[\(\)\]"),
        (np.ones(1), "mini-batch of 1 .* 2 workers"),
    ],
)
def test_mini_batch_that_cannot_be_split_is_refused(item: object, part: str) -> None:
    with pytest.raises(InvalidArgumentError, match=part):
        IterableSource([item], 0, 2).batch(0)


def test_only_the_workers_own_rows_are_converted() -> None:
    converted: list[int] = []

    class Elsewhere:
        def __init__(self, rows: Array) -> None:
            self.rows, self.shape = rows, rows.shape

        def __getitem__(self, rows: slice) -> Elsewhere:
            return Elsewhere(self.rows[rows])

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
            converted.append(len(self.rows))
            return self.rows

    source = IterableSource([Elsewhere(np.arange(10))], 1, 2)

    assert source.batch(0)[0].tolist() == [5, 6, 7, 8, 9]
    assert converted == [5]


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


# -- which source data get -------------------------------------------------------------


def few_pairs() -> Iterator[tuple[Array, Array]]:
    for k in range(3):
        yield np.full(4, k), np.ones((4, 2))


class Own:
    """A source of the user's."""

    def batch(self, step: int) -> tuple[Array, ...]:
        return (np.ones(step),)

    def examples(self, step: int) -> int:
        return step


@for_each(
    ("data", "kind"),
    [
        (np.ones(8), ArraySource),
        ((np.ones((8, 2)), np.ones(8)), ArraySource),
        ([np.ones((8, 2)), np.ones(8)], ArraySource),
        (da.ones(8, chunks=2), BlockSource),
        ((da.ones((8, 3), chunks=2), da.zeros(8, chunks=2)), BlockSource),
        (lambda: few_pairs(), IterableSource),
        (few_pairs(), IterableSource),
        (list(few_pairs()), IterableSource),
        (Own(), Own),
    ],
)
def test_source_fits_the_type_of_the_data(data: object, kind: type) -> None:
    source = make_source(data, batch=4, seed=0, worker=1, n_workers=2)

    assert type(source) is kind
    assert isinstance(source, Source)
    assert len(source.batch(2)[0]) == source.examples(2) == 2


@for_each(
    ("data", "words"),
    [
        ([np.ones((4, 2)), np.ones((4, 2)), np.ones((2, 2))], ["(x, y)", "lambda: b"]),
        ([np.ones(4), np.ones(4)], ["a list of 2 arrays", "tuple"]),
        ([[1, 2], [3, 4]], ["Python lists", "np.array(data)"]),
        (([1.0, 2.0], [3.0, 4.0]), ["Python lists", "(np.array(x), np.array(y))"]),
        ({"x": np.ones(3), "y": np.ones(3)}, ["(data['x'], data['y'],)"]),
        ("x.csv", ["load a file first"]),
    ],
)
def test_data_that_may_mean_two_things_are_refused_with_both_spellings(
    data: object, words: list[str]
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make_source(data, batch=4, seed=0, worker=1, n_workers=2)

    assert all(word in caught.value.message for word in words), caught.value


@pytest.mark.parametrize("data", ["x.csv", 3, {"x": np.ones(3)}, None, b"x"])
def test_what_is_no_data_is_refused_by_its_type(data: object) -> None:
    with pytest.raises(InvalidArgumentError, match=type(data).__name__):
        make_source(data, 2, 0, 0, 1)


def test_other_collections_of_dask_are_not_gathered_behind_the_users_back() -> None:
    class Frame:
        shape = (8, 2)

        def __dask_graph__(self) -> None:
            return None

        def __array__(self) -> Array:
            raise AssertionError("gathered")

    with pytest.raises(InvalidArgumentError, match="to_dask_array"):
        make_source((Frame(), Frame()), 2, 0, 0, 1)


@pytest.mark.slow
def test_arrays_in_memory_never_load_dask() -> None:
    program = (
        "import sys, numpy as np; from kit.training.data.sources import make_source;"
        "make_source((np.ones(4), np.ones(4)), 2, 0, 0, 1).batch(0);"
        "sys.exit('dask' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)

    assert done.returncode == 0


# -- each worker has its own part ------------------------------------------------------

X, Y = np.arange(60), np.repeat([0, 1, 2], 20)


@for_each("uneven", [kit.data.by_label((X, Y)), kit.data.dirichlet((X, Y), 0.5)])
def test_each_example_belongs_to_one_worker(uneven: Any) -> None:
    rows = uneven.rows(4)

    assert sorted(np.concatenate(rows)) == X.tolist()
    assert [value.tolist() for value in uneven.rows(4)] == [r.tolist() for r in rows]


def test_by_label_gives_each_worker_a_label_of_its_own() -> None:
    mixed = np.random.default_rng(0).permutation(60)

    rows = kit.data.by_label((X[mixed], Y[mixed])).rows(3)

    assert [set(Y[mixed][value]) for value in rows] == [{0}, {1}, {2}]


def test_a_large_alpha_is_even_and_a_small_one_is_not() -> None:
    def largest(alpha: float) -> float:
        rows = kit.data.dirichlet((X, Y), alpha, seed=3).rows(2)
        return max(abs(float(np.mean(Y[value] == 0)) - 1 / 3) for value in rows)

    assert largest(1e4) < 0.1 < largest(0.1)


def test_a_worker_reads_its_own_rows_only_and_goes_through_all_of_them() -> None:
    data = kit.data.by_label((X, Y))

    for worker in range(3):
        source = data.source(batch=12, seed=5, worker=worker, n_workers=3)
        read = [row for step in range(5) for row in source.batch(step)[0].tolist()]

        assert sorted(read) == sorted(data.rows(3)[worker].tolist())
        assert source.examples(7) == len(source.batch(7)[0]) == 4


def test_workers_with_other_data_train() -> None:
    def step(params: Any, batch: Any) -> Any:
        (labels,) = set(batch[1].tolist())
        return float(labels), {"w": np.ones(1)}

    with local_cluster(ps=0, worker=3) as cluster:
        run = kit.train(
            *(step, {"w": np.zeros(1)}, kit.data.by_label((X, Y))),
            optimizer=kit.GradientDescent(1.0),
            batch=12,
            topology="ring",
            steps=2,
            cluster=cluster,
        ).wait(10)

    assert run.loss == 1.0
    assert run.params["w"] == [-2.0]
