from __future__ import annotations

import pytest

from tests.net.pump import MAX_QUEUE_S, FaultyLine


def arrivals(line: FaultyLine, times: int = 400) -> list[tuple[float, str, bytes]]:
    """Look every ten milliseconds and return what came when."""
    return [
        (tick / 100, *arrival)
        for tick in range(times)
        for arrival in line.arrivals(tick / 100)
    ]


def test_perfect_line_delivers_at_once_and_in_order() -> None:
    line = FaultyLine()
    line.put("a", b"1", 0.0)
    line.put("b", b"2", 0.0)
    line.put("a", b"3", 0.0)

    assert line.arrivals(0.0) == [("b", b"1"), ("a", b"2"), ("b", b"3")]


def test_jitter_reorders_and_stays_within_its_bound() -> None:
    line = FaultyLine(seed=1)
    line.delay_s, line.jitter_s = 0.1, 0.5
    for number in range(50):
        line.put("a", bytes([number]), 0.0)

    result = arrivals(line)

    assert sorted(packet for _, _, packet in result) == [bytes([n]) for n in range(50)]
    assert [packet for _, _, packet in result] != [bytes([n]) for n in range(50)]
    assert 0.1 <= min(result)[0] <= max(result)[0] <= 0.61


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_loss_and_duplicates_have_the_shares_asked_for(share: float) -> None:
    lossy, doubling = FaultyLine(seed=2), FaultyLine(seed=2)
    lossy.loss = doubling.dup = share
    for line in (lossy, doubling):
        for _ in range(1000):
            line.put("b", b"x", 0.0)

    assert lossy.dropped == pytest.approx(1000 * share, abs=50)
    assert len(lossy.arrivals(0.0)) == 1000 - lossy.dropped
    assert len(doubling.arrivals(0.0)) == pytest.approx(1000 * (1 + share), abs=50)


def test_rate_spaces_packets_and_drops_what_would_wait_too_long() -> None:
    line = FaultyLine()
    line.rate = 80_000  # ten packets of 1000 bytes a second
    for _ in range(4):
        line.put("a", bytes(1000), 0.0)

    assert [when for when, _, _ in arrivals(line)] == [0.1, 0.2]
    assert (line.carried, line.dropped) == (4, 2)
    assert MAX_QUEUE_S < 0.3


def test_cut_stops_one_direction_alone() -> None:
    line = FaultyLine()
    line.cut_ab = True
    line.put("a", b"lost", 0.0)
    line.put("b", b"kept", 0.0)

    assert line.arrivals(0.0) == [("a", b"kept")]
    assert line.dropped == 1


def test_same_seed_gives_the_same_chances() -> None:
    def play() -> list[tuple[float, str, bytes]]:
        line = FaultyLine(seed=9)
        line.loss, line.dup, line.jitter_s = 0.3, 0.3, 1.0
        for number in range(100):
            line.put("a", bytes([number]), 0.0)
        return arrivals(line)

    assert play() == play()
