"""Random models for the tests of the exchange."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kit.exchange.layout import Layout, Spec
from kit.exchange.plan import Group
from kit.exchange.topologies.parameter_placement import shards_of

SHAPES = st.lists(st.integers(0, 7), min_size=0, max_size=3).map(tuple)


def models(max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Draw the specs of a model: any shapes, empty and 0-d too, both dtypes."""
    leaf = st.tuples(SHAPES, st.sampled_from(["float32", "float64"]))
    return st.lists(leaf, min_size=1, max_size=max_leaves).map(
        lambda leaves: [
            Spec(f"p{number}", shape, dtype)
            for number, (shape, dtype) in enumerate(leaves)
        ]
    )


def group_on(layout: Layout, n_ps: int, n: int) -> Group:
    """Return so many servers, who share a model, and the workers after them."""
    workers = tuple(range(n_ps, n_ps + n))
    return Group(tuple(range(n_ps)), workers, shards_of(layout, n_ps))
