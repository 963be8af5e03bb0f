"""What parameter servers hold: everything once, and never two dtypes in one range."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kit.exchange.layout import Spec, lay_out
from kit.exchange.topologies.parameter_placement import STRATEGIES, shards_of
from tests.exchange.models import models


def test_shard_is_cut_where_a_dtype_ends_even_without_a_gap() -> None:
    specs = [Spec("a", (7,), "float32"), Spec("b", (8,), "float64")]  # b is 64 bytes
    layout = lay_out(specs, n_workers=1)

    (shard,) = shards_of(layout, n_ps=1)

    assert [(part.lo, part.hi) for part in shard] == [(0, 64), (64, 92)]


@given(models(), st.integers(1, 3), st.integers(1, 4), st.sampled_from(STRATEGIES))
def test_servers_hold_every_byte_of_every_parameter_once(
    specs: Any, n_workers: int, n_ps: int, strategy: str
) -> None:
    layout = lay_out(specs, n_workers)

    shards = shards_of(layout, n_ps, strategy)

    held = sorted(
        byte for shard in shards for lo, hi in shard for byte in range(lo, hi)
    )
    owned = [leaf.range for leaf in layout.leaves]
    assert held == sorted(byte for lo, hi in owned for byte in range(lo, hi))
