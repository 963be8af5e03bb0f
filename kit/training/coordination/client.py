"""How a member talks to the coordinator: across a link, or in the same process."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kit.arithmetic import MOST_THREADS
from kit.errors import DeadlineExceededError, KitError, LinkLost, from_plain, to_plain
from kit.message_fields import check, flag, whole
from kit.settings import Settings
from kit.training.checkpointing.save_coordinator import Key, SaveClient, ShardPath
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.coordination.digests import DigestReport
from kit.training.coordination.membership import Answer, Epoch, Verdict
from kit.wire.rpc import Caller, ReconnectingCaller

Reports = Sequence[DigestReport]
_BEGUN: Final = {"begun": flag(), "threads": whole(0, MOST_THREADS)}
_PATIENCE_S = 2.0  # how long the coordinator keeps a question before it says WAIT


class HeartbeatReply(NamedTuple):
    """The answer to a heartbeat.

    What the training failed with, and the members that it goes on without, as known in
    an epoch.
    """

    error: KitError | None
    lost: frozenset[int]
    epoch: int


class CoordinatorClient(SaveClient, Protocol):
    """What a member asks of the coordinator. All raise the training's failure.

    Attributes:
        threads: of BLAS, which all members compute with; known once it has begun.
    """

    threads: int

    def arrive(self, number: int, step: int) -> Answer:
        """Come to boundary `number`, before `step`."""

    def prepared(self, number: int, refusal: str | None) -> Answer:
        """Report that the proposal was prepared, or why not."""

    def beat(self, reports: Reports = ()) -> HeartbeatReply:
        """Send a heartbeat and digests of parameters; returns what has happened."""

    def come_back(self) -> None:
        """Say that this is the new process of a member that was lost."""

    def rejoin(self) -> tuple[Answer, int]:
        """Ask for the boundary at which such a member takes part again."""

    def fail(self, error: KitError, patience_s: float) -> KitError | None:
        """Report that this member cannot go on.

        Returns what the training failed with; None if that is not clear after
        `patience_s`, or if it goes on without this member.
        """

    def leave(self) -> None:
        """Say that this member ends in good order."""

    def copied(self, step: int) -> None:
        """Say that this member's copy before `step` is in another task's memory."""

    def close(self) -> None:
        """Let go of the links."""


class LocalCoordinatorClient:
    """The coordinator's own way."""

    def __init__(self, coordinator: TrainingCoordinator, member: int) -> None:
        self._coordinator, self._member = coordinator, member
        self.threads = coordinator.arithmetic.threads

    def arrive(self, number: int, step: int) -> Answer:
        """See `CoordinatorClient`."""
        return self._coordinator.arrive(self._member, number, step, _PATIENCE_S)

    def prepared(self, number: int, refusal: str | None) -> Answer:
        """See `CoordinatorClient`."""
        return self._coordinator.prepared(self._member, number, refusal, _PATIENCE_S)

    def beat(self, reports: Reports = ()) -> HeartbeatReply:
        """See `CoordinatorClient`."""
        self._coordinator.compare(self._member, reports)
        error = self._coordinator.beat(self._member)
        return HeartbeatReply(error, *self._coordinator.losses)

    def come_back(self) -> None:
        """See `CoordinatorClient`; the coordinator never does."""
        self._coordinator.come_back(self._member, 0, "")

    def rejoin(self) -> tuple[Answer, int]:
        """See `CoordinatorClient`; the coordinator never does."""
        return self._coordinator.rejoin(self._member, _PATIENCE_S)

    def fail(self, error: KitError, patience_s: float) -> KitError | None:
        """See `CoordinatorClient`."""
        return self._coordinator.fail(error, by=self._member, patience_s=patience_s)

    def leave(self) -> None:
        """See `CoordinatorClient`."""
        self._coordinator.leave(self._member)

    def copied(self, step: int) -> None:
        """See `CoordinatorClient`."""
        self._coordinator.copied(self._member, step)

    def kept(self) -> bytes:
        """See `CoordinatorClient`."""
        return self._coordinator.kept(self._member)

    def where(self, key: Key) -> ShardPath:
        """See `CoordinatorClient`."""
        return self._coordinator.save_coordinator.where(key)

    def collect(self, key: Key, offset: int, block: Any) -> None:
        """See `CoordinatorClient`; the coordinator sees its own draft."""
        self._coordinator.save_coordinator.collect(self._member, key, offset, block)

    def wrote(self, key: Key, entry: Any, wrong: str) -> None:
        """See `CoordinatorClient`."""
        self._coordinator.save_coordinator.wrote(self._member, key, entry, wrong)

    def close(self) -> None:
        """Nothing to let go of."""


