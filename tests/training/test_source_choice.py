"""Which source the data of a training get."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest

from kit.errors import InvalidArgumentError
from kit.training.data.dask_source import BlockSource
from kit.training.data.sources import ArraySource, IterableSource, Source, make_source
from tests.cases import for_each

Array = npt.NDArray[Any]


def pairs() -> Iterator[tuple[Array, Array]]:
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
        (lambda: pairs(), IterableSource),
        (pairs(), IterableSource),
        (list(pairs()), IterableSource),
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
