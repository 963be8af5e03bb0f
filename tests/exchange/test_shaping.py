"""The arithmetic of slow lines: what it says is checked against a sum by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.wire.shaping import LineIn, LineOut, LinkSettings
from tests.cases import for_each

SIZES = st.lists(st.integers(0, 10**7), min_size=1, max_size=20)
SPEED = LinkSettings(bandwidth=8e9)  # a nanosecond for each byte


def no_dice() -> float:
    raise AssertionError("without jitter nothing is thrown")


@for_each(
    ("text", "wanted"),
    [
        (None, (0, 0, 0)),
        ("", (0, 0, 0)),
        (" None ", (0, 0, 0)),
        ("1gbit", (1e9, 0, 0)),
        ("2.5Gbit/s", (2.5e9, 0, 0)),
        ("100 mbit , 5ms", (1e8, 0.005, 0)),
        ("9600bit,1s,20ms", (9600, 1.0, 0.02)),
        ("250us", (0, 0.00025, 0)),
        ("5ms, 1tbit", (1e12, 0.005, 0)),
    ],
)
def test_text_means_bits_a_second_and_seconds(
    text: str | None, wanted: Sequence[float]
) -> None:
    assert LinkSettings.parse(text) == pytest.approx(tuple(wanted))


@for_each(
    "text",
    [
        "fast",
        "1gbyte",
        "-1gbit",
        "0gbit",
        "1gbit,2gbit",
        "1ms,2ms,3ms",
        "5",
        ",",
        "1e3bit",
        "0.5bit",  # a payload would be on its way for longer than a clock counts
        f"0.{'0' * 400}1bit",
        f"{'9' * 400}gbit",
        "61s",
        "31s,30s",
        f"{'9' * 400}s",
    ],
)
def test_text_that_means_nothing_is_shown(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        LinkSettings.parse(text)

    assert repr(text) in str(caught.value)
    assert "'1gbit'" in str(caught.value) or "'100mbit,5ms,1ms'" in str(caught.value)


@given(
    st.builds(
        LinkSettings,
        st.sampled_from([0.0, 9600.0, 1e6, 2.5e9, 1e12]),
        st.sampled_from([0.0, 1e-6, 0.005, 1.5]),
        st.sampled_from([0.0, 0.001]),
    )
)
def test_text_of_settings_is_read_back(settings: LinkSettings) -> None:
    assert LinkSettings.parse(str(settings)) == pytest.approx(settings)


def test_full_speed_is_not_shaped() -> None:
    assert not LinkSettings().is_shaped
    assert LinkSettings(latency=1e-6).is_shaped
    assert LinkSettings().ns_per_byte == 0


@given(SIZES)
def test_payloads_leave_one_after_the_other(sizes: list[int]) -> None:
    line = LineOut(SPEED, no_dice)

    reached = [line.reaches_at(100, size) for size in sizes]

    assert reached == [100 + sum(sizes[: n + 1]) for n in range(len(sizes))]


@given(SIZES, SIZES)
def test_line_in_is_shared_by_all_senders(first: list[int], second: list[int]) -> None:
    line = LineIn(SPEED)
    # Two senders that each fill their own line from the same moment on.
    payloads = [
        (sum(sizes[: n + 1]), sizes[n])
        for sizes in (first, second)
        for n in range(len(sizes))
    ]
    arriving = sorted(payloads, key=lambda payload: payload[0])

    taken_in = [line.arrives_at(at, size) for at, size in arriving]

    assert taken_in == sorted(taken_in)
    assert taken_in[-1] >= max(sum(first), sum(second))
    assert taken_in[-1] <= sum(first) + sum(second)
    assert all(end >= at for end, (at, _) in zip(taken_in, arriving, strict=True))


def test_line_that_rested_begins_at_once() -> None:
    line = LineOut(SPEED, no_dice)
    line.reaches_at(0, 1000)

    assert line.reaches_at(5000, 10) == 5010


def test_latency_delays_and_does_not_occupy() -> None:
    line = LineOut(LinkSettings(8e9, latency=0.001), no_dice)

    assert [line.reaches_at(0, 100) for _ in range(3)] == [
        1_000_100,
        1_000_200,
        1_000_300,
    ]


def test_jitter_is_added_within_its_bound_and_repeats_with_its_seed() -> None:
    settings = LinkSettings(latency=0.001, jitter=0.002)

    def throw(seed: int) -> list[int]:
        line = LineOut(settings, random.Random(seed).random)
        return [line.reaches_at(0, 1) for _ in range(100)]

    assert throw(1) == throw(1) != throw(2)
    assert min(throw(1)) >= 1_000_000
    assert 2_500_000 < max(throw(1)) < 3_000_000


def test_bandwidth_of_nothing_is_no_bandwidth() -> None:
    assert LineOut(LinkSettings(), no_dice).reaches_at(7, 10**9) == 7
    assert LineIn(LinkSettings()).arrives_at(7, 10**9) == 7
