"""One process's part in an elastic training: members, copies, and the next generation.

`kit.training.elastic.generation` has the rules and their theory. Here are the threads
and the questions: `elastic.lose` tells of a loss, `promise`, `accept` and `begin` make
the next generation, `keep` and `fetch` are for copies, and `look` for a notebook.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    Fenced,
    KitError,
    LinkLost,
    PeerLost,
    UnavailableError,
    from_plain,
    to_plain,
)
from kit.message_fields import (
    Fields,
    anything,
    check,
    list_of,
    record,
    row_of,
    table_of,
    text,
    whole,
)
from kit.task import Task
from kit.training.coordination.membership import Epoch
from kit.training.elastic import generation as rules
from kit.training.elastic.copies import (
    Copies,
    StateCopy,
    ToldRows,
    WholeState,
    put_together,
)
from kit.training.elastic.generation import Held, Loss
from kit.training.job import Job, Work
from kit.training.member.member import Member
from kit.wire.frame import Buffer
from kit.wire.rpc import Answer, Caller, Handler

if TYPE_CHECKING:
    from kit.server.trainings import Trainings

Ballot = tuple[int, int]
Plain = dict[str, Any]
_LOOK_S = 0.02


class StandIn(Protocol):
    """A server for a member whose own process is lost."""

    trainings: Trainings

    @property
    def address(self) -> Any:
        """Where it listens."""

    def stop(self) -> None:
        """End everything."""


class Neighbours(Protocol):
    """The way to the other processes of the cluster."""

    def dial_process(self, task: Task, deadline_s: float) -> Caller:
        """Return a link for questions to the server of a task's own process."""

    def stand_in(self, task: Task, run: str) -> StandIn:
        """Return a new server of this process that answers for another task."""


