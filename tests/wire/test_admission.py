"""Who waits, whose handshake begins, and who must go: decided without a socket."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.wire.listening.admission import (
    PATIENCE_S,
    Admission,
    LinkStage,
    PendingConnection,
)

OWNER, STRANGER = "user 1000", "user 65534"


def entered(
    admission: Admission,
    origin: str,
    stage: LinkStage = LinkStage.SILENT,
    now: float = 0.0,
) -> PendingConnection:
    first = PendingConnection(origin, now + 5.0, now)
    assert admission.enter(first) is None
    first.reach(stage, now)
    return first


def test_oldest_silent_one_of_the_largest_crowd_makes_room() -> None:
    admission = Admission(places=1, room=3)
    entered(admission, OWNER)
    entered(admission, STRANGER, LinkStage.READY)
    silent = entered(admission, STRANGER)

    assert admission.enter(PendingConnection(STRANGER, 5.0, 0.0)) is silent


def test_owner_gets_the_free_place_before_a_crowd_that_came_earlier() -> None:
    admission = Admission(places=2, room=9)
    strangers = [entered(admission, STRANGER, LinkStage.READY) for _ in range(5)]
    assert admission.decide(0.0).begin == strangers[:2]
    owner = entered(admission, OWNER, LinkStage.READY)

    admission.leave(strangers[0])

    assert admission.decide(0.1).begin == [owner]


def test_slow_handshake_of_a_crowd_makes_way_but_not_at_once() -> None:
    admission = Admission(places=2, room=9)
    crowd = [entered(admission, STRANGER, LinkStage.READY) for _ in range(2)]
    admission.decide(0.0)
    entered(admission, OWNER, LinkStage.READY)

    early = admission.decide(PATIENCE_S / 2)
    late = admission.decide(PATIENCE_S)

    assert (early.end, early.again_at) == ([], PATIENCE_S)
    assert [item for item, _ in late.end] == [crowd[0]]


def test_nobody_makes_way_for_more_of_the_same_origin() -> None:
    admission = Admission(places=2, room=9)
    for _ in range(5):
        entered(admission, OWNER, LinkStage.READY)
    admission.decide(0.0)

    later = admission.decide(1.0)

    assert (later.begin, later.end) == ([], [])


def test_who_is_not_done_in_time_is_told_why_he_goes() -> None:
    admission = Admission(places=0, room=9)
    silent = entered(admission, OWNER)
    ready = entered(admission, OWNER, LinkStage.READY, now=1.0)

    first, second = admission.decide(5.0), admission.decide(6.0)

    assert (first.end, first.again_at) == ([(silent, "it was silent for too long")], 6)
    assert (ready, "no place for its handshake came free in time") in second.end


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60),
    st.integers(1, 4),
    st.integers(1, 8),
)
def test_room_and_places_are_never_exceeded(
    comings: list[tuple[str, bool]], places: int, room: int
) -> None:
    admission, shaking = Admission(places, room), set[PendingConnection]()
    for now, (origin, speaks) in enumerate(comings):
        first = PendingConnection(origin, now + 20.0, float(now))
        gone = admission.enter(first)
        if speaks and gone is not first:
            first.reach(LinkStage.READY, now)
        decision = admission.decide(float(now))
        shaking |= set(decision.begin)
        for each, _ in decision.end:
            admission.leave(each)
            shaking.discard(each)

        assert len(shaking) <= places
        assert len(admission) - len(shaking) <= room
