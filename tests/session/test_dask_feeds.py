"""What dask has yet to compute can be fed, and is loaded in the process that asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import kit
from kit.session.client.dask_feeds import announced_shape, is_lazy, loaded

delayed: Any = dask.delayed  # type: ignore[attr-defined]  # dask's own gap


@pytest.fixture(autouse=True)
def session() -> Iterator[kit.Session]:
    with kit.Graph().as_default(), kit.Session() as session:
        yield session


class Disk:
    """Counts how often its one array is loaded."""

    def __init__(self) -> None:
        self.loads = 0

    def _load(self) -> Any:
        self.loads += 1
        return np.arange(6.0).reshape(3, 2)

    def array(self) -> Any:
        made = da.from_delayed(delayed(self._load, pure=False)(), (3, 2), dtype=float)  # type: ignore[no-untyped-call]
        return made


def test_array_of_dask_is_fed_with_its_values_at_each_run_anew(
    session: kit.Session,
) -> None:
    x, disk = kit.placeholder("float32", (None, 2)), Disk()
    array = disk.array()

    for runs in (1, 2):
        assert session.run(x * 1.0, {x: array + 1}).tolist() == [[1, 2], [3, 4], [5, 6]]
        assert disk.loads == runs


def test_what_two_feeds_share_is_loaded_once(session: kit.Session) -> None:
    x, y, disk = kit.placeholder("float64"), kit.placeholder("float64"), Disk()
    array = disk.array()

    total = session.run(x + y, {x: array * 2, y: array * 3})

    assert np.array_equal(total, np.arange(6.0).reshape(3, 2) * 5)
    assert disk.loads == 1


def test_feeds_in_a_tuple_are_loaded_too(session: kit.Session) -> None:
    x, y = kit.placeholder("float64"), kit.placeholder("int32")

    result = session.run(x + y.astype("float64"), {(x, y): (da.ones(2), delayed(5))})

    assert result.tolist() == [6.0, 6.0]


def test_array_of_a_wrong_shape_is_refused_before_it_is_loaded(
    session: kit.Session,
) -> None:
    x, disk = kit.placeholder("float32", (None, 4)), Disk()

    with pytest.raises(ValueError, match=r"\[\?, 4\].*\[3, 2\]"):
        session.run(x * 1.0, {x: disk.array()})

    assert disk.loads == 0


def test_array_of_unknown_length_is_checked_when_it_is_there(
    session: kit.Session,
) -> None:
    x, disk = kit.placeholder("float32", (1, 2)), Disk()
    array = disk.array()
    chosen = array[array[:, 0] > 1]

    assert announced_shape(chosen) == (None, 2)
    with pytest.raises(ValueError, match=r"\[1, 2\].*\[2, 2\]"):
        session.run(x * 1.0, {x: chosen})


def test_error_while_loading_comes_through(session: kit.Session) -> None:
    x = kit.placeholder("float32")

    def fail() -> None:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        session.run(x * 1.0, {x: delayed(fail)()})


def test_tensor_is_still_no_value_to_feed(session: kit.Session) -> None:
    x = kit.placeholder("float32")

    assert not is_lazy(x)
    with pytest.raises(TypeError, match="no value"):
        session.run(x * 1.0, {x: kit.constant(1.0)})


def test_plain_values_pass_as_they_are() -> None:
    array = np.ones(2)

    result = loaded([array, [1]])

    assert result[0] is array
    assert result[1] == [1]


def test_without_dask_nothing_is_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    array = da.ones(2)
    assert is_lazy(array)

    monkeypatch.delitem(sys.modules, "dask")

    assert not is_lazy(array)
