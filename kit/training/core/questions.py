"""What members ask the coordinator: each question once, with its fields and its answer.

Theory of operation
    A question is a row of the table: the fields of its message, the function that
    answers it, and how the answer travels. The member in the coordinator's own process
    has its answer from that function; the others send a message, which is checked by
    the same fields and answered by the same function (`kit.server.handlers`). So both
    ways give the same, and a new question is one row and one method of
    `CoordinatorClient`.

    Answers that `wait` for other members come after a while as "ask again". Those
    that are `large` travel on a link of their own, so as not to hold up heartbeats.

    arrive  prepared  beat  fail  leave      of every member
    copied                                   of one with copies in other tasks' memory

    Features ask by rows of their own (`all_questions`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kit.arithmetic import MOST_THREADS
from kit.errors import DeadlineExceededError, KitError, LinkLost, from_plain, to_plain
from kit.features import load_if_there
from kit.message_fields import (
    ERROR,
    Fields,
    check,
    flag,
    list_of,
    maybe,
    optional,
    read_as,
    row_of,
    text,
    whole,
)
from kit.settings import Settings
from kit.training.core.agreement import BoundaryReply
from kit.training.core.coordinator import HungUp, TrainingCoordinator, never
from kit.training.core.digests import DigestReport
from kit.training.data.agreement import DataReport
from kit.wire.frame import Buffer
from kit.wire.rpc import Caller, ReconnectingCaller

Message = tuple[dict[str, Any], Buffer]
Reply = TypeVar("Reply")


class HeartbeatReply(NamedTuple):
    """The answer to a heartbeat.

    What the training failed with, and the members that it goes on without.
    """

    error: KitError | None
    lost: frozenset[int]


class ReplyCodec(NamedTuple, Generic[Reply]):
    """How an answer becomes a message, and is read from it again."""

    pack: Callable[[Reply], Message]
    read: Callable[[dict[str, Any], Buffer], Reply]


def _error_in(plain: Mapping[str, Any], _: Buffer = b"") -> KitError | None:
    return from_plain(plain["error"]) if plain["error"] else None


def _with_error(error: KitError | None, **values: Any) -> Message:
    return {"error": to_plain(error) if error else None, **values}, b""


NOTHING: Final = ReplyCodec[None](lambda _: ({}, b""), lambda *_: None)
BLOB: Final = ReplyCodec[bytes](lambda kept: ({}, kept), lambda _, blob: bytes(blob))
DECISION: Final = ReplyCodec[BoundaryReply](
    lambda answer: (answer.to_plain(), b""),
    lambda plain, _: BoundaryReply.from_plain(plain),
)
FAILURE: Final = ReplyCodec[KitError | None](_with_error, _error_in)
HEARTBEAT: Final = ReplyCodec[HeartbeatReply](
    lambda reply: _with_error(reply.error, lost=sorted(reply.lost)),
    lambda plain, _: HeartbeatReply(
        _error_in(plain), frozenset(map(int, plain["lost"]))
    ),
)


@dataclass(frozen=True)
class MemberQuestion(Generic[Reply]):
    """A question: its message, what answers it, and how the answer travels.

    Attributes:
        name: of the question; that of its message is "run." and this.
        fields: of the message, besides run and member.
        answer: what it asks of the coordinator: a function of that, the member, and the
            values by name.
        reply: how the answer travels.
        waits: whether the answer may have to wait for other members; then `patience_s`
            and `has_hung_up` are among the values.
        has_blob: whether the blob of the message is.
        is_large: whether it may take as long as a block of a checkpoint.
    """

    name: str
    fields: Fields
    answer: Callable[..., Reply]
    reply: ReplyCodec[Reply]
    waits: bool = False
    has_blob: bool = False
    is_large: bool = False

    def ask(
        self,
        coordinator: TrainingCoordinator,
        member: int,
        values: Mapping[str, Any],
        blob: Buffer,
        patience_s: float,
        has_hung_up: HungUp = never,
    ) -> Reply:
        """Return the coordinator's answer to a member; see `waits`."""
        named = {name: values[name] for name in self.fields if name in values}
        if self.waits:
            named |= {"patience_s": patience_s, "has_hung_up": has_hung_up}
        if self.has_blob:
            named["blob"] = blob
        return self.answer(coordinator, member, **named)


_DIGEST: Final = row_of(whole(0), whole(0, 2**32 - 1))  # whose share, and its CRC-32
_REPORT: Final = row_of(whole(0), whole(0), whole(-1), list_of(_DIGEST))
_NUMBER: Final = {"number": whole(0)}  # of a boundary


def _beat(
    coordinator: TrainingCoordinator,
    member: int,
    digests: Sequence[DigestReport] = (),
    data: Sequence[DataReport] = (),
) -> HeartbeatReply:
    coordinator.compare(member, digests)
    coordinator.compare_data(member, data)
    error = coordinator.beat(member)
    return HeartbeatReply(error, coordinator.lost)


def _fail(
    coordinator: TrainingCoordinator,
    member: int,
    error: KitError,
    patience_s: float,
    has_hung_up: HungUp,
) -> KitError | None:
    return coordinator.fail(error, by=member, patience_s=patience_s)


