"""Times of another machine, brought to this machine's clock."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kit.trace.clock import ClockOffset
from kit.trace.traffic import MEASURE, STEP

DELAYS = st.integers(1, 50_000_000)


@given(
    ahead=st.integers(-(10**18), 10**18),
    answers=st.lists(st.tuples(DELAYS, DELAYS, st.integers(0, 10**10)), min_size=1),
)
def test_offset_is_wrong_by_less_than_the_quickest_answer_took(
    ahead: int, answers: list[tuple[int, int, int]]
) -> None:
    clock, now, best = ClockOffset(), 10**12, 10**9

    for there, back, pause in answers:
        clock.hear(now, now + there + ahead, now + there + back)
        best = min(best, there + back)
        now += there + back + pause

    # By half of it; by all of it where two clocks were taken for one. The one that is
    # kept may have aged: clocks drift by 0.1 ms a second at most.
    most = best if clock.ahead == 0 else best / 2
    assert abs(clock.ahead - ahead) <= most + 1e-4 * (now - 10**12) + 2


@given(answers=st.lists(st.tuples(DELAYS, DELAYS), min_size=1))
def test_tasks_of_one_machine_have_one_clock_to_the_nanosecond(
    answers: list[tuple[int, int]],
) -> None:
    clock, now = ClockOffset(), 10**12

    for there, back in answers:
        clock.hear(now, now + there, now + there + back)
        now += there + back

    assert clock.ahead == 0


def test_rows_are_moved_by_the_offset_in_their_times_alone() -> None:
    clock = ClockOffset(ahead=1000)
    step, measure = np.ones(2, STEP), np.ones(1, MEASURE)
    step["start"], step["end"], measure["end"] = 5000, 6000, 7000
    step.flags.writeable = False  # as it comes from a link

    moved, other = clock.here(step), clock.here(measure)

    assert moved["start"].tolist() == [4000, 4000]
    assert moved["end"].tolist() == [5000, 5000]
    assert moved["compute"].tolist() == [1, 1]
    assert other["end"].tolist() == [6000]
    assert ClockOffset().here(step) is step