class ElasticTraining:
    """What a process knows of an elastic training, through all its generations."""

    def __init__(
        self, job: Job, work: Work | None, own: Trainings, neighbours: Neighbours
    ) -> None:
        """Begin with generation 0; `own` are the trainings of the process's task."""
        assert job.generation is not None, "it is elastic"
        self.origin = job.generation.origin
        self.copies = Copies()
        self._own, self._neighbours = own, neighbours
        self._me = job.tasks.index(own.task)
        self._work = work and replace(work)
        self._first_copy: int | None = None  # of which step: the initial values then
        self._job = job  # of the newest generation that has begun here
        self._noted: tuple[str, Plain] = "", {}  # of which run, what is requested
        self._promised: Ballot = (0, -1)
        self._stand_ins: dict[int, StandIn] = {}
        self._callers: dict[int, Caller] = {}  # for copies
        self._error: KitError | None = None  # with which it ended for this process
        self._is_closed = False
        self._noticed: tuple[float, str] | None = None  # a loss: when, and what
        self._changed = threading.Condition(threading.RLock())

    # -- what the members of this process tell ------------------------------------

    def ended(self, member: Member) -> None:
        """Take the end of a member: after a loss, go on in another generation."""
        error = member.error
        with self._changed:
            if member.job.run != self._job.run or member.state == "done":
                return
            if error is not None and not isinstance(error, UnavailableError):
                self._fail(error)
                return
        self._notice(error.message if error is not None else "it ended")

    def keep_copy(self, copy: StateCopy) -> None:
        """Keep a copy here and in the next process; blocks until it is there."""
        self.copies.keep(copy)
        if self._first_copy is None:
            self._first_copy = copy.step
        elif self._first_copy < copy.step and self._work is not None:
            self._work.params = None  # the first copy is whole: nobody begins anew
        job = self._job
        buddy = self._next_process(job)
        if buddy == self._me:
            return
        values = {"run": job.run, "about": copy.about()}
        limit_s = job.settings.step_deadline_s
        caller = self._callers.get(buddy)
        if caller is None or caller.is_closed:
            caller = self._dial(buddy)
            self._callers = {buddy: caller}
        caller.call("elastic.keep", limit_s, self._about(values), blob=copy.data)

    def share(self, run: str, requests: Plain) -> None:
        """Tell the other processes what is requested; one that is gone needs it not.

        A request is answered after that, so it outlives the coordinator.
        """
        assert self._job.generation is not None
        processes = self._job.generation.processes
        others = [process for process in processes if process != self._me]
        self._ask_all(others, "elastic.note", {"run": run, "requests": requests})

    def _next_process(self, job: Job) -> int:
        assert job.generation is not None
        processes = job.generation.processes
        if self._me not in processes:
            return self._me
        return processes[(processes.index(self._me) + 1) % len(processes)]

    def close(self) -> None:
        """End it: no generation begins here any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for one in [*self._callers.values()]:
            one.close()
        for server in self._stand_ins.values():
            server.stop()

    # -- what other processes ask -------------------------------------------------

    def look(self) -> Plain:
        """Return the newest generation's job, and how this process ended, if it has."""
        with self._changed:
            error = to_plain(self._error) if self._error is not None else None
            is_done = {one.state for one in self._members()} == {"done"}
            return {"job": self._job.to_plain(), "error": error, "done": is_done}

    def lose(self, number: int, reason: str) -> Plain:
        """Hear of a loss in a generation; returns what `look` does."""
        with self._changed:
            is_current = self._number(self._job) == number and self._error is None
        # A training that is complete goes on no more.
        if is_current and any(one.state != "done" for one in self._members()):
            self._notice(reason)
        return self.look()

    def promise(self, ballot: Ballot) -> Plain:
        """Promise to hear no older ballot, and tell what is held here."""
        with self._changed:
            if ballot <= self._promised or self._is_closed:
                return {**self.look(), "granted": False, "ballot": self._promised}
            self._promised = ballot
            members = self._members()
        for member in members:
            text = f"{member.task}: the processes that are left begin again."
            member.abort(PeerLost(text, task=str(member.task)))
        leads = next((one for one in members if one.coordinator is not None), None)
        return {
            **self.look(),
            "granted": True,
            "ballot": self._promised,
            "held": [[one.step, one.member, one.writers] for one in self.copies.held()],
            "step": max((one.step for one in members), default=0),
            "requests": leads.coordinator.requests()
            if leads is not None and leads.coordinator is not None
            else None,
            "noted": self._noted[1] if self._noted[0] == self._job.run else None,
            "may_begin_anew": self._may_begin_anew,
        }

    @property
    def _may_begin_anew(self) -> bool:
        """Whether the initial values are still here; a server never had them."""
        is_worker = self._me in self._job.workers
        return not is_worker or (self._work is not None and bool(self._work.params))

    def accept(self, ballot: Ballot, run: str, places: Sequence[int]) -> Plain:
        """Make servers for the members that are to be hosted here; their addresses."""
        self._check(ballot)
        hosted = [n for n, place in enumerate(places) if place == self._me]
        for member in [*self._stand_ins]:
            if member not in hosted:
                self._stand_ins.pop(member).stop()
        for member in hosted:
            if member != self._me and member not in self._stand_ins:
                task = self._job.tasks[member]
                self._stand_ins[member] = self._neighbours.stand_in(task, run)
        found = {member: str(self._trainings(member).address) for member in hosted}
        return {"addresses": {str(member): text for member, text in found.items()}}

    def begin(
        self,
        ballot: Ballot,
        job: Job,
        step: int,
        holders: Mapping[int, int],
        requests: Plain,
    ) -> None:
        """Begin the members of a generation that this process hosts.

        It begins before `step`; `holders` says which process holds whose copy of that.
        """
        self._check(ballot)
        assert job.generation is not None
        for member in self._members():
            if not member.join(job.settings.step_deadline_s):
                raise DeadlineExceededError(
                    f"{member.task} has not ended its part in the generation before.",
                    task=str(member.task),
                )
        state, here = None, {member.me for member in self._members()}
        hosted = job.generation.hosted_by(self._me)
        if job.coordinator in hosted and holders:
            state = self._gather(job, step, holders, requests)
        self.copies.drop_after(step)
        with self._changed:
            self._job, self._noticed = job, None
            self._changed.notify_all()
        for number in sorted(hosted, key=lambda one: one != job.coordinator):
            leads = number == job.coordinator
            work = self._work if number in job.workers else None
            told = ToldRows()
            if number not in here and holders:
                told = ToldRows(*self._copy(holders[number], step, number).parts[1:])
            self._trainings(number).begin_generation(
                job, work, state if leads else None, told, self
            )

    def keep(self, run: str, copy: StateCopy) -> None:
        """Keep a copy of another process."""
        if run != self._job.run:
            raise Fenced(f"generation {run[:8]} of this training is over.")
        self.copies.keep(copy)

    def note(self, run: str, requests: Plain) -> None:
        """Keep what is requested of the training."""
        with self._changed:
            n_commands = self._noted[1].get("n_commands", 0)
            if self._noted[0] != run or n_commands <= requests["n_commands"]:
                self._noted = run, requests

    def fetch(self, step: int, member: int) -> StateCopy:
        """Return a copy that is held here."""
        try:
            return self.copies.find(step, member)
        except KeyError:
            name = self._job.tasks[member].short
            raise FailedPreconditionError(
                f"{self._own.task} holds no copy of {name} before step {step}."
            ) from None

    # -- the next generation --------------------------------------------------------

    def _notice(self, reason: str) -> None:
        with self._changed:
            is_over = self._is_closed or self._error is not None
            if is_over or self._noticed is not None:
                return
            self._noticed = time.monotonic(), reason
        name = f"kit-elastic-{self._own.task.short}"
        threading.Thread(target=self._go_on, name=name, daemon=True).start()

    def _go_on(self) -> None:
        """Lead, or wait for who leads, until there is another generation or none."""
        number = self._number(self._job)
        assert self._noticed is not None
        limits, reason = self._job.settings, self._noticed[1]
        give_up = time.monotonic() + limits.dead_after_s + limits.start_deadline_s
        while not self._has_moved(number):
            try:
                if not self._is_led_by_another(number, reason):
                    self._lead()
            except KitError as error:
                if time.monotonic() > give_up:
                    self._fail(error)
            if time.monotonic() > give_up and not self._has_moved(number):
                text = f"{self._own.task}: no new generation could begin: {reason}"
                self._fail(PeerLost(text, task=str(self._own.task)))
            with self._changed:
                self._changed.wait_for(lambda: self._has_moved(number), _LOOK_S)

    def _has_moved(self, number: int) -> bool:
        is_over = self._is_closed or self._error is not None
        return is_over or self._number(self._job) > number

    def _is_led_by_another(self, number: int, reason: str) -> bool:
        """Tell a process before this one of the loss; whether one lives, to lead."""
        assert self._job.generation is not None
        for process in self._job.generation.processes:
            if process == self._me:
                return False
            with suppress(UnavailableError, DeadlineExceededError):
                values = {"number": number, "reason": reason}
                self._take(self._ask(process, "elastic.lose", values)[0], number)
                return True
        return False

    def _take(self, told: Plain, number: int) -> None:
        """Take what another process knows: the end, or that it goes on without us."""
        if told["error"]:
            self._fail(from_plain(told["error"]))
            return
        theirs = Job.from_plain(told["job"]).generation
        assert theirs is not None
        if theirs.number > number and self._me not in theirs.processes:
            self._fail(
                Fenced(
                    f"{self._own.task} was taken for lost, and the training goes on "
                    f"without it in generation {theirs.number}.",
                    task=str(self._own.task),
                )
            )

    def _lead(self) -> None:
        job, began = self._job, self._noticed
        old = job.generation
        assert old is not None
        assert began is not None
        ballot = self._promised[0] + 1, self._me
        told = self._ask_all(old.processes, "elastic.promise", {"ballot": ballot})
        good = {n: reply for n, reply in told.items() if isinstance(reply, dict)}
        ended = [n for n, reply in told.items() if _has_ended(reply)]
        for reply in good.values():
            self._take(reply, old.number)
            if not reply["granted"]:
                self._promised = max(self._promised, (reply["ballot"][0], self._me))
        if self._error is not None or not all(one["granted"] for one in good.values()):
            return
        if all(reply["done"] for reply in good.values()):
            self._fail(AbortedError("the training is complete."))
            return
        left = sorted(good)
        lost = [job.tasks[n].short for n in old.processes if n not in left]
        if not rules.may_go_on(old.processes, left, ended):
            names = ", ".join(lost)
            raise PeerLost(
                f"{names} do not answer, and only {len(left)} of {len(old.processes)} "
                f"tasks are here: the others may go on, so these do not.",
                task=names,
            )
        found = rules.newest_whole({n: _held(good[n]) for n in left})
        if found is None and not all(
            reply["may_begin_anew"] for reply in good.values()
        ):
            self._fail(_no_copy(lost))
            return
        step, holders = found or (0, {})
        requests = next((r["requests"] for r in good.values() if r["requests"]), None)
        if requests is None and holders:
            copy = self._copy(holders[job.coordinator], step, job.coordinator)
            requests = copy.requests
        noted = [requests or {}, *(reply["noted"] or {} for reply in good.values())]
        requests = max(noted, key=lambda one: one.get("n_commands", -1)) or None
        reached = max(step, *(good[n]["step"] for n in left))
        seconds = time.monotonic() - began[0]
        loss = Loss(tuple(lost), reached, reached - step, seconds, began[1])
        self._begin_all(ballot, left, (step, holders), requests, loss)

    def _begin_all(
        self,
        ballot: Ballot,
        left: Sequence[int],
        found: tuple[int, dict[int, int]],
        requests: Plain | None,
        loss: Loss,
    ) -> None:
        """Let the processes that are left host all members, and begin them."""
        before, old = self._job, self._job.generation
        assert old is not None
        step, holders = found
        places = rules.moved(old, left, before.workers)
        run = rules.run_of(old.origin, old.number + 1, ballot)
        values = {"ballot": ballot, "run": run, "places": places}
        addresses: dict[int, str] = {}
        for reply in self._ask_all(left, "elastic.accept", values).values():
            if isinstance(reply, KitError):
                raise reply
            addresses |= {int(n): text for n, text in reply["addresses"].items()}
        told = tuple(addresses[n] for n in range(len(before.tasks)))
        job = replace(
            before,
            run=run,
            generation=rules.next_generation(old, places, told, loss),
            **_configuration(requests),
        )
        begins: Plain = {
            "ballot": ballot,
            "job": job.to_plain(),
            "step": step,
            "holders": {str(member): holder for member, holder in holders.items()},
            "requests": requests or {},
        }
        # The coordinator first: the others come to it as soon as they begin.
        leader = places[job.coordinator]
        self._ask(leader, "elastic.begin", begins)
        others = [process for process in left if process != leader]
        for reply in self._ask_all(others, "elastic.begin", begins).values():
            if isinstance(reply, KitError):
                raise reply

    def _gather(
        self, job: Job, step: int, holders: Mapping[int, int], requests: Plain
    ) -> WholeState:
        copies = [self._copy(holder, step, n) for n, holder in holders.items()]
        values = put_together(job.layout, job.slots, copies)
        return WholeState(step, values, requests)

    def _copy(self, holder: int, step: int, member: int) -> StateCopy:
        if holder == self._me:
            return self.fetch(step, member)
        values = {"step": step, "member": member}
        about, data = self._ask(holder, "elastic.fetch", values)
        return StateCopy.from_plain(about["about"], data)

    # -- questions to other processes -----------------------------------------------

    def _ask_all(
        self, processes: Iterable[int], op: str, values: Plain
    ) -> dict[int, Plain | KitError]:
        """Ask processes at the same time; what one fails with is its answer."""

        def ask(process: int) -> Plain | KitError:
            try:
                return self._ask(process, op, values)[0]
            except KitError as error:
                return error

        wanted = list(processes)
        if not wanted:
            return {}
        with ThreadPoolExecutor(len(wanted)) as pool:
            return dict(zip(wanted, pool.map(ask, wanted), strict=True))

    def _ask(self, process: int, op: str, values: Plain) -> tuple[Plain, Buffer]:
        question = self._about(values)
        if process == self._me:
            handler = handlers(lambda _: self)[op]
            return handler.answer(check(op, handler.fields, question), bytearray())
        with closing(self._dial(process)) as caller:
            return caller.call(op, self._job.settings.step_deadline_s, question)

    def _about(self, values: Plain) -> Plain:
        return {"origin": self.origin, **values}

    def _dial(self, process: int) -> Caller:
        task, limits = self._job.tasks[process], self._job.settings
        return self._neighbours.dial_process(task, limits.suspect_after_s)

    # -- what is here ---------------------------------------------------------------

    def _trainings(self, member: int) -> Trainings:
        return self._own if member == self._me else self._stand_ins[member].trainings

    def _members(self) -> list[Member]:
        """Return the members of the newest generation here."""
        generation = self._job.generation
        assert generation is not None
        hosts = [self._own, *(one.trainings for one in self._stand_ins.values())]
        found = [one.maybe_find(self._job.run) for one in hosts]
        return [member for member in found if member is not None]

    def _number(self, job: Job) -> int:
        assert job.generation is not None
        return job.generation.number

    def _check(self, ballot: Ballot) -> None:
        with self._changed:
            if ballot != self._promised or self._is_closed:
                raise AbortedError(
                    f"{self._own.task} has promised ballot {self._promised}, and hears "
                    f"no {ballot} any more.",
                    task=str(self._own.task),
                )

    def _fail(self, error: KitError) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


