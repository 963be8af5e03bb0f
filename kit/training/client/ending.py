"""When an observer takes a training for over, and for whom it still waits then.

Who waits for a training hears of a loss, wherever he is, within `dead_after_s` and two
seconds. So the first word that decides counts: the last one of the member that is
trusted, that of any member which has heard of a loss, or that the trusted one is
silent. The others may explain more, but only those are waited for that were heard a
moment ago: to dial one at the other end of a cut line takes seconds and gives nothing.

Pure: the observer gives the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.errors import DeadlineExceededError, LinkLost, PeerLost
from kit.training.client.watched import Watched
from kit.training.core.failures import what_ends
from kit.training.core.job import Job

LAST_WORDS_S = 3.0  # the members' own reports explain more than a closed link
_AFTER_SILENCE_S = 0.5  # than `dead_after_s`, where somebody was silent for as long
_OWN_WORD_S = 1.0  # a watcher that cannot reach the trusted member can say why


class Ending:
    """Whether a training is over, by what is known of its members."""

    def __init__(self, trusted: int, now: float) -> None:
        """`trusted` is the member that has the last word."""
        self._trusted, self._looked = trusted, now
        self._job: Job | None = None
        self._give_up = 0.0  # 0: it is not decided

    def look(self, job: Job, watched: Sequence[Watched], now: float) -> bool:
        """Whether nothing is waited for any more; ask regularly."""
        if now - self._looked > job.settings.suspect_after_s:
            # This process was stopped: it could hear nobody, and nobody is to blame.
            for member in watched:
                member.since = now
        self._looked = now
        # Anew each time: one that was silent may be heard again, as it was only slow.
        is_decided = self._is_decided(job, watched, now)
        if self._job is not job or not is_decided:
            self._job, self._give_up = job, 0.0
        if not is_decided:
            return False
        self._give_up = self._give_up or self._until(job, watched, now)
        is_done, limit_s = self.is_done(job, watched), job.settings.suspect_after_s
        awaited = (
            not item.is_concluded and (is_done or item.silent_s(now) <= limit_s)
            for item in watched
        )
        return now > self._give_up or not any(awaited)

    def is_done(self, job: Job, watched: Sequence[Watched]) -> bool:
        """Whether all have agreed on its end.

        Any member of an elastic training may say so: the trusted one may have been lost
        right after it.
        """
        who = watched if job.generation.is_followed else [watched[self._trusted]]
        return any(member.state == "done" for member in who)

    def _is_decided(self, job: Job, watched: Sequence[Watched], now: float) -> bool:
        first = watched[self._trusted]
        if first.is_concluded:
            return True
        if job.generation.is_followed:  # another generation may follow
            return False
        lost = [
            number
            for number, member in enumerate(watched)
            if isinstance(member.error, PeerLost | LinkLost)
        ]
        if lost and not job.schedule.spares(lost):
            return True
        # The dial to one that was never heard says why: it may not be there yet.
        limit_s = job.settings.dead_after_s + _OWN_WORD_S
        return first.heard_at > 0 and first.silent_s(now) > limit_s

    def _until(self, job: Job, watched: Sequence[Watched], now: float) -> float:
        """Return until when last words are waited for."""
        if self.is_done(job, watched):
            return now + LAST_WORDS_S
        limits = job.settings
        lost_at = min(
            (
                member.last_heard
                for member in watched
                if member.state == "lost"
                or member.silent_s(now) > limits.suspect_after_s
            ),
            default=now,
        )
        latest = lost_at + limits.dead_after_s + _AFTER_SILENCE_S
        return min(now + LAST_WORDS_S, latest)


def note_silent(
    job: Job, watched: Sequence[Watched], now: float, *, trusted: int
) -> None:
    """Take those for lost that a training's end has found silent.

    Where nobody has said why it ended it was the silence of the `trusted` one.
    """
    is_unexplained = all(item.error is None for item in watched)
    for number, member in enumerate(watched):
        silent_s = member.silent_s(now)
        is_silent = silent_s > job.settings.suspect_after_s
        is_cause = is_unexplained and number == trusted
        if member.is_over or member.error or not (is_silent or is_cause):
            continue
        error = DeadlineExceededError(f"it was not heard for {silent_s:.1f} s.")
        member.unheard(str(job.tasks[number]), error, what_ends(job, number))
