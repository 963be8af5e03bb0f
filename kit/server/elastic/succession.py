"""How one generation of an elastic training follows another: who leads, who joins.

`kit.training.elastic.generation` has the rules and their theory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    Fenced,
    InternalError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    PeerLost,
    ResourceExhaustedError,
    StepFailed,
    UnavailableError,
    UnknownError,
    from_plain,
)
from kit.server.elastic.asking import Processes, Told
from kit.server.elastic.standing import Ballot, Plain, Standing
from kit.training.coordination.membership import Epoch
from kit.training.elastic import generation as rules
from kit.training.elastic.generation import Change, Held, Moment
from kit.training.job import Job

# With these a member cannot begin, however often that is tried.
_FINAL: Final = (
    *(InvalidArgumentError, InternalError, UnknownError),
    *(StepFailed, ResourceExhaustedError),
)
_LOOK_S: Final = 0.02
_ASK_S: Final = 0.25


class Succession:
    """One process's part in finding the next generation, in threads of its own."""

    def __init__(
        self, standing: Standing, processes: Processes, forget: Callable[[], None]
    ) -> None:
        """`forget` lets go of the copies that the process holds."""
        self._now, self._processes = standing, processes
        self._forget = forget

    def notice(self, reason: str) -> None:
        """Hear why there must be another generation; returns at once."""
        with self._now.changed:
            if self._now.is_over or self._now.noticed is not None:
                return
            self._now.noticed = time.monotonic(), reason
            given = self._now.generation.number, reason
        name = f"kit-elastic-{self._now.me}"
        threading.Thread(target=self._go_on, args=given, name=name, daemon=True).start()

    def _go_on(self, number: int, reason: str) -> None:
        """Lead, or wait for who leads, until there is another generation or none."""
        limits = self._now.job.settings
        give_up = time.monotonic() + limits.dead_after_s + limits.start_deadline_s
        while not self._now.has_moved(number):
            try:
                if not self._is_led_by_another(number, reason):
                    self._lead()
            except KitError as error:
                if isinstance(error, _FINAL) or time.monotonic() > give_up:
                    self._now.fail(error)
            if time.monotonic() > give_up and not self._now.has_moved(number):
                text = f"{self._now.me}: no new generation could begin: {reason}"
                self._now.fail(PeerLost(text, task=self._now.me))
            with self._now.changed:
                self._now.changed.wait_for(lambda: self._now.has_moved(number), _LOOK_S)

    def join(self, job: Job) -> None:
        """Ask to take part in a training whose newest generation is that of `job`.

        This process was lost, or taken for lost: it was stopped, and wakes up. What it
        holds is of no more use.
        """
        with self._now.changed:
            self._now.job, self._now.noticed = job, None
            self._forget()
            self._now.changed.notify_all()
        name = f"kit-join-{self._now.me}"
        threading.Thread(target=self._ask_to_join, name=name, daemon=True).start()

    def _ask_to_join(self) -> None:
        limits = self._now.job.settings
        give_up = time.monotonic() + limits.dead_after_s + limits.start_deadline_s
        while not self._now.takes_part and time.monotonic() < give_up:
            for process in self._now.generation.processes:
                with suppress(UnavailableError, DeadlineExceededError):
                    told = self._processes.ask(
                        process, "elastic.join", {"process": self._now.me}
                    )[0]
                    self._learn(told)
            with self._now.changed:
                self._now.changed.wait_for(lambda: self._now.takes_part, _ASK_S)
        if not self._now.takes_part:
            text = f"{self._now.me} was not taken back into the training."
            self._now.fail(Fenced(text, task=self._now.me))

    def _learn(self, told: Plain) -> None:
        if told["error"] or told["done"]:
            self._now.fail(
                AbortedError("the training has ended before it could be joined.")
            )
        job = Job.from_plain(told["job"])
        assert job.generation is not None
        with self._now.changed:
            is_newer = job.generation.number > self._now.generation.number
            is_in = self._now.me in job.generation.processes
            if is_newer and not is_in and not self._now.takes_part:
                self._now.job = job

    def _is_led_by_another(self, number: int, reason: str) -> bool:
        """Tell a process before this one of the loss; whether one lives, to lead."""
        for process in self._now.generation.processes:
            if process == self._now.me:
                return False
            with suppress(UnavailableError, DeadlineExceededError):
                values = {"number": number, "reason": reason}
                self._take(
                    self._processes.ask(process, "elastic.lose", values)[0], number
                )
                return True
        return False

    def _take(self, told: Plain, number: int) -> None:
        """Take what another process knows: the end, or that it goes on without us."""
        if told["error"]:
            self._now.fail(from_plain(told["error"]))
            return
        theirs = Job.from_plain(told["job"]).generation
        assert theirs is not None
        if theirs.number > number and self._now.me not in theirs.processes:
            self.join(Job.from_plain(told["job"]))

    def _lead(self) -> None:
        job, began = self._now.job, self._now.noticed
        old = self._now.generation
        if began is None:  # another one has led meanwhile
            return
        ballot = self._now.promised[0] + 1, self._now.me
        asked = {*old.processes, *self._now.joining}
        values = {"ballot": ballot, "number": old.number}
        told = self._processes.ask_all(
            asked, "elastic.promise", values, self._is_enough
        )
        good = {n: reply for n, reply in told.items() if isinstance(reply, dict)}
        ended = [n for n, reply in told.items() if _has_ended(reply)]
        for reply in good.values():
            self._take(reply, old.number)
            if not reply["granted"]:
                self._now.promised = max(
                    self._now.promised, (reply["ballot"][0], self._now.me)
                )
        if self._now.error is not None or not all(
            one["granted"] for one in good.values()
        ):
            return
        if all(reply["done"] for reply in good.values()):
            self._now.fail(AbortedError("the training is complete."))
            return
        # A process that answers and hosts nothing is new: the one before it has ended.
        fresh = [n for n, reply in good.items() if not reply["hosts"]]
        left = [n for n in good if n not in fresh]
        lost = [n for n in old.processes if n not in left]
        if not rules.may_go_on(old.processes, left, [*ended, *fresh]):
            names = ", ".join(lost)
            raise PeerLost(
                f"{names} do not answer, and only {len(left)} of {len(old.processes)} "
                f"tasks are here: the others may go on, so these do not.",
                task=names,
            )
        found = rules.newest_whole({n: _held(reply) for n, reply in good.items()})
        may_begin_anew = all(good[n]["may_begin_anew"] for n in left)
        if found is None and not may_begin_anew:
            self._now.fail(_no_copy(lost))
            return
        moment, holders = found or (Moment(0), {})
        requests = next((r["requests"] for r in good.values() if r["requests"]), None)
        if requests is None and holders:
            leads = job.coordinator
            copy = self._processes.copy(holders[leads], moment, leads)
            requests = copy.requests
        noted = [requests or {}, *(reply["noted"] for reply in good.values())]
        requests = max(noted, key=lambda one: one.get("n_commands", -1)) or None
        reached = max(moment.step, old.reached, *(good[n]["step"] for n in left))
        seconds = time.monotonic() - began[0]
        spent = reached, reached - moment.step, seconds
        change = Change(tuple(lost), rules.in_order(fresh), *spent, began[1])
        self._begin_all(ballot, list(good), (moment, holders), requests, change)

    def _begin_all(
        self,
        ballot: Ballot,
        left: Sequence[str],
        found: tuple[Moment, dict[int, str]],
        requests: Plain | None,
        change: Change,
    ) -> None:
        """Let the processes that are left host all members, and begin them."""
        before, old = self._now.job, self._now.generation
        moment, holders = found
        places = rules.moved(old.places, before.tasks, left)
        run = rules.run_of(old.origin, old.number + 1, ballot)
        values = {"ballot": ballot, "run": run, "places": places}
        addresses: dict[int, str] = {}
        for reply in self._processes.ask_all(left, "elastic.accept", values).values():
            if isinstance(reply, KitError):
                raise reply
            addresses |= {int(n): text for n, text in reply["addresses"].items()}
        told = tuple(addresses[n] for n in range(len(before.tasks)))
        job = replace(
            before,
            run=run,
            generation=rules.next_generation(old, places, told, change),
            **_configuration(requests),
        )
        begins: Plain = {
            "ballot": ballot,
            "job": job.to_plain(),
            "moment": list(moment),
            "holders": {str(member): holder for member, holder in holders.items()},
            "requests": requests or {},
        }
        # The coordinator first: the others come to it as soon as they begin.
        leader = places[job.coordinator]
        self._processes.ask(leader, "elastic.begin", begins)
        others = [process for process in left if process != leader]
        for reply in self._processes.ask_all(others, "elastic.begin", begins).values():
            if isinstance(reply, KitError):
                raise reply

    def _is_enough(self, told: Told) -> bool:
        here = [name for name, reply in told.items() if isinstance(reply, dict)]
        ended = [name for name, reply in told.items() if _has_ended(reply)]
        return rules.may_go_on(self._now.generation.processes, here, ended)


def _has_ended(reply: Plain | KitError) -> bool:
    """Whether nobody listens there; a link that ends midway may be cut."""
    return isinstance(reply, UnavailableError) and not isinstance(reply, LinkLost)


def _held(reply: Plain) -> list[Held]:
    return [
        Held(Moment(*moment), member, tuple(writers))
        for moment, member, writers in reply["held"]
    ]


def _no_copy(lost: Sequence[str]) -> PeerLost:
    names = ", ".join(lost)
    return PeerLost(
        f"{names} are gone, and with them the only copies of a part of the training's "
        f"state. Go on from a checkpoint, if there is one.",
        task=names,
    )


def _configuration(requests: Plain | None) -> Plain:
    """Return the fields of a job with which it begins as was requested."""
    if not requests:
        return {}
    epoch = Epoch.from_plain(requests["epoch"])
    return {
        "topology": epoch.topology,
        "synchronous": epoch.synchronous,
        "link": epoch.link,
    }
