"""What a group exchanges comes out as what went in, in a new array or a given one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError, KitError, MemberMismatch
from kit.testing.cluster import local_cluster
from tests.cases import for_each
from tests.group.scene import scene

DTYPES = (
    *("bool", "int8", "uint64", "float16", "longdouble", "complex128", ">i4"),
    *("M8[D]", "m8[s]", "S5", "U3", "V4"),
)
VALUES: dict[str, Any] = {
    **{dtype: np.arange(3).astype("i8").astype(dtype) for dtype in DTYPES},
    "no axis": np.array(3.5),
    "no numbers": np.zeros((0, 4)),
    "columns first": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "every third": np.arange(10.0)[::3],
    "float": 1.5,
    "int": 2**62,
    "bool of Python": True,
    "number of numpy": np.float32(2.5),
    "dict": {"w": np.ones(3), "b": [1, 2.5, (np.zeros(2, np.int8),)]},
    "nothing": {"w": [], "b": {}},
}


def same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(
            same(value[name], part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        pairs = zip(value, wanted, strict=True)
        return type(value) is type(wanted) and all(same(*pair) for pair in pairs)
    if isinstance(wanted, np.ndarray):
        alike = value.dtype == wanted.dtype and value.shape == wanted.shape
        return isinstance(value, np.ndarray) and alike and bool((value == wanted).all())
    return type(value) is type(wanted) and bool(value == wanted)


@pytest.mark.slow
def test_what_is_sent_and_gathered_is_of_the_kind_that_was_given() -> None:
    with scene(2) as stage:
        for name, value in VALUES.items():

            def program(group: kit.Group, value: Any = value) -> list[Any]:
                both = group.all_gather(value)
                root = group.broadcast(value if group.rank == 0 else None)
                return [*both, root, group.sendrecv(value, *2 * [1 - group.rank])]

            for results in stage.play(program):
                assert all(same(result, value) for result in results), (name, results)


@pytest.mark.slow
def test_sums_are_of_the_kind_that_was_given_and_means_of_whole_numbers_floats() -> (
    None
):
    value = {"w": np.array(3.5), "n": 2, "b": [np.float32(1.5), np.ones(2, np.int8)]}

    with scene(2) as stage:
        (total, mean, none), _ = stage.play(
            lambda group: [
                group.all_reduce(value),
                group.all_reduce(value, op="mean"),
                group.all_reduce({"w": [], "b": ()}),
            ]
        )

    b: list[Any] = [np.float32(3.0), np.full(2, 2, np.int8)]
    assert same(total, {"w": np.array(7.0), "n": 4, "b": b})
    b = [np.float32(1.5), np.ones(2)]
    assert same(mean, {"w": np.array(3.5), "n": 2.0, "b": b})
    assert same(none, {"w": [], "b": ()})


@pytest.mark.slow
def test_tensors_of_torch_come_back_as_such() -> None:
    torch = pytest.importorskip("torch")

    with scene(2) as stage:
        (total, others), _ = stage.play(
            lambda group: [
                group.all_reduce({"w": torch.ones(2, 3), "n": 1.0}),
                group.all_gather(torch.arange(group.rank + 1)),
            ]
        )

    assert torch.equal(total["w"], torch.full((2, 3), 2.0))
    assert total["n"] == 2.0
    assert [each.tolist() for each in others] == [[0], [0, 1]]
    assert {type(each) for each in others} == {torch.Tensor}


def test_mask_of_an_array_is_not_dropped_in_silence() -> None:
    with scene(2) as stage:
        masked = np.ma.masked_array([1, 2], [False, True])
        with pytest.raises(InvalidArgumentError, match=r"x\.filled\(0\).*x\.mask"):
            stage.groups[0].all_reduce(masked)


@for_each(
    ("number", "op", "exact"),
    [(2**62, "sum", "sum"), (-(2**62) - 1, "sum", "sum"), (2**32, "prod", "math.prod")],
)
def test_whole_numbers_that_might_wrap_are_named_before_anything_moves(
    number: int, op: str, exact: str
) -> None:
    with scene(2) as stage:
        group = stage.groups[0]
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": lambda: group.all_reduce({"w": np.ones(2), "n": number}, op),
            "reduce": lambda: group.reduce(number, op=op),
            "reduce_scatter": lambda: group.reduce_scatter([1, number], op),
        }
        for name, call in calls.items():
            wanted = (
                rf"{name}\(\) got {number}, and the {op} of 2 such .*{exact}\(group"
            )
            with pytest.raises(InvalidArgumentError, match=wanted):
                call()


@pytest.mark.slow
def test_whole_numbers_that_fit_have_their_exact_sum_product_and_maximum() -> None:
    def program(group: kit.Group) -> Any:
        large = 2**62 - 1 if group.rank else -(2**62) + 5
        return [
            group.all_reduce(large),
            group.all_reduce(2**31, op="prod"),
            group.all_reduce(2**63 - 1 - group.rank, op="max"),
            sum(group.all_gather(2**62)),
        ]

    with scene(2) as stage:
        results = stage.play(program)

    assert results == [[4, 2**62, 2**63 - 1, 2**63]] * 2


@pytest.mark.slow
def test_means_of_whole_numbers_do_not_wrap() -> None:
    def program(group: kit.Group) -> Any:
        pixels, room = np.array([100, 250], np.uint8), np.zeros(2)
        group.all_reduce(pixels, "mean", out=room)
        return [
            *(group.all_reduce(pixels, "mean"), room),
            group.reduce_scatter([pixels, pixels], "mean"),
            group.all_reduce({"n": 2**62, "m": np.int16(30_000)}, "mean"),
        ]

    with scene(2) as stage:
        for *arrays, numbers in stage.play(program):
            assert all(same(array, np.array([100.0, 250.0])) for array in arrays)
            assert same(numbers, {"n": 2.0**62, "m": np.float64(30_000)})


@for_each(
    ("value", "line"),
    [
        (True, r"np\.int64\(x\)"),
        (np.array([True]), r"np\.int64\(x\)"),
        (np.ones(2, ">f8"), r"x\.astype\('float64'\)"),
    ],
)
def test_line_to_write_for_what_has_no_sum_keeps_the_numbers(
    value: Any, line: str
) -> None:
    with scene(2) as stage, pytest.raises(InvalidArgumentError, match=line):
        stage.groups[0].all_reduce(value)


@pytest.mark.slow
def test_nan_is_the_maximum_and_the_minimum_whoever_has_it() -> None:
    def program(group: kit.Group) -> Any:
        x = np.array([1.0, 2.0, np.nan, 4.0])
        x[group.rank] = np.nan
        pairs = product(("max", "min"), ("ring", "mesh", "recursive-doubling", "tree"))
        return [group.all_reduce(x, op, algorithm=name) for op, name in pairs]

    with scene(2) as stage:
        for result in np.concatenate(stage.play(program)):
            assert np.isnan(result).tolist() == [True, True, True, False]


def test_mean_of_whole_numbers_and_of_floats_are_different_calls() -> None:
    with scene(2) as stage:
        errors = stage.errors(
            lambda group: group.all_reduce(
                np.ones(3, "i2" if group.rank else "f8"), "mean"
            )
        )

    for error in errors:
        assert isinstance(error, MemberMismatch)
        assert "float64[3], op='mean'" in str(error)
        assert "int16[3], op='mean'" in str(error)


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
