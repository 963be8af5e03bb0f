"""Watches all members of a training and learns when it is over.

The coordinator is asked for the news of all, over one link. A member that it cannot
ask, or that has failed, is asked directly from then on, by a separate thread, and so
are all when the coordinator is gone: a member that hangs delays no other's news, and
each says itself why it ended. Members answer from separate threads too, so the observer
holds nothing up. It asks each directly from the start where workers may come back, and
where it is one of many: in a task.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

from kit.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    UnavailableError,
    to_plain,
)
from kit.features import load
from kit.training.client.ending import Ending, note_silent
from kit.training.client.facts import TrainingFacts, closed, over
from kit.training.client.newest import Dial, Newest, dial_in
from kit.training.client.telling import Teller, task_lines
from kit.training.client.watched import Once, Watched, cause, take_gathered, unwatchable
from kit.training.core.failures import what_ends
from kit.training.core.job import Job
from kit.training.core.log import check_command
from kit.wire.rpc import Caller, ReconnectingCaller

T = TypeVar("T")
Others = dict[int, Watched]  # by the number of the member
_FIRST_POLL_S, _POLL_S, _LOOK_S = 0.005, 0.1, 0.02
POLL_OF_ONE_S = 0.005  # of gathered news: many members are asked less often
_LAST_NEWS_S = 1.0  # after the coordinator's own
_JUDGE_S = 0.2  # between two looks whether the training is over


class Observer(TrainingFacts):
    """Learns what is known of a training, and sends it requests."""

    def __init__(self, job: Job, dial: Dial, *, trusted: int | None = None) -> None:
        """Start to watch; `finished` gets its result when all members are over."""
        trusts = job.coordinator if trusted is None else trusted
        once = job.generation.is_followed
        watched = [Watched(once=Once() if once else None) for _ in job.tasks]
        super().__init__(job, watched, trusts, job.settings.trace_rows)
        self._process, self._dial = dial, dial_in(job, dial)
        self._teller: Teller | None = None  # shows what steps and hooks print
        # Where each task watches all others, the coordinator would have to ask for each
        # of them. Where a lost worker may come back, its next process must not be asked
        # for the news of the last one: a link to a process ends with the process.
        comes_back = job.generation.is_followed and not job.is_elastic
        self._gathers = trusted is None and not comes_back
        self._guard = threading.Lock()
        self._over = threading.Event()  # a wait on it is a sleep, until it is set
        self._is_ending = False
        self._stirred = threading.Event()  # somebody may have said the last word
        self._ending = Ending(self._trusted, time.monotonic())
        self._begins_by = 0.0  # when all tasks know the newest generation
        # To the members. They are kept open until all has been learned: a task lets go
        # of a training when its watchers have gone.
        self._links = set[ReconnectingCaller]()
        self._requests = self._way_to_coordinator()
        self.newest = Newest(job, self._dial, self._watched, self._trusted)
        self._elastic_error: KitError | None = None  # why it could not go on
        self._following = threading.Lock()  # held while the next generation is found
        self._at_end: list[Callable[[KitError | None], None]] = []
        self._begin_watches()
        threading.Thread(target=self._judge, name="kit-judge", daemon=True).start()

    def at_end(self, call: Callable[[KitError | None], None]) -> bool:
        """Call back with what the training failed with, before `finished` is set.

        The tasks still answer then. Returns whether it will be called: not when the
        training is over already.
        """
        with self._guard:
            if not self._is_ending:
                self._at_end.append(call)
            return not self._is_ending

    def close(self) -> None:
        """Stop watching a training that is not over; what is known stays."""
        with self._guard:
            if self._is_ending:
                return
            self._is_closed = self._is_ending = True
        self._over.set()
        self._end(closed(self._job.run, self.step()))

    def catch_up(self, timeout: float) -> None:
        """Wait until all that members had recorded is here, or can no longer come."""
        give_up = time.monotonic() + timeout
        # That a member is over is known before its last rows are here.
        while not all(
            member.is_caught_up or member.is_concluded or member.error is not None
            for member in self._watched
        ):
            if time.monotonic() > give_up or self._over.wait(_FIRST_POLL_S):
                return

    def reach(self, member: int) -> Caller:
        """Return a link for questions to a member, which the caller closes."""
        return self._dial(self._job.tasks[member], "")

    def _begin_watches(self) -> None:
        """Watch all members of a generation."""
        job, members = self._job, dict(enumerate(self._watched))
        if self._gathers:
            coordinator = job.coordinator
            self._begin_watch(coordinator, members.pop(coordinator), job, members)
        else:
            self._watch_directly(members, job, list(members))

    def _begin_watch(
        self, member: int, watched: Watched, job: Job, others: Others | None = None
    ) -> None:
        """Ask a member for its news, and for those of `others` as long as it can."""
        threading.Thread(
            target=self._watch,
            args=(member, watched, job, others or {}),
            name=f"kit-watch-{job.tasks[member].short}",
            daemon=True,
        ).start()

    def command(self, what: str, **values: Any) -> None:
        """Send a request to the coordinator.

        Raises `InvalidArgumentError` for values that no training can take, before
        anything is sent, `FailedPreconditionError` when the training is over, and what
        the coordinator answers.
        """
        if self._is_closed:
            raise closed(self._job.run, self.step())
        question = {"what": what, "values": check_command(what, values)}
        question["ticket"] = secrets.token_hex(
            8
        )  # it may be heard again, and counts once

        def send() -> None:
            if self.finished.done():
                raise over()
            about = {"run": self._job.run, "seen": self.step()}
            limit_s = self._job.settings.call_deadline_s
            try:
                reply, _ = self._requests.call("run.command", limit_s, about | question)
            except UnavailableError as error:
                if self.finished.done():
                    raise over() from error
                raise
            self.coordinator.leads = reply

        self._in_some_generation(send)

    def _way_to_coordinator(self) -> ReconnectingCaller:
        """Return a link for requests, which is opened when there is one.

        One that was interrupted, by a Ctrl-C for example, takes its link with it: half
        of the message may have been sent.
        """
        job, dial = self._job, self._dial
        task, redial_s = job.tasks[job.coordinator], job.settings.redial_after_s
        return ReconnectingCaller(lambda _: dial(task, ""), redial_s)

    def params(self) -> bytearray:
        """Return the flat parameters of the last committed step."""
        return self._in_some_generation(lambda: self.newest.fetch())

    def final(self) -> bytearray | None:
        """Return the flat parameters with which it ended, None if nobody had them."""
        return self.newest.kept

    def _in_some_generation(self, ask: Callable[[], T]) -> T:
        """Ask again while an elastic training has nobody who can answer yet."""
        give_up = time.monotonic() + self._job.settings.dead_after_s
        while True:
            job = self._job
            try:
                return ask()
            except (UnavailableError, InvalidArgumentError) as error:
                is_early = isinstance(error, InvalidArgumentError)
                is_late = time.monotonic() > give_up or self._over.is_set()
                if not job.generation.is_followed or is_late:
                    raise
                is_known = self.coordinator.has_begun or not self._may_begin(job)
                if is_early and self._job is job and is_known:
                    raise
            if self._job is job:  # else ask the next generation at once
                self._over.wait(_LOOK_S)

    # -- a thread for the coordinator, and one for each that is asked directly ---

    def _watch(self, member: int, watched: Watched, job: Job, others: Others) -> None:
        caller = self._open(member, job, others)
        try:
            self._watch_to_its_end(caller, member, watched, job, others)
            goes_on = self._goes_on(member, watched, job)
        except Exception as error:  # else a wait for the end would never return
            watched.fail(unwatchable(job.tasks[member], watched.step, error))
            goes_on = False
        # A generation that another follows does not end the training.
        if goes_on or self._job is not job or self._over.is_set():
            with self._guard:
                self._links.discard(caller)
            caller.close()
        else:
            self._conclude(watched)

    def _watch_to_its_end(
        self,
        caller: ReconnectingCaller,
        member: int,
        watched: Watched,
        job: Job,
        others: Others,
    ) -> None:
        try:
            self._follow(caller, watched, job, others)
            says_so_itself = bool(watched.epochs)  # once it has begun
        except KitError as error:
            if self._over.is_set():  # it has lost its link here
                return
            self._note(member, watched, error)
            says_so_itself = False
        finally:
            self._watch_directly(others, job, list(others))
        # The coordinator hears of a member's own error from the member. An elastic
        # training finds losses by itself, and may have moved on.
        is_explained = says_so_itself or job.is_elastic
        if watched.error and not is_explained:
            self._tell(job, member, watched, watched.error)

    def _open(self, member: int, job: Job, others: Others) -> ReconnectingCaller:
        def is_useless() -> bool:
            # Instead of dialling again, ask the others: they may know that it is lost.
            return bool(others) or self._has_failed()

        def dial(_: float) -> Caller:
            # With the run's name: the task then keeps what it knows for this watcher.
            return self._reach(member, job.run, is_useless)

        caller = ReconnectingCaller(dial, self._job.settings.dead_after_s / 2)
        with self._guard:
            self._links.add(caller)
        if self._over.is_set():  # `_end` may not have seen it
            caller.close()
        return caller

    def _reach(self, member: int, run: str, is_useless: Callable[[], bool]) -> Caller:
        """Dial again while nobody answers, for as long as a dead one may be silent.

        The task may only be busy. When it `is_useless` one attempt is enough.
        """
        limit, pause_s = self._job.settings.dead_after_s, _FIRST_POLL_S
        give_up = time.monotonic() + limit
        while True:
            is_last = is_useless() or self._over.is_set()
            try:
                return self._dial(self._job.tasks[member], run)
            except (UnavailableError, DeadlineExceededError):
                if is_last or time.monotonic() > give_up:
                    raise
            self._over.wait(pause_s)
            pause_s = min(1.5 * pause_s, _POLL_S)

    def _has_failed(self) -> bool:
        """Whether somebody has failed or is gone without whom it cannot go on."""
        bad = [n for n, member in enumerate(self._watched) if member.error is not None]
        return bool(bad) and not self._job.schedule.spares(bad)

    def _follow(
        self, caller: ReconnectingCaller, watched: Watched, job: Job, others: Others
    ) -> None:
        """Ask until a member is over, and with it the `others` that it can ask.

        It takes out those that are over or asked directly from now on.
        """
        limits, pause_s = job.settings, _FIRST_POLL_S
        last_news_by = float("inf")
        while not self._over.is_set():
            # A coordinator that is slow to answer for all is doubted sooner: the others
            # can be asked directly meanwhile.
            limit = limits.suspect_after_s if others else limits.dead_after_s
            question = {"run": job.run, "cursors": watched.ends}
            if others:
                wanted = [[number, item.ends] for number, item in others.items()]
                question["others"] = wanted
            asked = time.monotonic_ns()
            try:
                reply, blob = caller.call("run.poll", limit, question)
            except InvalidArgumentError:
                # The task does not know this generation, or does not know it yet.
                if watched.has_begun or not self._may_begin(job):
                    raise
                self._over.wait(_LOOK_S)
                continue
            except (UnavailableError, DeadlineExceededError) as error:
                was_there = watched.heard_at > 0
                is_lost = isinstance(error, UnavailableError) and was_there
                if not others or is_lost:
                    raise
                self._watch_directly(others, job, list(others))
                continue
            watched.clock.hear(asked, int(reply["now"]), time.monotonic_ns())
            for news in take_gathered(watched, others, reply, blob):
                self.rows.add(news)
            self._show_printed()
            for member in (watched, *others.values()):
                member.is_caught_up = member.heard_at > 0 and not member.more
                if member.error is not None:
                    self._stirred.set()
            self._let_go_of_ended(others, job)
            unreached = reply.get("unreached", ())
            if self._may_begin(job):
                unreached = [number for number in unreached if others[number].has_begun]
            self._watch_directly(others, job, unreached)
            if watched.is_over:
                # The others end at about the same time, and can be asked through it a
                # little longer; those that are left then are asked directly.
                last_news_by = min(last_news_by, time.monotonic() + _LAST_NEWS_S)
                if not others or watched.error or time.monotonic() > last_news_by:
                    return
                pause_s = _FIRST_POLL_S
            if not watched.more and not any(other.more for other in others.values()):
                self._over.wait(pause_s)
                # Longer each time: a wait for the end lasts at most half as long again
                # as the training, however short that was.
                longest_s = max(_POLL_S, len(others) * POLL_OF_ONE_S)
                pause_s = min(1.5 * pause_s, longest_s)

    def let_tell(self, teller: Teller) -> None:
        """Show what steps and hooks print and report, from the first line on."""
        self._teller = teller
        self.coordinator.let_tell(teller)
        self._show_printed()

    def _show_printed(self) -> None:
        watched, teller = self._watched, self._teller
        if teller is not None and any(member.printed for member in watched):
            with self._guard:  # threads that watch members directly take turns
                lines = list(task_lines(self._job, watched))
            teller.add(lines)

    def _let_go_of_ended(self, others: Others, job: Job) -> None:
        for number, member in list(others.items()):
            if member.is_over and member.error is None:
                del others[number]
                self._conclude(member)
            elif member.is_over:  # it failed: its own words say what that means
                self._watch_directly(others, job, [number])

    def _watch_directly(self, others: Others, job: Job, members: Sequence[int]) -> None:
        """Watch some of the others by threads and links of their own from now on."""
        for number in members if not self._over.is_set() else ():
            self._begin_watch(number, others.pop(number), job)

    def _may_begin(self, job: Job) -> bool:
        """Whether a task that does not know a generation may be about to begin it."""
        is_new = job.generation.number > 0
        return is_new and self._job is job and time.monotonic() < self._begins_by

    def _note(self, member: int, watched: Watched, error: KitError) -> None:
        """Note why nothing more can be learned of a member."""
        job = self._job
        watched.unheard(str(job.tasks[member]), error, what_ends(job, member))
        self._stirred.set()

    def _tell(self, job: Job, member: int, watched: Watched, error: KitError) -> None:
        """Report a member of a generation that failed or cannot be reached."""
        if self.coordinator.state == "lost" or self._is_done():
            return
        try:
            # No second attempt once it is over: it knows then why it ended.
            coordinator = self.coordinator
            way = self._reach(job.coordinator, "", lambda: coordinator.is_over)
            lost = member if watched.state == "lost" else None
            values = {"run": job.run, "member": member, "lost": lost}
            values["error"] = to_plain(error)
            with closing(way) as caller:
                caller.call("run.fail", job.settings.connect_deadline_s, values)
        except KitError:
            return  # the coordinator is gone too: its own watcher says so

    # -- an elastic training goes on after a loss -------------------------------

    def _goes_on(self, member: int, watched: Watched, job: Job) -> bool:
        """Watch the generation that follows the one that ended so, if one does.

        Or the member again, if it was silent and its generation goes on all the same.
        """
        is_followed = job.generation.is_followed
        if not is_followed or watched.error is None or self._over.is_set():
            return False
        with self._following:  # all threads of a generation find their members gone
            if self._job is not job:
                return True  # another thread has found it
            try:
                find_next = load("kit.training.features.elastic.following:find_next")
                following = find_next(job, self._process, self.step())
            except KitError as error:
                self._elastic_error = error
                return False
            if following is None:
                return False
            if following.run == job.run:
                watched.revive()
                self._begin_watch(member, watched, job)
            else:
                self._move_on(following)
        return True

    def _move_on(self, job: Job) -> None:
        job = replace(job, generation=job.generation.remembering(self.changes()))
        with self._guard:
            n_epochs = max((row.number for row in self.epochs()), default=0)
            self._watched = [member.move_on(n_epochs) for member in self._watched]
            self._job, self._dial = job, dial_in(job, self._process)
            self._begins_by = time.monotonic() + job.settings.start_deadline_s
            kept = self._requests
            self._requests = self._way_to_coordinator()
            self.newest = Newest(job, self._dial, self._watched, self._trusted)
        kept.close()
        self._begin_watches()

    # -- a thread that finds out when the training is over -----------------------

    def _conclude(self, watched: Watched) -> None:
        """Note that nothing more comes from a member, nor after it."""
        watched.is_concluded = True
        self._stirred.set()

    def _judge(self) -> None:
        """Wait until it is clear how the training ended, whoever hangs, and end it."""
        while not self._over.is_set():
            self._stirred.wait(_JUDGE_S)
            self._stirred.clear()
            with self._guard:
                job, watched = self._job, self._watched
                if self._is_ending:
                    return
                self._is_ending = self._ending.look(job, watched, time.monotonic())
            if self._is_ending:
                self._end_as_noted(job, watched)

    def _end_as_noted(self, job: Job, watched: Sequence[Watched]) -> None:
        error: KitError | None = None
        if not self._ending.is_done(job, watched):
            note_silent(job, watched, time.monotonic(), trusted=self._trusted)
            error = self._elastic_error or cause(watched, self._trusted)
        self._end(error)

    def _end(self, error: KitError | None) -> None:
        try:
            if not self._is_closed:
                self.newest.keep()  # a task keeps what it knows while links are open
            for call in self._at_end:
                call(error)
            self._over.set()
            with self._guard:  # watchers of earlier generations close their own links
                links = tuple(self._links)
            for caller in links:
                caller.close()
        finally:  # whatever a callback raises: somebody waits for the result
            self._over.set()
            self._stirred.set()
            self.stuck.end(self.stuck_tasks(), self.finished, error)
            self._requests.close()
