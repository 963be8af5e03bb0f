"""How a member asks the coordinator: in the same process, or across a link."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from kit.arithmetic import MOST_THREADS
from kit.errors import DeadlineExceededError, KitError, LinkLost, to_plain
from kit.message_fields import check, flag, whole
from kit.settings import Settings
from kit.training.core import questions
from kit.training.core.agreement import Answer
from kit.training.core.coordinator import Patience, TrainingCoordinator
from kit.training.core.digests import DigestReport
from kit.training.core.questions import (
    HeartbeatReply,
    Key,
    MemberQuestion,
    Reply,
    ShardPath,
)
from kit.training.data.agreement import DataReport
from kit.wire.frame import Buffer
from kit.wire.rpc import Caller, ReconnectingCaller

_BEGUN: Final = {"begun": flag(), "threads": whole(0, MOST_THREADS)}
_PATIENCE_S = 2.0  # how long the coordinator keeps a question before it says WAIT


class Way(Protocol):
    """How the questions of one member reach the coordinator.

    Attributes:
        threads: of BLAS, which all members compute with; known once it has begun.
    """

    threads: int

    def ask(
        self,
        question: MemberQuestion[Reply],
        values: Mapping[str, Any],
        blob: Buffer,
        patience_s: float,
    ) -> Reply:
        """Return the coordinator's answer."""

    def close(self) -> None:
        """Let go of the links."""


class SameProcess:
    """The way of the member in the coordinator's own process."""

    def __init__(self, coordinator: TrainingCoordinator, member: int) -> None:
        self._coordinator, self._member = coordinator, member
        self.threads = coordinator.arithmetic.threads

    def ask(
        self,
        question: MemberQuestion[Reply],
        values: Mapping[str, Any],
        blob: Buffer,
        patience_s: float,
    ) -> Reply:
        """See `Way`."""
        return question.ask(
            self._coordinator, self._member, values, blob, Patience(patience_s)
        )

    def close(self) -> None:
        """Nothing to let go of."""


class OverLinks:
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
        self.threads = 0
        self._deadline_s = settings.dead_after_s
        self._control = ReconnectingCaller(dial, settings.redial_after_s)
        # A large block may rightly take long, so this line is not dialled anew as soon;
        # its deadline leaves time for a second attempt.
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

    def ask(
        self,
        question: MemberQuestion[Reply],
        values: Mapping[str, Any],
        blob: Buffer,
        patience_s: float,
    ) -> Reply:
        """See `Way`."""
        message = {**self._about, **values}
        if "error" in values:
            message["error"] = to_plain(values["error"])
        if question.waits:
            message["patience_s"] = patience_s
        else:
            patience_s = 0.0
        way, limit_s = self._control, self._deadline_s
        if question.is_large:
            way, limit_s = self._checkpoints, 2 * self._deadline_s
        try:
            reply = way.call(
                f"run.{question.name}",
                limit_s,
                message,
                blob=blob,
                patience_s=patience_s,
            )
        except DeadlineExceededError as error:
            if way.is_connected or not question.waits:
                raise  # it is the coordinator's own answer
            # No answer has come: the coordinator is gone, or the line to it is cut.
            raise LinkLost(error.message, task=error.task) from error
        return question.reply.read(*reply)

    def close(self) -> None:
        """Close both links."""
        self._control.close()
        self._checkpoints.close()


class CoordinatorClient:
    """What a member asks of the coordinator. All raise the training's failure."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._process = secrets.token_hex(8)

    @property
    def threads(self) -> int:
        """Of BLAS, which all members compute with."""
        return self._way.threads

    def arrive(self, number: int, step: int) -> Answer:
        """Come to boundary `number`, before `step`."""
        return self._ask(questions.ARRIVE, number=number, step=step)

    def prepared(self, number: int, refusal: str | None) -> Answer:
        """Report that the proposal was prepared, or why not."""
        return self._ask(questions.PREPARED, number=number, refusal=refusal)

    def beat(
        self, digests: Sequence[DigestReport] = (), data: Sequence[DataReport] = ()
    ) -> HeartbeatReply:
        """Send a heartbeat, with digests of parameters and of what was read.

        Returns what has happened.
        """
        return self._ask(questions.BEAT, digests=digests, data=data)

    def come_back(self) -> None:
        """Say that this is the new process of a member that was lost."""
        self._ask(questions.COME_BACK, process=self._process)

    def rejoin(self) -> tuple[Answer, int]:
        """Ask for the boundary at which such a member takes part again."""
        return self._ask(questions.REJOIN)

    def fail(self, error: KitError, patience_s: float) -> KitError | None:
        """Report that this member cannot go on.

        Returns what the training failed with; None if that is not clear after
        `patience_s`, or if it goes on without this member.
        """
        return self._ask(questions.FAIL, patience_s=patience_s, error=error)

    def leave(self) -> None:
        """Say that this member ends in good order."""
        self._ask(questions.LEAVE)

    def copied(self, step: int) -> None:
        """Say that this member's copy before `step` is in another task's memory."""
        self._ask(questions.COPIED, step=step)

    def kept(self) -> bytes:
        """Ask what this member's step function had kept by the checkpoint."""
        return self._ask(questions.KEPT)

    def where(self, key: Key) -> ShardPath:
        """Ask where the shard of a checkpoint belongs."""
        return self._ask(questions.WHERE, key=key)

    def collect(self, key: Key, offset: int, block: Any) -> None:
        """Have a block of a shard written on the coordinator's host."""
        self._ask(questions.COLLECT, block, key=key, offset=offset)

    def wrote(self, key: Key, entry: Any, wrong: str) -> None:
        """Hand in the entry of a shard, as plain data, or why there is none."""
        # In the blob: it is as long as there are parameters.
        self._ask(questions.WROTE, json.dumps(entry).encode(), key=key, wrong=wrong)

    def close(self) -> None:
        """Let go of the links."""
        self._way.close()

    def _ask(
        self,
        question: MemberQuestion[Reply],
        blob: Buffer = b"",
        patience_s: float | None = None,
        **values: Any,
    ) -> Reply:
        limit_s = _PATIENCE_S if patience_s is None else patience_s
        return self._way.ask(question, values, blob, limit_s)
