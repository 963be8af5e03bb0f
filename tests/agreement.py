"""An agreement on epochs and members that keep its rules, moved one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

from kit.errors import PeerLost
from kit.training.core.agreement import Agreement, Verdict
from kit.training.core.log import Decisions, Epoch, SaveTurns

WORKERS = (0, 1)
IDLE = 2  # a server without a part in the topology: always at the next boundary
MEMBERS = (*WORKERS, IDLE)


@dataclass
class Player:
    """A member, as far as the agreement is concerned."""

    number: int = 0
    state: str = "away"  # away, arrived, told, prepared, working, done, failed
    step: int = 0
    epochs: list[Epoch] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)  # the steps before which it copied


class Game:
    """An agreement, and members that keep its rules."""

    def __init__(
        self, steps: int, members: tuple[int, ...] = MEMBERS, *, saves: bool = False
    ) -> None:
        self.agreement = Agreement(members, Epoch(0, "ps"), steps, saves=saves)
        self.writing: int | None = None  # the step whose copies are being written
        self.written: list[int] = []
        self.copies: list[int] = []
        self.players = {member: Player() for member in members}
        self.workers = [member for member in members if member in WORKERS]
        self.verdicts: dict[int, Verdict] = {}
        self.refusals: dict[int, list[str]] = {}
        self.may_do: int | None = None  # steps left since the last word about a pause

    def copied(self) -> Game:
        """Return another game that has come as far; a lock cannot be copied."""
        guard = self.agreement.log._guard
        return copy.deepcopy(self, {id(guard): guard})

    def moves(self) -> Iterator[tuple[str, int]]:
        """Yield what can happen next, without the user."""
        for member, player in self.players.items():
            if player.state in ("away", "arrived", "told", "prepared"):
                yield player.state, member
        if all(self.players[worker].state == "working" for worker in self.workers):
            yield "working", WORKERS[0]

    def move(self, state: str, member: int, refusal: str | None = None) -> None:
        """Let it happen; a failed training ends the member's part."""
        try:
            getattr(self, f"_{state}")(member, refusal)
        except PeerLost as error:
            if error is not self.agreement.error:
                raise
            self.players[member].state = "failed"

    def _away(self, member: int, _: str | None) -> None:
        player = self.players[member]
        self.agreement.arrive(member, player.number, player.step)
        player.state = "arrived"

    def _arrived(self, member: int, _: str | None) -> None:
        player = self.players[member]
        verdict = self.agreement.verdict(player.number)
        if verdict is Verdict.WAIT:
            return
        assert self.verdicts.setdefault(player.number, verdict) is verdict
        player.step = self.agreement.boundaries[player.number].step
        if verdict is Verdict.FINISH:
            assert self.writing is None, "it ends before all is written"
            player.state = "done"
        elif verdict is Verdict.SAVE:
            self._copy(player)
            self._leave(player, is_working=False)
        elif verdict is Verdict.PREPARE:
            player.state = "told"
        else:
            self._leave(player, member in WORKERS)

    def _copy(self, player: Player) -> None:
        player.copies.append(player.step)
        if len(player.copies) > len(self.copies):
            assert self.writing is None, "two are written at the same time"
            self.copies.append(player.step)
            self.writing = player.step

    def write(self, *, good: bool) -> None:
        """Let what is being written be complete, or fail."""
        assert self.writing is not None
        if good:
            self.written.append(self.writing)
        change = SaveTurns.succeed if good else SaveTurns.fail
        self.agreement.append(Decisions.save, change, self.writing)
        self.writing = None

    def _told(self, member: int, refusal: str | None) -> None:
        player = self.players[member]
        if refusal is not None:
            self.refusals.setdefault(player.number, []).append(refusal)
        self.agreement.prepared(member, player.number, refusal)
        player.state = "prepared"

    def _prepared(self, member: int, _: str | None) -> None:
        player = self.players[member]
        outcome = self.agreement.outcome(player.number)
        if outcome is Verdict.WAIT:
            return
        meeting = self.agreement.boundaries[player.number]
        assert meeting.prepared.keys() == self.players.keys()
        refused = self.refusals.get(player.number, [])
        assert outcome is (Verdict.ABANDON if refused else Verdict.COMMIT)
        if outcome is Verdict.COMMIT:
            assert meeting.proposal is not None
            player.epochs.append(meeting.proposal)
        self._leave(player, is_working=False)

    def _leave(self, player: Player, is_working: bool) -> None:
        player.number += 1
        player.state = "working" if is_working else "away"

    def _working(self, _: int, __: str | None) -> None:
        """All workers do a step; the coordinator announced a halt before it or not."""
        step = self.players[WORKERS[0]].step
        if self.may_do is not None:
            assert self.may_do > 0, "a paused training makes steps"
            self.may_do -= 1
        halts = self.agreement.wants_halt(step)
        for worker in self.workers:
            player = self.players[worker]
            assert player.step == step
            player.step += 1
            if halts or player.step >= self.agreement.steps:
                player.state = "away"

    def check(self) -> None:
        """All or none: the lists of epochs are beginnings of one list."""
        lists = [player.epochs for player in self.players.values()]
        longest = max(lists, key=len)
        for item in lists:
            assert item == longest[: len(item)]
            assert len(longest) - len(item) <= 1
        assert [epoch.number for epoch in longest] == list(range(1, len(longest) + 1))
        firsts = [epoch.first_step for epoch in longest]
        assert firsts == sorted(firsts)
        assert self.copies == sorted(self.copies)
        for player in self.players.values():
            assert player.copies == self.copies[: len(player.copies)]
            assert len(self.copies) - len(player.copies) <= 1
