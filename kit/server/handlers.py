"""What a task answers: one function for each question, in one table.

run.begun  run.arrive  run.prepared  run.beat  run.fail  run.leave   of members
run.come_back  run.rejoin               of members that were lost and have a new process
run.where  run.wrote                                 of members that save
run.join                                                             of workers
run.begin  run.command  run.poll  run.params          of whoever leads or looks on
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kit.errors import FailedPreconditionError, from_plain, to_plain
from kit.server.trainings import Trainings
from kit.training.authority import Answer as Verdict
from kit.training.authority import Authority
from kit.training.job import Job
from kit.training.snapshot import parameters, poll
from kit.wire.rpc import Answer, Handler

_MOST_PATIENCE_S = 5.0


class Handlers:
    """The table, for one server's trainings."""

    def __init__(self, trainings: Trainings) -> None:
        """Answer for these trainings."""
        self._trainings = trainings

    def table(self) -> Mapping[str, Handler]:
        """Return the handler of each question."""
        return {
            "run.join": self._join,
            "run.come_back": self._come_back,
            "run.rejoin": self._rejoin,
            "run.begun": self._begun,
            "run.arrive": self._arrive,
            "run.prepared": self._prepared,
            "run.beat": self._beat,
            "run.fail": self._fail,
            "run.leave": self._leave,
            "run.where": self._where,
            "run.wrote": self._wrote,
            "run.begin": self._begin,
            "run.command": self._command,
            "run.poll": self._poll,
            "run.params": self._params,
        }

    def _authority(self, question: dict[str, Any]) -> Authority:
        member = self._trainings.find(str(question["run"]))
        if member.authority is None:
            leader = member.job.tasks[member.job.coordinator]
            raise FailedPreconditionError(
                f"{member.task} does not lead this training; ask {leader}."
            )
        if question.get("incarnation") is not None:
            member.authority.check_current(
                int(question["member"]), int(question["incarnation"])
            )
        return member.authority

    def _join(self, question: dict[str, Any], _: bytearray) -> Answer:
        terms = {str(name): str(text) for name, text in question["terms"].items()}
        run = self._trainings.join(int(question["member"]), terms)
        return {"run": run or ""}, b""

    def _begun(self, question: dict[str, Any], _: bytearray) -> Answer:
        return {"begun": self._trainings.has_begun(str(question["run"]))}, b""

    def _arrive(self, question: dict[str, Any], _: bytearray) -> Answer:
        answer = self._authority(question).arrive(
            int(question["member"]),
            int(question["number"]),
            int(question["step"]),
            min(float(question["patience_s"]), _MOST_PATIENCE_S),
        )
        return _plain(answer), b""

    def _prepared(self, question: dict[str, Any], _: bytearray) -> Answer:
        answer = self._authority(question).prepared(
            int(question["member"]),
            int(question["number"]),
            question["refusal"],
            min(float(question["patience_s"]), _MOST_PATIENCE_S),
        )
        return _plain(answer), b""

    def _come_back(self, question: dict[str, Any], _: bytearray) -> Answer:
        member, incarnation = int(question["member"]), int(question["incarnation"])
        self._authority({"run": question["run"]}).come_back(member, incarnation)
        return {}, b""

    def _rejoin(self, question: dict[str, Any], _: bytearray) -> Answer:
        answer, number = self._authority(question).rejoin(
            int(question["member"]),
            min(float(question["patience_s"]), _MOST_PATIENCE_S),
        )
        return {**_plain(answer), "number": number}, b""

    def _beat(self, question: dict[str, Any], _: bytearray) -> Answer:
        authority = self._authority(question)
        error = authority.beat(int(question["member"]))
        plain = to_plain(error) if error else None
        lost, epoch = authority.losses
        return {"error": plain, "lost": sorted(lost), "epoch": epoch}, b""

    def _fail(self, question: dict[str, Any], _: bytearray) -> Answer:
        lost, by = question.get("lost"), question.get("member")
        error = from_plain(question["error"])
        self._authority(question).fail(error, by=by, lost=lost)
        return {}, b""

    def _leave(self, question: dict[str, Any], _: bytearray) -> Answer:
        self._authority(question).leave(int(question["member"]))
        return {}, b""

    def _where(self, question: dict[str, Any], _: bytearray) -> Answer:
        place = self._authority(question).ledger.where(_key(question))
        return place._asdict(), b""

    def _wrote(self, question: dict[str, Any], entry: bytearray) -> Answer:
        ledger, member = self._authority(question).ledger, int(question["member"])
        wrong = str(question["wrong"])
        ledger.wrote(member, _key(question), json.loads(entry), wrong)
        return {}, b""

    def _begin(self, question: dict[str, Any], _: bytearray) -> Answer:
        """Only for a task that computes nothing: functions do not travel this way."""
        self._trainings.begin(Job.from_plain(question["job"]), None)
        return {}, b""

    def _command(self, question: dict[str, Any], _: bytearray) -> Answer:
        authority = self._authority(question)
        authority.command(str(question["what"]), **question.get("values", {}))
        return authority.status(), b""

    def _poll(self, question: dict[str, Any], _: bytearray) -> Answer:
        member = self._trainings.find(str(question["run"]))
        return poll(member, [int(cursor) for cursor in question["cursors"]])

    def _params(self, question: dict[str, Any], _: bytearray) -> Answer:
        step, flat = parameters(self._trainings.find(str(question["run"])))
        return {"step": step}, flat


def _key(question: dict[str, Any]) -> tuple[int, int]:
    step, boundary = question["key"]
    return int(step), int(boundary)


def _plain(answer: Verdict) -> dict[str, Any]:
    return {
        "verdict": answer.verdict.value,
        "epoch": answer.epoch.to_plain() if answer.epoch else None,
        "reason": answer.reason,
        "step": answer.step,
    }