class RemoteCoordinatorClient:
    """The others' way: one link, and a second one where there are checkpoints.

    A block of a checkpoint would hold up heartbeats for as long as it takes to send.
    """

    def __init__(
        self,
        run: str,
        member: int,
        incarnation: int,
        dial: Callable[[float], Caller],
        settings: Settings,
    ) -> None:
        """`dial` reaches the coordinator before a point of the monotonic clock."""
        self._about = {"run": run, "member": member, "incarnation": incarnation}
        self._process = secrets.token_hex(8)
        self.threads = 0
        self._deadline_s = settings.dead_after_s
        self._control = ReconnectingCaller(dial, settings.redial_after_s)
        # A large block may rightly take long, so this line is not dialled anew as soon;
        # the deadlines below leave time for a second attempt.
        self._checkpoints = ReconnectingCaller(dial, self._deadline_s)

    def has_begun(self, deadline: float) -> bool:
        """Ask whether the coordinator has begun; tasks begin one after the other.

        Dials first: it may not listen before `deadline`.
        """
        limit_s = max(0.0, deadline - time.monotonic())
        about = {"run": self._about["run"]}
        reply, _ = self._control.call("run.begun", limit_s, about)
        answer = check("answer", _BEGUN, reply)
        self.threads = answer["threads"]
        return bool(answer["begun"])

    def arrive(self, number: int, step: int) -> Answer:
        """See `CoordinatorClient`."""
        reply = self._ask("run.arrive", {"number": number, "step": step})
        return _answer(reply)

    def prepared(self, number: int, refusal: str | None) -> Answer:
        """See `CoordinatorClient`."""
        values = {"number": number, "refusal": refusal}
        return _answer(self._ask("run.prepared", values))

    def beat(self, reports: Reports = ()) -> HeartbeatReply:
        """See `CoordinatorClient`."""
        values = {**self._about, "digests": reports}
        reply, _ = self._control.call("run.beat", self._deadline_s, values)
        error = from_plain(reply["error"]) if reply["error"] else None
        return HeartbeatReply(
            error, frozenset(map(int, reply["lost"])), int(reply["epoch"])
        )

    def come_back(self) -> None:
        """See `CoordinatorClient`."""
        values = {**self._about, "process": self._process}
        self._control.call("run.come_back", self._deadline_s, values)

    def rejoin(self) -> tuple[Answer, int]:
        """See `CoordinatorClient`."""
        reply = self._ask("run.rejoin", {})
        return _answer(reply), int(reply["number"])

    def fail(self, error: KitError, patience_s: float) -> KitError | None:
        """See `CoordinatorClient`."""
        values = {"error": to_plain(error)}
        reply = self._ask("run.fail", values, patience_s)
        return from_plain(reply["error"]) if reply["error"] else None

    def leave(self) -> None:
        """See `CoordinatorClient`."""
        self._control.call("run.leave", self._deadline_s, self._about)

    def copied(self, step: int) -> None:
        """See `CoordinatorClient`."""
        values = {**self._about, "step": step}
        self._control.call("run.copied", self._deadline_s, values)

    def kept(self) -> bytes:
        """See `CoordinatorClient`."""
        return bytes(
            self._checkpoints.call("run.kept", 2 * self._deadline_s, self._about)[1]
        )

    def where(self, key: Key) -> ShardPath:
        """See `CoordinatorClient`."""
        values = {**self._about, "key": list(key)}
        reply, _ = self._checkpoints.call("run.where", 2 * self._deadline_s, values)
        return ShardPath(str(reply["state"]), str(reply["path"]))

    def collect(self, key: Key, offset: int, block: Any) -> None:
        """See `CoordinatorClient`."""
        values = {**self._about, "key": list(key), "offset": offset}
        self._checkpoints.call("run.collect", 2 * self._deadline_s, values, blob=block)

    def wrote(self, key: Key, entry: Any, wrong: str) -> None:
        """See `CoordinatorClient`."""
        values = {**self._about, "key": list(key), "wrong": wrong}
        blob = json.dumps(entry).encode()  # as long as there are parameters
        self._checkpoints.call("run.wrote", 2 * self._deadline_s, values, blob=blob)

    def close(self) -> None:
        """Close both links."""
        self._control.close()
        self._checkpoints.close()

    def _ask(
        self, op: str, values: dict[str, Any], patience_s: float = _PATIENCE_S
    ) -> dict[str, Any]:
        values = {**self._about, **values, "patience_s": patience_s}
        try:
            reply, _ = self._control.call(
                op, self._deadline_s, values, patience_s=patience_s
            )
        except DeadlineExceededError as error:
            if self._control.is_connected:
                raise  # it is the coordinator's own answer
            # No answer has come: the coordinator is gone, or the line to it is cut.
            raise LinkLost(error.message, task=error.task) from error
        return reply


def _answer(reply: dict[str, Any]) -> Answer:
    epoch = Epoch.from_plain(reply["epoch"]) if reply["epoch"] else None
    verdict, reason = Verdict(reply["verdict"]), str(reply["reason"])
    return Answer(verdict, epoch, reason, int(reply["step"]), int(reply["halt"]))
