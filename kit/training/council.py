"""How a member talks to the coordinator: across a link, or in the same process."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from kit.errors import KitError, from_plain, to_plain
from kit.membership import Epoch, Verdict
from kit.training.attempt import Key, Place
from kit.training.authority import Answer, Authority
from kit.wire.rpc import Caller

_PATIENCE_S = 2.0  # how long the coordinator keeps a question before saying "wait"


class Pulse(NamedTuple):
    """The answer to a sign of life.

    What the training failed with, and the members that it goes on without, as known in
    an epoch.
    """

    error: KitError | None
    lost: frozenset[int]
    epoch: int


class Council(Protocol):
    """What a member asks of the coordinator. All raise the training's failure."""

    def arrive(self, number: int, step: int) -> Answer:
        """Come to boundary `number`, before `step`."""

    def prepared(self, number: int, refusal: str | None) -> Answer:
        """Report that the proposal was prepared, or why not."""

    def beat(self) -> Pulse:
        """Give a sign of life; returns what has happened elsewhere."""

    def come_back(self) -> None:
        """Say that this is the new process of a member that was lost."""

    def rejoin(self) -> tuple[Answer, int]:
        """Ask for the boundary at which such a member takes part again."""

    def fail(self, error: KitError) -> None:
        """Report that this member cannot go on."""

    def leave(self) -> None:
        """Say that this member ends in good order."""

    def where(self, key: Key) -> Place:
        """Ask where the shard of a checkpoint belongs."""

    def wrote(self, key: Key, entry: Any, wrong: str) -> None:
        """Hand in the entry of a shard, as plain data, or why there is none."""

    def close(self) -> None:
        """Let go of the links."""


class LocalCouncil:
    """The coordinator's own way."""

    def __init__(self, authority: Authority, member: int) -> None:
        """Speak for `member`."""
        self._authority, self._member = authority, member

    def arrive(self, number: int, step: int) -> Answer:
        """See `Council`."""
        return self._authority.arrive(self._member, number, step, _PATIENCE_S)

    def prepared(self, number: int, refusal: str | None) -> Answer:
        """See `Council`."""
        return self._authority.prepared(self._member, number, refusal, _PATIENCE_S)

    def beat(self) -> Pulse:
        """See `Council`; also looks after the others."""
        self._authority.watch()
        error = self._authority.beat(self._member)
        return Pulse(error, *self._authority.losses)

    def come_back(self) -> None:
        """See `Council`; the coordinator never does."""
        self._authority.come_back(self._member, 0)

    def rejoin(self) -> tuple[Answer, int]:
        """See `Council`; the coordinator never does."""
        return self._authority.rejoin(self._member, _PATIENCE_S)

    def fail(self, error: KitError) -> None:
        """See `Council`."""
        self._authority.fail(error, by=self._member)

    def leave(self) -> None:
        """See `Council`."""
        self._authority.leave(self._member)

    def where(self, key: Key) -> Place:
        """See `Council`."""
        return self._authority.ledger.where(key)

    def wrote(self, key: Key, entry: Any, wrong: str) -> None:
        """See `Council`."""
        self._authority.ledger.wrote(self._member, key, entry, wrong)

    def close(self) -> None:
        """Nothing to let go of."""


class RemoteCouncil:
    """The others' way: one link for questions that wait, one for signs of life."""

    def __init__(
        self,
        run: str,
        member: int,
        incarnation: int,
        patient: Caller,
        quick: Caller,
        deadline_s: float,
    ) -> None:
        """`patient` carries questions that may be kept, `quick` all others."""
        self._about = {"run": run, "member": member, "incarnation": incarnation}
        self._patient, self._quick = patient, quick
        self._deadline_s = deadline_s

    def arrive(self, number: int, step: int) -> Answer:
        """See `Council`."""
        reply = self._ask("run.arrive", number=number, step=step)
        return _answer(reply)

    def prepared(self, number: int, refusal: str | None) -> Answer:
        """See `Council`."""
        return _answer(self._ask("run.prepared", number=number, refusal=refusal))

    def beat(self) -> Pulse:
        """See `Council`."""
        reply, _ = self._quick.call("run.beat", self._deadline_s, self._about)
        error = from_plain(reply["error"]) if reply["error"] else None
        return Pulse(error, frozenset(map(int, reply["lost"])), int(reply["epoch"]))

    def come_back(self) -> None:
        """See `Council`."""
        self._quick.call("run.come_back", self._deadline_s, self._about)

    def rejoin(self) -> tuple[Answer, int]:
        """See `Council`."""
        reply = self._ask("run.rejoin")
        return _answer(reply), int(reply["number"])

    def fail(self, error: KitError) -> None:
        """See `Council`."""
        values = {**self._about, "error": to_plain(error)}
        self._quick.call("run.fail", self._deadline_s, values)

    def leave(self) -> None:
        """See `Council`."""
        self._quick.call("run.leave", self._deadline_s, self._about)

    def where(self, key: Key) -> Place:
        """See `Council`."""
        values = {**self._about, "key": list(key)}
        reply, _ = self._quick.call("run.where", self._deadline_s, values)
        return Place(str(reply["state"]), str(reply["path"]))

    def wrote(self, key: Key, entry: Any, wrong: str) -> None:
        """See `Council`."""
        values = {**self._about, "key": list(key), "wrong": wrong}
        blob = json.dumps(entry).encode()  # as long as there are parameters
        self._quick.call("run.wrote", self._deadline_s, values, blob=blob)

    def close(self) -> None:
        """Close both links."""
        self._patient.close()
        self._quick.close()

    def _ask(self, op: str, **values: Any) -> dict[str, Any]:
        values |= {**self._about, "patience_s": _PATIENCE_S}
        reply, _ = self._patient.call(op, self._deadline_s + _PATIENCE_S, values)
        return reply


def _answer(reply: dict[str, Any]) -> Answer:
    epoch = Epoch.from_plain(reply["epoch"]) if reply["epoch"] else None
    verdict, reason = Verdict(reply["verdict"]), str(reply["reason"])
    return Answer(verdict, epoch, reason, int(reply["step"]))
