"""What the agreement on epochs does when the training goes on without a member."""

from __future__ import annotations

import pytest

from kit.errors import PeerLost
from kit.training.core.agreement import Agreement, Verdict
from kit.training.core.log import Decisions, Epoch, SaveTurns
from tests.agreement import Game


def three(steps: int = 10, *, saves: bool = False) -> Agreement:
    """Return an agreement of three members, that all have begun epoch 1."""
    result = Agreement((0, 1, 2), Epoch(0, "ps"), steps, saves=saves)
    for member in result.members:
        result.arrive(member, 0, 0)
    assert result.verdict(0) is Verdict.PREPARE
    for member in result.members:
        result.prepared(member, 0)
    assert result.outcome(0) is Verdict.COMMIT
    return result


def test_boundary_does_not_wait_for_who_is_lost() -> None:
    agreement = three()
    agreement.arrive(0, 1, 4)
    agreement.arrive(2, 1, 4)
    assert agreement.verdict(1) is Verdict.WAIT
    assert agreement.missing(1) == {1}

    agreement.lose(1)

    assert agreement.missing(1) == frozenset()
    assert agreement.verdict(1) is Verdict.GO


def test_epoch_is_agreed_when_the_last_one_awaited_is_lost() -> None:
    agreement = three()
    agreement.command("configure", topology="ring")
    for member in agreement.members:
        agreement.arrive(member, 1, 4)
    assert agreement.verdict(1) is Verdict.PREPARE
    agreement.prepared(0, 1)
    agreement.prepared(2, 1)
    assert agreement.outcome(1) is Verdict.WAIT

    agreement.lose(1)

    assert agreement.outcome(1) is Verdict.COMMIT
    assert (agreement.epoch.number, agreement.epoch.topology) == (2, "ring")


def test_refusal_of_one_who_is_lost_later_still_counts() -> None:
    agreement = three()
    agreement.command("configure", topology="ring")
    for member in agreement.members:
        agreement.arrive(member, 1, 4)
    agreement.verdict(1)
    agreement.prepared(1, 1, "no room")
    agreement.prepared(0, 1)

    agreement.lose(1)
    assert agreement.outcome(1) is Verdict.WAIT
    agreement.prepared(2, 1)

    assert agreement.outcome(1) is Verdict.ABANDON
    assert agreement.now.abandoned == "no room"


def test_nothing_is_concluded_where_another_one_is_awaited_too() -> None:
    agreement = three()
    agreement.command("configure", topology="ring")
    for member in agreement.members:
        agreement.arrive(member, 1, 4)
    agreement.verdict(1)
    agreement.prepared(0, 1)

    agreement.lose(1)

    assert agreement.missing(1) == {2}
    assert agreement.outcome(1) is Verdict.WAIT


def test_training_is_saved_and_ends_without_the_lost_one() -> None:
    agreement = three(saves=True)
    agreement.lose(1)
    agreement.command("stop")
    for number, verdict in ((1, Verdict.SAVE), (2, Verdict.FINISH)):
        for member in (0, 2):
            agreement.arrive(member, number, 4)
        assert agreement.verdict(number) is verdict
        agreement.append(Decisions.save, SaveTurns.succeed, 4)

    assert agreement.is_finished


def test_lost_member_that_stood_further_does_not_set_the_step() -> None:
    agreement = three()
    agreement.arrive(0, 1, 4)
    agreement.lose(1)
    agreement.lose(1)
    agreement.arrive(2, 1, 4)

    agreement.verdict(1)

    assert agreement.boundaries[1].step == 4
    assert agreement.lost == {1}


@pytest.mark.parametrize("state", ["away", "arrived", "told", "prepared"])
def test_the_others_come_to_the_end_wherever_one_was_lost(state: str) -> None:
    game = Game(3, members=(0, 1, 2))
    seen = False
    while not seen:
        for now, member in list(game.moves()):
            if member == 2 and now == state:
                seen = True
                break
            game.move(now, member)
    game.agreement.lose(2)
    del game.players[2]

    for _ in range(60):
        for result, member in list(game.moves()):
            move_without_the_lost(game, result, member)

    assert {player.state for player in game.players.values()} == {"done"}
    assert {player.step for player in game.players.values()} == {3}


def move_without_the_lost(game: Game, state: str, member: int) -> None:
    """Move; who was lost may have prepared, so the game's own check is too strict."""
    player = game.players[member]
    meeting = game.agreement.boundaries.get(player.number)
    if state == "prepared" and meeting is not None:
        meeting.prepared.pop(2, None)
    game.move(state, member)


def test_failure_is_raised_although_members_were_lost() -> None:
    agreement = three()
    agreement.lose(1)
    agreement.arrive(0, 1, 4)
    agreement.fail(PeerLost("worker:0 is gone"))

    with pytest.raises(PeerLost, match="worker:0 is gone"):
        agreement.verdict(1)
