"""Results that are put into given arrays, and messages that come early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError, KitError
from kit.testing.cluster import local_cluster
from tests.group.scene import scene


def test_results_are_put_into_given_arrays() -> None:
    def program(group: kit.Group) -> Any:
        x, n = np.arange(4.0) + group.rank, group.size
        total, whole, got = np.zeros(4), np.zeros((n, 4)), np.zeros(4)
        first, mine = np.zeros(4), np.zeros(4)
        assert group.all_reduce(x, "mean", out=total) is total
        group.all_gather(x, out=list(whole))
        group.broadcast(x, 1, out=got)
        group.reduce(x, 1, out=first)
        group.reduce_scatter([x] * n, out=mine)
        group.scatter([x] * n if group.rank == 0 else None, out=x)
        return total, whole, got, first, mine, x

    with scene(2) as stage:
        for rank, result in enumerate(stage.play(program)):
            total, whole, got, first, mine, scattered = result
            x = np.arange(4.0)
            assert np.array_equal(total, x + 0.5)
            assert np.array_equal(whole, [x, x + 1])
            assert np.array_equal(got, x + 1)
            assert np.array_equal(first, 2 * x + 1 if rank == 1 else 0 * x)
            assert np.array_equal(mine, 2 * x + 1)
            assert np.array_equal(scattered, x)


def test_room_that_does_not_fit_is_refused() -> None:
    with scene(2) as stage:
        errors = stage.errors(lambda group: group.broadcast(1.0, out=np.zeros(3)))

        assert all(isinstance(error, InvalidArgumentError) for error in errors)
        assert "room for [3] numbers, and the results have [1]" in str(errors[0])


def test_room_of_a_dtype_that_loses_numbers_is_refused_in_all_calls() -> None:
    x, room = np.ones(3), np.zeros(3, int)
    calls: list[Callable[[kit.Group], Any]] = [
        lambda group: group.broadcast(x, out=room),
        lambda group: group.all_gather(x, out=[room, room]),
        lambda group: group.scatter([x, x] if group.rank == 0 else None, out=room),
        lambda group: group.all_to_all([x, x], out=[room, room]),
    ]
    with scene(2) as stage:
        for call in calls:
            errors = stage.errors(call)

            said = "out=int64[3] for a result of float64[3]"
            assert any(said in str(error) for error in errors), errors
            assert all(isinstance(error, KitError) for error in errors), errors
            assert not room.any()


@pytest.mark.slow
def test_message_that_comes_before_its_group_is_made_is_counted() -> None:
    with local_cluster(0, 2) as cluster:
        first, second = cluster.servers
        with kit.group(cluster=first) as sender:
            sender.send(np.ones(5), to=1)
            with kit.group(cluster=second) as receiver:
                receiver.receive(0)
                counted = receiver.traffic

    assert (counted.measured, counted.formula) == (40, 40)
