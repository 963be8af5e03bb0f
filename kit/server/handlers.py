"""The questions that a task answers, in one table: a function for each.

run.*                 of members, as `kit.training.core.questions` has them
run.fail                                               of members and of observers
run.begun                                    of members that wait for the coordinator
run.join                                                             of workers
run.begin  run.command  run.poll  run.params          of the coordinator or an observer
run.recorded                                  of an observer that records the training
elastic.*                    of processes with an elastic training, and of an observer
task.look  run.job                    of a program that is not a task of the cluster
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kit import arithmetic
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    to_plain,
)
from kit.features import load, load_if_there
from kit.message_fields import (
    anything,
    list_of,
    maybe,
    optional,
    row_of,
    seconds,
    table_of,
    text,
    whole,
)
from kit.server import watchers
from kit.server.trainings import Trainings
from kit.task import Task
from kit.training.core.agreement import Verdict
from kit.training.core.coordinator import HungUp, TrainingCoordinator, never
from kit.training.core.job import Job
from kit.training.core.news import MOST_ROWS, N_CURSORS, parameters, poll
from kit.training.core.questions import FAIL, MemberQuestion, all_questions
from kit.wire.link import Link
from kit.wire.rpc import Answer, Handler

# A thread waits no longer than this for each question, whatever a member asks for; the
# member asks again.
_MOST_PATIENCE_S: Final = 5.0
# Members that keep pace reach a boundary within this of each other, and need no thread.
_MOMENT_S: Final = 0.005

# The most bytes of parameters in an answer; more are asked for piece by piece.
PARAMS_BYTES = 1 << 28
_RUN: Final = {"run": text(pattern="[0-9a-f]{32}")}
_MEMBER: Final = {**_RUN, "member": whole(0)}
_CURSORS: Final = list_of(whole(0), N_CURSORS)
_POLL: Final = {
    "cursors": _CURSORS,
    "most": optional(whole(1, MOST_ROWS)),
    "others": optional(list_of(row_of(whole(0), _CURSORS))),
}


class Handlers:
    """The table, for one server's trainings and one task that asks."""

    def __init__(
        self, trainings: Trainings, peer: Task, link: Link | None = None
    ) -> None:
        """Answer for these trainings what `peer` asks, over a link."""
        self._trainings, self._peer, self._link = trainings, peer, link
        self._copy: tuple[int, bytes] | None = None  # of parameters, piece by piece
        self._has_hung_up: HungUp = never
        if link is not None:
            self._has_hung_up = link.has_hung_up

    def table(self) -> Mapping[str, Handler]:
        """Return the handler of each question."""
        asked = {
            f"run.{question.name}": self._handler(question)
            for question in all_questions()
        }
        elastic = load_if_there("kit.server.elastic.handlers:ElasticHandlers")
        return {
            **asked,
            "run.fail": Handler(  # an observer may say so, too, of any member
                {
                    **_RUN,
                    **FAIL.fields,
                    "member": optional(maybe(whole(0))),
                    "lost": optional(maybe(whole(0))),
                    "patience_s": optional(seconds()),
                },
                lambda *_: None,  # always in another thread: the coordinator may wait
                self._fail,
            ),
            "run.join": Handler(
                {"member": whole(0), "terms": table_of(text())}, self._join
            ),
            "run.begun": Handler(_RUN, self._begun),
            "run.begin": Handler({"job": anything()}, self._begin),
            "run.command": Handler(
                {
                    **_RUN,
                    "what": text(100),
                    "values": optional(table_of(anything())),
                    "seen": optional(whole(0)),
                    "ticket": optional(text(100)),
                },
                self._command,
            ),
            "run.poll": Handler({**_RUN, **_POLL}, self._poll),
            "run.params": Handler({**_RUN, "from": optional(whole(0))}, self._params),
            "run.recorded": Handler(
                {**_RUN, "at": maybe(whole(0)), "since": whole(0)}, self._recorded
            ),
            "run.job": Handler(_RUN, self._job),
            "task.look": Handler({}, self._look),
            **(elastic(self._trainings.elastic, self._link).table() if elastic else {}),
        }

    def _coordinator(self, question: dict[str, Any]) -> TrainingCoordinator:
        member = self._trainings.find(question["run"])
        if member.coordinator is None:
            coordinator = member.job.tasks[member.job.coordinator]
            raise FailedPreconditionError(
                f"{member.task} does not coordinate this training; ask {coordinator}."
            )
        return member.coordinator

    def _handler(self, question: MemberQuestion[Any]) -> Handler:
        """Return what answers a member's question."""
        fields = {**_MEMBER, **question.fields}
        if question.waits:
            fields["patience_s"] = seconds()

        def answer(values: dict[str, Any], blob: bytearray, most_s: float) -> Answer:
            patience_s = min(values.get("patience_s", 0.0), most_s)
            patience = patience_s, self._has_hung_up
            coordinator = self._coordinator_of_member(values)
            reply = question.ask(coordinator, values["member"], values, blob, *patience)
            return question.reply.pack(reply)

        def soon(values: dict[str, Any], blob: bytearray) -> Answer | None:
            # The thread that reads the link waits here, and signs of life come on the
            # same link: what takes longer than a moment gets a thread of its own.
            reply = answer(values, blob, _MOMENT_S)
            must_wait = reply[0].get("verdict") == Verdict.WAIT.value
            return None if must_wait else reply

        return Handler(fields, soon, partial(answer, most_s=_MOST_PATIENCE_S))

    def _coordinator_of_member(self, values: dict[str, Any]) -> TrainingCoordinator:
        """Return the coordinator; raises unless the task asks for itself."""
        coordinator, member = self._coordinator(values), values["member"]
        tasks = self._trainings.find(values["run"]).job.tasks
        if member >= len(tasks) or tasks[member] != self._peer:
            names = ", ".join(f"{n} {task.short}" for n, task in enumerate(tasks))
            raise InvalidArgumentError(
                f"{self._peer.short} is not member {member} of this training; its "
                f"members are {names}."
            )
        return coordinator

    def _join(self, question: dict[str, Any], _: bytearray) -> Answer:
        run = self._trainings.join(question["member"], question["terms"])
        if run is None:
            return {"run": "", "arithmetic": None}, b""
        leads = self._trainings.find(run).coordinator
        facts = leads.arithmetic if leads is not None else arithmetic.here()
        return {"run": run, "arithmetic": facts.to_plain()}, b""

    def _begun(self, question: dict[str, Any], _: bytearray) -> Answer:
        return self._trainings.begun(question["run"]), b""

    def _fail(self, question: dict[str, Any], _: bytearray) -> Answer:
        """Take a report: a member speaks for itself, an observer of any member."""
        lost, by = question.get("lost"), question.get("member")
        coordinator = self._coordinator(question)
        job = self._trainings.find(question["run"]).job
        for number in (lost, by):
            if number is not None:
                job.check_member(number)
        error = coordinator.fail(
            question["error"],
            by=by,
            lost=lost,
            patience_s=min(question.get("patience_s", 0.0), _MOST_PATIENCE_S),
        )
        return {"error": to_plain(error) if error else None}, b""

    def _begin(self, question: dict[str, Any], _: bytearray) -> Answer:
        """Begin a parameter server's part: step functions do not travel this way."""
        self._trainings.begin(Job.from_plain(question["job"]), None)
        return {"arithmetic": arithmetic.here().to_plain()}, b""

    def _command(self, question: dict[str, Any], _: bytearray) -> Answer:
        coordinator = self._coordinator(question)
        # First: after a loss, a pause or an end may come only when the steps that the
        # notebook has seen have been done again.
        coordinator.seen(question.get("seen", 0))
        what, ticket = question["what"], question.get("ticket", "")
        coordinator.command(what, ticket, **question.get("values", {}))
        # Before the answer: once the notebook has one, its request must not be lost
        # with this task. A look requests nothing.
        if what != "look":
            self._trainings.share(question["run"])
        return coordinator.status(), b""

    def _poll(self, question: dict[str, Any], _: bytearray) -> Answer:
        """Return this member's news, and what it gathers from others."""
        run, wanted = question["run"], question.get("others", [])
        member, cursors = self._trainings.find(run), question["cursors"]
        gathered = None
        if wanted and self._link is not None:
            gathered = self._trainings.watchers.gathered_for(self._link)
        if gathered is None:
            return poll(member, cursors, question.get("most", MOST_ROWS))
        gathered.ask(run, wanted, lambda n: self._trainings.dial_for_news(run, n))
        # Fewer rows than alone: those of the others travel in the same answer.
        status, blob = poll(member, cursors, watchers.MOST_ROWS)
        reply, blobs = gathered.take(run, wanted)
        return {**status, **reply}, blob + blobs

    def _params(self, question: dict[str, Any], _: bytearray) -> Answer:
        at = question.get("from", 0)
        if not at:
            self._copy = parameters(self._trainings.find(question["run"]))
        if self._copy is None:
            raise FailedPreconditionError(
                f"no copy of the parameters is held for this link, to go on at byte "
                f"{at}; ask from byte 0."
            )
        step, flat = self._copy
        end = at + PARAMS_BYTES
        if end >= len(flat):  # the last piece; the link's end forgets an unread copy
            self._copy = None
        return {"step": step}, flat[at:end]

    def _recorded(self, question: dict[str, Any], _: bytearray) -> Answer:
        member = self._trainings.find(question["run"])
        recorded = load("kit.recording.state_keeper:recorded")
        answer: Answer = recorded(member, question["at"], question["since"])
        return answer

    def _job(self, question: dict[str, Any], _: bytearray) -> Answer:
        return {"job": self._trainings.find(question["run"]).job.to_plain()}, b""

    def _look(self, question: dict[str, Any], _: bytearray) -> Answer:
        return self._trainings.look(), b""
