"""Digests of the parameters: what members report, and whether it is the same.

Pure. Members that hold the same parameters compare them in shares: what one writer of
checkpoints owns. A worker holds all shares, a parameter server its own. The digest is a
CRC-32, so one damaged stretch of 32 bits is always found, anything else in all but one
of four billion cases. Not compared are gradients and the slots of the optimizer, which
no other member has. Damage between two comparisons that has reached all members alike,
as that of a gradient does, is not found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kit.crc import digest
from kit.exchange.layout import Range
from kit.exchange.plan import Owned
from kit.training.core.axes import ranges_of, writers_of
from kit.training.core.workplace import Workplace

_MOST = 1000  # states remembered; with backup workers not all report each of them
_NONE: Mapping[int, int] = {}
State = tuple[int, int]  # epoch and step
Members = frozenset[int]


class DigestReport(NamedTuple):
    """What a member reports of the state before a step: digests by share's writer."""

    epoch: int
    step: int
    boundary: int  # with the step the key of a checkpoint of this state; -1: of none
    digests: tuple[tuple[int, int], ...]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> DigestReport:
        """Rebuild a report from what JSON makes of it."""
        epoch, step, boundary, digests = plain
        pairs = tuple((int(writer), int(value)) for writer, value in digests)
        return cls(int(epoch), int(step), int(boundary), pairs)


class Digests:
    """One member's side: it computes, and keeps what is not reported yet."""

    def __init__(
        self, workplace: Workplace, me: int, *, is_worker: bool, every: int
    ) -> None:
        """Begin without an epoch; a digest is due after `every` steps, with 0 never."""
        self._workplace, self._me, self._is_worker = workplace, me, is_worker
        self._every, self._epoch = every, 0
        self._shares: dict[int, tuple[Range, ...]] = {}
        self._untold: deque[DigestReport] = deque()

    def adopt(self, epoch: int, owners: Sequence[Owned], coordinator: int) -> None:
        """Take who holds what from now on."""
        self._epoch = epoch
        self._shares = {
            writer: ranges_of(owners, writer)
            for writer in writers_of(owners, coordinator)
            if self._is_worker or writer == self._me
        }

    def is_due(self, step: int) -> bool:
        """Whether the parameters before `step` are to be compared."""
        return self._every > 0 and step % self._every == 0

    def note(
        self, step: int, now: int, boundary: int = -1, saved: Mapping[int, int] = _NONE
    ) -> None:
        """Digest the parameters before `step`, in the physical region `now`.

        `boundary` is that of a checkpoint's key; `saved` holds the digests of shares
        that were copied for it.
        """
        if not self._shares:
            return  # an idle server holds nothing
        digests = tuple(
            (
                writer,
                saved[writer]
                if writer in saved
                else digest(self._workplace.held.raw(now, part) for part in ranges),
            )
            for writer, ranges in self._shares.items()
        )
        self._untold.append(DigestReport(self._epoch, step, boundary, digests))

    @property
    def are_awaited(self) -> bool:
        """Whether a checkpoint waits for what is not reported yet."""
        return any(report.boundary >= 0 for report in tuple(self._untold))

    def take(self) -> list[DigestReport]:
        """Return what is not reported yet, oldest first; from any thread."""
        news = []
        while self._untold:  # `note` may append meanwhile, in the thread of the steps
            news.append(self._untold.popleft())
        return news


class Divergence(NamedTuple):
    """Members whose parameters before a step are not those of the others."""

    step: int
    members: Members  # those that are wrong: the minority, or all if there is none
    others: Members  # the majority, if there is one


class DigestComparison:
    """The coordinator's side: the digests of all members, state by state.

    >>> both, result = {0, 1}, DigestComparison()
    >>> result.note(0, DigestReport(1, 5, -1, ((0, 77),)), both)
    >>> result.note(1, DigestReport(1, 5, -1, ((0, 77),)), both)
    >>> result.agreed_at, result.difference
    (5, None)
    >>> result.note(0, DigestReport(1, 6, -1, ((0, 77),)), both)
    >>> result.note(1, DigestReport(1, 6, -1, ((0, 78),)), both)
    >>> result.difference.step, sorted(result.difference.members), result.is_complete
    (6, [0, 1], True)
    """

    def __init__(self) -> None:
        self.agreed_at: int | None = None
        self.difference: Divergence | None = None
        self.is_complete = False  # whether all have reported the state that differs
        # State -> the share's writer -> digest -> who has reported it.
        self._open: dict[State, dict[int, dict[int, set[int]]]] = {}
        self._agreed: dict[State, dict[int, int]] = {}
        self._n_agreed = 0  # ever, also of those forgotten: a cursor counts in it

    def note(self, member: int, report: DigestReport, holders: Iterable[int]) -> None:
        """Compare what a member reports; `holders` are all that will report a state."""
        state, everybody = (report.epoch, report.step), frozenset(holders)
        if state in self._agreed:  # reported once more, later in the life of the state
            agreed = self._agreed[state]
            if any(agreed.get(item, value) != value for item, value in report.digests):
                self._differ(report.step, frozenset({member}), everybody, everybody)
            return
        shares = self._open.setdefault(state, {})
        for writer, value in report.digests:
            shares.setdefault(writer, {}).setdefault(value, set()).add(member)
        heard_from = _members(
            who for values in shares.values() for who in values.values()
        )
        differ = [values for values in shares.values() if len(values) > 1]
        if differ:
            self._differ(
                report.step, _members(map(_wrong, differ)), heard_from, everybody
            )
        elif heard_from >= everybody:
            del self._open[state]
            self._agreed[state] = {item: min(values) for item, values in shares.items()}
            self._n_agreed += 1
            _bound(self._agreed)
            if self.difference is None or report.step < self.difference.step:
                self.agreed_at = max(report.step, self.agreed_at or 0)
        _bound(self._open)

    def agreed(self, since: int) -> tuple[list[Any], int]:
        """Return the states on which all agreed after the first `since`, as plain data.

        Each is epoch, step, and the digests by the share's writer; of very many the
        oldest are left out. The second value is how many there were ever.
        """
        new = max(0, min(self._n_agreed - since, len(self._agreed)))
        states = list(self._agreed.items())[len(self._agreed) - new :]
        plain = [[*state, sorted(values.items())] for state, values in states]
        return plain, self._n_agreed

    def _differ(
        self, step: int, wrong: Members, heard_from: Members, of: Members
    ) -> None:
        # The earliest counts: all states after it differ because of that one.
        if self.difference is None or step <= self.difference.step:
            self.difference = Divergence(step, wrong, heard_from - wrong)
            self.is_complete = heard_from >= of


def _members(groups: Iterable[Iterable[int]]) -> Members:
    return frozenset().union(*groups)


def _bound(states: dict[State, Any]) -> None:
    if len(states) > _MOST:
        del states[next(iter(states))]


def _wrong(values: Mapping[int, set[int]]) -> Members:
    """Return those with another digest than most; all if there is no majority.

    >>> sorted(_wrong({77: {0, 1}, 78: {2}})), sorted(_wrong({77: {0}, 78: {2}}))
    ([2], [0, 2])
    """
    most = max(values.values(), key=len)
    everybody = _members(values.values())
    if 2 * len(most) <= len(everybody):
        return everybody
    return _members(who for who in values.values() if who is not most)
