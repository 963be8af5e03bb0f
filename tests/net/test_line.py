from __future__ import annotations

import pytest

from tests.net.pump import FaultyLine


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


def test_loss_has_the_share_asked_for_and_is_the_same_with_the_same_seed() -> None:
    def delivered(loss: float) -> list[bytes]:
        line = FaultyLine(seed=2)
        line.loss = loss
        for number in range(1000):
            line.put("b", number.to_bytes(2), 0.0)
        packets = [packet for _, packet in line.arrivals(0.0)]
        assert len(packets) == 1000 - line.dropped
        return packets

    for share in 0.0, 0.2, 1.0:
        assert len(delivered(share)) == pytest.approx(1000 * (1 - share), abs=50)
        assert delivered(share) == delivered(share)


def test_cut_stops_one_direction_alone() -> None:
    line = FaultyLine()
    line.cut_ab = True
    line.put("a", b"lost", 0.0)
    line.put("b", b"kept", 0.0)

    assert line.arrivals(0.0) == [("a", b"kept")]
    assert line.dropped == 1
