"""The agreement on epochs, in every order of events that can be thought of."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    PeerLost,
)
from kit.training.core.agreement import Agreement, Verdict
from kit.training.core.log import DecisionLog, Decisions, Epoch, SaveTurns
from tests.agreement import IDLE, MEMBERS, WORKERS, Game
from tests.cases import for_each


class Trainings(RuleBasedStateMachine):
    """Users request, pause and stop, members move in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.game = Game(1)
        self.stopped = self.paused = self.saves = False
        self.failed: PeerLost | None = None

    @initialize(steps=st.integers(0, 12), saves=st.booleans())
    def begin(self, steps: int, saves: bool) -> None:
        self.game = Game(steps, saves=saves)
        self.saves = saves

    @precondition(lambda self: any(self.game.moves()))
    @rule(data=st.data(), refuse=st.sampled_from([False] * 9 + [True]))
    def member_moves(self, data: st.DataObject, refuse: bool) -> None:
        position, member = data.draw(st.sampled_from(list(self.game.moves())))
        begun = self.game.agreement.epoch.number > 0
        self.game.move(position, member, "no room" if refuse and begun else None)

    @rule(
        topology=st.sampled_from(["ps", "ring", None]),
        link=st.sampled_from(["", "1gbit", None]),
        synchronous=st.sampled_from([True, False, None]),
        at=st.integers(0, 12),
    )
    def user_requests(
        self, topology: str | None, link: str | None, synchronous: bool | None, at: int
    ) -> None:
        agreement, seen = self.game.agreement, self.game.agreement.now.foreseen(at)

        agreement.command(
            "configure", topology=topology, link=link, synchronous=synchronous, at=at
        )

        then = agreement.now.foreseen(at)
        assert then.topology == (seen.topology if topology is None else topology)
        assert then.link == (seen.link if link is None else link)
        kept = seen.synchronous if synchronous is None else synchronous
        assert then.synchronous is kept

    @rule(steps=st.integers(0, 3))
    def user_pauses(self, steps: int) -> None:
        self.game.agreement.command("pause", steps=steps)
        self.paused = True
        # Who has begun with a step finishes it, and learns of the halt in the next one.
        self.game.may_do = 1 + steps

    @rule()
    def user_saves(self) -> None:
        self.game.agreement.append(Decisions.ask_save)

    @precondition(lambda self: self.game.writing is not None)
    @rule(good=st.booleans())
    def copies_are_written(self, good: bool) -> None:
        self.game.write(good=good)

    @rule()
    def user_resumes(self) -> None:
        self.game.agreement.command("resume")
        self.paused = False
        self.game.may_do = None

    @rule()
    def user_stops(self) -> None:
        self.game.agreement.command("stop")
        self.stopped = True
        if self.game.may_do is None:
            self.game.may_do = 1

    @rule()
    def log_is_read_again(self) -> None:
        """Go on with a copy of the log, as another coordinator does."""
        result = self.game.agreement.log
        plain = json.loads(json.dumps(result.to_plain()))
        self.game.agreement.log = DecisionLog.from_plain(plain)
        assert repr(self.game.agreement.log) == repr(result)

    @precondition(lambda self: self.failed is None)
    @rule(chance=st.integers(0, 9))
    def member_is_lost(self, chance: int) -> None:
        if chance == 0 and not self.game.agreement.is_finished:
            self.failed = PeerLost("worker:1 is gone")
            self.game.agreement.fail(self.failed)
            self.game.agreement.fail(PeerLost("worker:0 is gone"))

    @invariant()
    def epochs_are_agreed(self) -> None:
        self.game.check()
        assert self.game.agreement.error is self.failed
        now = self.game.agreement.now
        assert (now.is_paused, now.is_stopped) == (self.paused, self.stopped)

    def teardown(self) -> None:
        """Whatever was requested, a training that is not paused comes to its end."""
        self.user_resumes()
        for _ in range(400):
            for position, member in list(self.game.moves()):
                self.game.move(position, member)
            if self.game.writing is not None:
                self.game.write(good=True)
        players = self.game.players
        if self.failed is None:
            assert {player.state for player in players.values()} == {"done"}
            (last,) = {player.step for player in players.values()}
            assert self.stopped or last == self.game.agreement.steps
            assert not self.saves or last in self.game.copies
        else:
            workers = {players[worker].state for worker in WORKERS}
            assert workers <= {"failed", "working"}
        self.game.check()


