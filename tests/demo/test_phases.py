from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kit.demo.phases import DemoPhase, differing_bits, halves, thirds
from tests.cases import for_each


@given(st.integers(1, 5000), st.sampled_from([thirds, halves]))
def test_phases_follow_each_other_without_gap(steps: int, make: object) -> None:
    phases: list[DemoPhase] = make(steps)  # type: ignore[operator]

    assert phases[0].first == 0
    assert phases[-1].end == steps
    assert all(a.end == b.first for a, b in pairwise(phases))
    assert all(phase.end > phase.first for phase in phases)


def test_a_third_each_goes_from_server_to_ring_and_back() -> None:
    assert [(p.topology, p.first, p.end) for p in thirds(600)] == [
        ("ps", 0, 200),
        ("ring", 200, 400),
        ("ps", 400, 600),
    ]


@for_each("bit", range(32))
def test_one_flipped_bit_is_one_differing_bit(bit: int) -> None:
    value = np.arange(5, dtype=np.float32)
    other = value.copy()
    other.view(np.uint32)[3] ^= np.uint32(1 << bit)

    assert differing_bits({"w": value}, {"w": value}) == 0
    assert differing_bits({"w": value}, {"w": other}) == 1
