from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.exchange.layout import ITEMSIZE, Range, Spec, cut, lay_out, specs_of
from kit.exchange.topologies.parameter_placement import STRATEGIES, shards_of
from tests.exchange.models import models

WORKERS = st.integers(1, 8)
BUCKETS = st.sampled_from([0, 8, 64, 1000])


@given(models(), WORKERS, BUCKETS)
def test_buckets_cover_each_parameter_exactly_once(
    specs: list[Spec], n: int, bucket: int
) -> None:
    layout = lay_out(specs, n, bucket)

    covered = np.zeros(layout.n_bytes, int)
    for item in layout.buckets:
        for chunk in item.chunks:
            covered[chunk.lo : chunk.hi] += 1
    wanted = np.zeros(layout.n_bytes, int)
    for leaf in layout.leaves:
        wanted[leaf.range.lo : leaf.range.hi] += 1

    np.testing.assert_array_equal(covered, wanted)
    assert layout.payload_bytes == sum(spec.n_bytes for spec in specs)


@given(models(), WORKERS, BUCKETS)
def test_chunks_of_a_bucket_differ_by_one_item_at_most(
    specs: list[Spec], n: int, bucket: int
) -> None:
    for tensor in lay_out(specs, n, bucket).buckets:
        sizes = {chunk.size for chunk in tensor.chunks}
        assert max(sizes) - min(sizes) <= ITEMSIZE[tensor.dtype]
        assert len(tensor.chunks) == n


@given(models(), WORKERS)
def test_the_last_parameter_of_a_dtype_lies_first(specs: list[Spec], n: int) -> None:
    layout = lay_out(specs, n)

    for dtype in ITEMSIZE:
        group = [leaf.lo for leaf in layout.leaves if leaf.spec.dtype == dtype]
        assert group == sorted(group, reverse=True)


@given(models(), st.integers(1, 4), st.sampled_from([0, 16, 64]))
def test_stretches_are_all_bytes_of_a_dtype_and_no_others(
    specs: list[Spec], n: int, bucket: int
) -> None:
    layout = lay_out(specs, n, bucket)

    result = [
        {
            byte
            for leaf in layout.leaves
            for byte in range(*leaf.range)
            if leaf.spec.dtype == dtype
        }
        for dtype in dict.fromkeys(item.dtype for item in layout.buckets)
    ]

    assert [set(range(*part)) for part in layout.stretches if part.size] == [
        bytes_ for bytes_ in result if bytes_
    ]


@given(models(10), WORKERS, st.integers(1, 4), st.sampled_from(STRATEGIES))
def test_servers_hold_every_byte_of_every_parameter_once(
    specs: list[Spec], n: int, n_ps: int, strategy: str
) -> None:
    layout = lay_out(specs, n)

    shards = shards_of(layout, n_ps, strategy)

    held = [byte for shard in shards for part in shard for byte in range(*part)]
    owned = [byte for leaf in layout.leaves for byte in range(*leaf.range)]
    assert len(shards) == n_ps
    assert sorted(held) == sorted(owned)


def test_shard_is_cut_where_a_dtype_ends_even_without_a_gap() -> None:
    specs = [Spec("a", (7,), "float32"), Spec("b", (8,), "float64")]  # b is 64 bytes

    (shard,) = shards_of(lay_out(specs, n_workers=1), n_ps=1)

    assert [(part.lo, part.hi) for part in shard] == [(0, 64), (64, 92)]


def test_round_robin_deals_parameters_out_in_turn() -> None:
    specs = [Spec(f"p{i}", (4,), "float32") for i in range(4)]
    layout = lay_out(specs, 2)
    by_name = {leaf.spec.name: leaf.range for leaf in layout.leaves}

    first, second = shards_of(layout, 2, "round_robin")

    assert set(first) == {by_name["p0"], by_name["p2"]}
    assert set(second) == {by_name["p1"], by_name["p3"]}


def test_greedy_gives_the_next_parameter_to_the_server_with_the_fewest_bytes() -> None:
    sizes = [100, 10, 10, 70]
    specs = [Spec(f"p{i}", (size,), "float32") for i, size in enumerate(sizes)]
    layout = lay_out(specs, 1)

    shards = shards_of(layout, 2, "greedy")
    loads = [sum(part.size for part in shard) for shard in shards]

    # p0 is more than half of all and is cut in two; then p1 -> 0, p2 -> 1, p3 -> 0.
    assert loads == [4 * (50 + 10 + 70), 4 * (50 + 10)]


def test_a_parameter_above_a_servers_share_is_spread_over_all() -> None:
    layout = lay_out([Spec("big", (3000,), "float32"), Spec("b", (3,), "float32")], 2)

    shards = shards_of(layout, 3)

    loads = [sum(part.size for part in shard) for shard in shards]
    assert max(loads) - min(loads) <= 12


@pytest.mark.slow
def test_ten_thousand_small_parameters_make_few_ranges() -> None:
    specs = [Spec(f"p{i}", (100,), "float32") for i in range(10_000)]

    shards = shards_of(lay_out(specs, 2), 3)

    assert sum(len(shard) for shard in shards) <= 3 * 64


def test_an_unknown_placement_is_refused_with_the_nearest_name() -> None:
    layout = lay_out([Spec("w", (1,), "float32")], 1)

    with pytest.raises(InvalidArgumentError, match="Did you mean 'greedy'"):
        shards_of(layout, 1, "greddy")


@pytest.mark.slow
def test_more_buckets_than_a_step_can_go_through_are_refused() -> None:
    specs = [Spec("w", (2**30,), "float32")]

    with pytest.raises(InvalidArgumentError, match="would be 67108864 of them"):
        lay_out(specs, 2, bucket_bytes=64)

    assert len(lay_out(specs, 2, bucket_bytes=2**16).buckets) == 2**16


def test_integer_parameters_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="'step' is int64"):
        specs_of({"step": np.zeros(3, np.int64)})


@given(st.integers(0, 50), st.integers(1, 9))
def test_cut_agrees_with_array_split(items: int, parts: int) -> None:
    sizes = [part.size // 4 for part in cut(Range(0, items * 4), parts, 4)]

    assert sizes == [len(part) for part in np.array_split(np.arange(items), parts)]