TestTrainings = pytest.mark.slow(Trainings.TestCase)
TestTrainings.settings = settings(stateful_step_count=60)


def walk(game: Game, requests: tuple[str, ...]) -> Iterator[Game]:
    """Yield every end that the game can have, over all orders of all events."""
    seen: set[str] = set()
    stack = [(game, requests)]
    while stack:
        game, left = stack.pop()
        key = repr((vars(game.agreement), game.players, left))
        if key in seen:
            continue
        seen.add(key)
        game.check()
        choices = list(game.moves())
        if not choices:
            yield game
        for position, member in choices:
            after = game.copied()
            after.move(position, member)
            stack.append((after, left))
        if left:
            after = game.copied()
            after.agreement.command("configure", topology=left[0])
            stack.append((after, left[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("members", [(0, 1), (0, IDLE)])
@pytest.mark.parametrize(
    ("steps", "requests"), [(2, ()), (2, ("ring",)), (1, ("ring", "ps"))]
)
def test_every_order_of_events_ends_with_one_list_of_epochs(
    steps: int, requests: tuple[str, ...], members: tuple[int, ...]
) -> None:
    ends = list(walk(Game(steps, members), requests))

    assert ends
    result = set()
    for game in ends:
        lists = [tuple(player.epochs) for player in game.players.values()]
        assert {player.state for player in game.players.values()} == {"done"}
        assert {player.step for player in game.players.values()} == {steps}
        assert len(set(lists)) == 1
        result.add(tuple(epoch.topology for epoch in lists[0]))
    assert ("ps",) in result
    if requests:
        assert ("ps", "ring") in result or ("ring",) in result


@pytest.mark.parametrize("word", ["stop", "pause"])
def test_a_word_while_advancing_counts_at_once(word: str) -> None:
    game = Game(1000)
    play(game, until=3)
    game.agreement.command("pause")
    play(game)
    game.agreement.command("pause", steps=500)
    play(game, until=game.players[0].step + 10)
    before = game.players[0].step

    game.agreement.command(word)
    play(game)

    assert game.players[0].step - before <= 1


@for_each(("words", "agreed_at"), [((), 9), (("stop",), 5), (("pause", "stop"), 5)])
def test_workers_that_do_not_agree_do_so_in_one_more_step_at_the_end(
    words: tuple[str, ...], agreed_at: int
) -> None:
    game = Game(10)
    game.agreement.command("configure", topology="gossip")
    play(game, until=4)
    for word in words:
        game.agreement.command(word)
        play(game, until=None if word == words[-1] else 5)

    play(game)

    assert {player.state for player in game.players.values()} == {"done"}
    result = [(epoch.topology, epoch.first_step) for epoch in game.players[0].epochs]
    assert result == [("gossip", 0), ("ring", agreed_at)]
    assert game.players[0].step == agreed_at + 1
    # As it is told to the coordinator of another generation, which may do steps again.
    assert game.agreement.now.requested.topology == "gossip"
    assert game.agreement.expected is None


def test_a_training_fails_if_its_workers_cannot_agree_at_the_end() -> None:
    game = Game(3)
    game.agreement.command("configure", topology="gossip")

    with pytest.raises(FailedPreconditionError, match=r"cannot agree .* no room"):
        play(game, refusal="no room")


def test_a_second_request_waits_until_the_first_is_written() -> None:
    game = Game(10)
    play(game, until=3)
    game.agreement.command("pause")
    game.agreement.append(Decisions.ask_save)
    play(game)
    game.agreement.append(Decisions.ask_save)
    play(game)
    assert len(game.copies) == 1

    game.write(good=True)
    play(game)

    assert len(game.copies) == 2


@pytest.mark.parametrize("good", [True, False])
def test_the_end_waits_for_one_attempt_to_save_the_last_state(good: bool) -> None:
    game = Game(4, saves=True)
    play(game)
    assert {player.state for player in game.players.values()} == {"arrived"}
    assert game.copies == [4]

    game.write(good=good)
    play(game)

    assert {player.state for player in game.players.values()} == {"done"}
    assert game.copies == [4]


def test_a_training_restored_at_its_end_is_not_saved_again() -> None:
    game = Game(4, saves=True)
    game.agreement.append(Decisions.save, SaveTurns.succeed, 4)
    for player in game.players.values():
        player.step = 4

    play(game)

    assert {player.state for player in game.players.values()} == {"done"}
    assert game.copies == []


def test_a_stranger_is_refused_by_number() -> None:
    agreement = Agreement(MEMBERS, Epoch(0, "ps"), 3)

    with pytest.raises(InternalError, match="7 is not a member"):
        agreement.arrive(7, 0, 0)


@pytest.mark.parametrize("number", [2, 7, 2**40])
def test_member_cannot_skip_a_boundary(number: int) -> None:
    agreement = Agreement(MEMBERS, Epoch(0, "ps"), 3)
    for member in MEMBERS:
        agreement.arrive(member, 0, 0)
    assert agreement.verdict(0) is Verdict.PREPARE

    with pytest.raises(InvalidArgumentError, match="boundary 1 is the next"):
        agreement.arrive(0, number, 0)

    assert set(agreement.boundaries) == {0}


def test_member_cannot_stand_behind_the_last_step() -> None:
    agreement = Agreement(MEMBERS, Epoch(0, "ps"), 3)

    with pytest.raises(InvalidArgumentError, match="step 4 of a training of 3"):
        agreement.arrive(0, 0, 4)


def test_member_cannot_be_ready_for_what_nobody_proposed() -> None:
    agreement = Agreement(MEMBERS, Epoch(0, "ps"), 3)
    agreement.arrive(0, 0, 0)

    for number in (0, 5):
        with pytest.raises(InvalidArgumentError, match="nothing is proposed"):
            agreement.prepared(0, number, "no room")

    assert agreement.boundaries[0].prepared == {}


def test_requests_for_one_step_are_kept_as_one() -> None:
    agreement = Agreement(MEMBERS, Epoch(0, "ps"), 3)
    for topology in ("ring", "mesh"):
        agreement.command("configure", topology=topology, at=2)
    agreement.command("configure", link="1gbit", at=2)

    assert agreement.now.later == ((2, {"topology": "mesh", "link": "1gbit"}),)


def play(game: Game, until: int | None = None, refusal: str | None = None) -> None:
    """Move all members in turn until nothing changes, or a step is reached.

    With a `refusal` all refuse whatever is proposed after the first epoch.
    """
    for _ in range(3000):
        before = repr(game.players)
        for position, member in list(game.moves()):
            if until is not None and game.players[WORKERS[0]].step >= until:
                return
            has_begun = game.agreement.epoch.number > 0
            game.move(position, member, refusal if has_begun else None)
        if repr(game.players) == before:
            return


# -- without a member that was lost ----------------------------------------------------


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


@for_each(
    ("refusal", "outcome", "topology"),
    [(None, Verdict.COMMIT, "ring"), ("no room", Verdict.ABANDON, "ps")],
)
def test_an_epoch_is_concluded_when_all_but_the_lost_one_are_ready(
    refusal: str | None, outcome: Verdict, topology: str
) -> None:
    agreement = three()
    agreement.command("configure", topology="ring")
    for member in agreement.members:
        agreement.arrive(member, 1, 4)
    assert agreement.verdict(1) is Verdict.PREPARE
    if refusal:  # of the one who is lost later: it still counts
        agreement.prepared(1, 1, refusal)
    agreement.prepared(0, 1)

    agreement.lose(1)

    assert agreement.missing(1) == {2}
    assert agreement.outcome(1) is Verdict.WAIT
    agreement.prepared(2, 1)
    assert agreement.outcome(1) is outcome
    assert agreement.epoch.topology == topology
    assert agreement.now.abandoned == (refusal or "")


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