def _has_ended(reply: Plain | KitError) -> bool:
    """Whether nobody listens there; a link that ends midway may be cut."""
    return isinstance(reply, UnavailableError) and not isinstance(reply, LinkLost)


def _held(reply: Plain) -> list[Held]:
    return [Held(step, n, tuple(writers)) for step, n, writers in reply["held"]]


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


# --------------------------------------------------------------------------------------
# The questions, with their fields.


_BALLOT: Final = {"ballot": row_of(whole(0), whole(0))}
_ABOUT: Final = record(
    {
        "step": whole(0),
        "member": whole(0),
        "writers": list_of(whole(0)),
        "ranges": list_of(row_of(whole(0), whole(0))),
        "requests": table_of(anything()),
        "sizes": row_of(whole(0), whole(0), whole(0)),
    }
)


def handlers(find: Callable[[str], ElasticTraining]) -> Mapping[str, Handler]:
    """Return what answers each question about an elastic training.

    `find` returns the training by its origin.
    """

    def here(asked: Plain) -> ElasticTraining:
        return find(asked["origin"])

    def look(asked: Plain, _: bytearray) -> Answer:
        return here(asked).look(), b""

    def lose(asked: Plain, _: bytearray) -> Answer:
        return here(asked).lose(asked["number"], asked["reason"]), b""

    def promise(asked: Plain, _: bytearray) -> Answer:
        return here(asked).promise(_ballot(asked)), b""

    def accept(asked: Plain, _: bytearray) -> Answer:
        return here(asked).accept(_ballot(asked), asked["run"], asked["places"]), b""

    def begin(asked: Plain, _: bytearray) -> Answer:
        holders = {int(member): n for member, n in asked["holders"].items()}
        state = asked["step"], holders, asked["requests"]
        here(asked).begin(_ballot(asked), Job.from_plain(asked["job"]), *state)
        return {}, b""

    def keep(asked: Plain, data: bytearray) -> Answer:
        here(asked).keep(asked["run"], StateCopy.from_plain(asked["about"], data))
        return {}, b""

    def note(asked: Plain, _: bytearray) -> Answer:
        here(asked).note(asked["run"], asked["requests"])
        return {}, b""

    def fetch(asked: Plain, _: bytearray) -> Answer:
        copy = here(asked).fetch(asked["step"], asked["member"])
        return {"about": copy.about()}, copy.data

    run, state = text(pattern="[0-9a-f]{32}"), {"step": whole(0)}
    holders = {"holders": table_of(whole(0)), "requests": table_of(anything())}
    table: dict[str, tuple[Fields, Callable[[Plain, bytearray], Answer]]] = {
        "look": ({}, look),
        "lose": ({"number": whole(0), "reason": text()}, lose),
        "promise": (_BALLOT, promise),
        "accept": ({**_BALLOT, "run": run, "places": list_of(whole(0))}, accept),
        "begin": ({**_BALLOT, **state, **holders, "job": anything()}, begin),
        "keep": ({"run": run, "about": _ABOUT}, keep),
        "note": ({"run": run, "requests": table_of(anything())}, note),
        "fetch": ({**state, "member": whole(0)}, fetch),
    }
    return {
        f"elastic.{name}": Handler({"origin": run, **fields}, answer)
        for name, (fields, answer) in table.items()
    }


def _ballot(asked: Plain) -> Ballot:
    number, process = asked["ballot"]
    return number, process