ARRIVE: Final = MemberQuestion(
    "arrive",
    {**_NUMBER, "step": whole(0)},
    TrainingCoordinator.arrive,
    DECISION,
    waits=True,
)
PREPARED: Final = MemberQuestion(
    "prepared",
    {**_NUMBER, "refusal": maybe(text())},
    TrainingCoordinator.prepared,
    DECISION,
    waits=True,
)
_REPORTS: Final = list_of(read_as(_REPORT, DigestReport.from_plain))
_READ: Final = row_of(whole(0), whole(0), whole(0), whole(-1), whole(0, 2**32 - 1))
_DATA: Final = list_of(read_as(_READ, DataReport.from_plain))
BEAT: Final = MemberQuestion(
    "beat", {"digests": optional(_REPORTS), "data": optional(_DATA)}, _beat, HEARTBEAT
)
FAIL: Final = MemberQuestion("fail", {"error": ERROR}, _fail, FAILURE, waits=True)
LEAVE: Final = MemberQuestion("leave", {}, TrainingCoordinator.leave, NOTHING)
COPIED: Final = MemberQuestion(
    "copied", {"step": whole(0)}, TrainingCoordinator.copied, NOTHING
)
QUESTIONS: Final[Sequence[MemberQuestion[Any]]] = (
    ARRIVE,
    PREPARED,
    BEAT,
    FAIL,
    LEAVE,
    COPIED,
)


def all_questions() -> Sequence[MemberQuestion[Any]]:
    """Return these questions, and those of the features that are there."""
    saves = load_if_there("kit.training.features.checkpointing.questions:QUESTIONS")
    return (*QUESTIONS, *(saves or ()))


# --------------------------------------------------------------------------------------
# How a member asks the coordinator: in the same process, or across a link.


_BEGUN: Final = {"begun": flag(), "threads": whole(0, MOST_THREADS)}
PATIENCE_S = 2.0  # how long the coordinator keeps a question before it says WAIT


class CoordinatorClient:
    """What a member asks of the coordinator. All raise the training's failure.

    Attributes:
        threads: of BLAS, which all members compute with; known once it has begun.
    """

    threads = 0

    def ask(
        self,
        question: MemberQuestion[Reply],
        blob: Buffer = b"",
        patience_s: float = PATIENCE_S,
        **values: Any,
    ) -> Reply:
        """Ask a question; its `values` by name."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the links, if there are any."""

    def arrive(self, number: int, step: int) -> BoundaryReply:
        """Come to boundary `number`, before `step`."""
        return self.ask(ARRIVE, number=number, step=step)

    def prepared(self, number: int, refusal: str | None) -> BoundaryReply:
        """Report that the proposal was prepared, or why not."""
        return self.ask(PREPARED, number=number, refusal=refusal)

    def beat(
        self, digests: Sequence[DigestReport] = (), data: Sequence[DataReport] = ()
    ) -> HeartbeatReply:
        """Send a heartbeat, with digests of parameters and of what was read.

        Returns what has happened.
        """
        return self.ask(BEAT, digests=digests, data=data)

    def fail(self, error: KitError, patience_s: float) -> KitError | None:
        """Report that this member cannot go on.

        Returns what the training failed with; None if that is not clear after
        `patience_s`, or if it goes on without this member.
        """
        return self.ask(FAIL, patience_s=patience_s, error=error)

    def leave(self) -> None:
        """Say that this member ends in good order."""
        self.ask(LEAVE)

    def copied(self, step: int) -> None:
        """Say that this member's copy before `step` is in another task's memory."""
        self.ask(COPIED, step=step)


class SameProcess(CoordinatorClient):
    """The client of the member in the coordinator's own process."""

    def __init__(self, coordinator: TrainingCoordinator, member: int) -> None:
        self._coordinator, self._member = coordinator, member
        self.threads = coordinator.arithmetic.threads

    def ask(
        self,
        question: MemberQuestion[Reply],
        blob: Buffer = b"",
        patience_s: float = PATIENCE_S,
        **values: Any,
    ) -> Reply:
        """See `CoordinatorClient`."""
        coordinator, member = self._coordinator, self._member
        return question.ask(coordinator, member, values, blob, patience_s)


class OverLinks(CoordinatorClient):
    """The others' client: one link, and a second one where there are checkpoints.

    A block of a checkpoint would hold up heartbeats for as long as it takes to send.
    """

    def __init__(
        self, run: str, member: int, dial: Callable[..., Caller], settings: Settings
    ) -> None:
        """`dial` reaches the coordinator before a point of the monotonic clock.

        With `saves`, also when the training has failed.
        """
        self._about = {"run": run, "member": member}
        self._deadline_s = settings.dead_after_s
        self._control = ReconnectingCaller(dial, settings.redial_after_s)
        # A large block may rightly take long, so this line is not dialled anew as soon;
        # its deadline leaves time for a second attempt.
        self._checkpoints = ReconnectingCaller(
            partial(dial, saves=True), self._deadline_s
        )

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
        blob: Buffer = b"",
        patience_s: float = PATIENCE_S,
        **values: Any,
    ) -> Reply:
        """See `CoordinatorClient`."""
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
