"""What members ask the coordinator: each question once, with its fields and its answer.

Theory of operation
    A question is a row of the table: the fields of its message, the function that
    answers it, and how the answer travels. The member in the coordinator's own process
    has its answer from that function; the others send a message, which is checked by
    the same fields and answered by the same function (`kit.server.handlers`). So both
    ways give the same, and a new question is one row and one method of
    `CoordinatorClient`.

    Answers that `wait` for other members come after `Patience`, as "ask again". Those
    that are `large` travel on a link of their own, so as not to hold up heartbeats.

    arrive  prepared  beat  fail  leave      of every member
    come_back  rejoin                        of one that was lost, by its new process
    copied                                   of one with copies in other tasks' memory
    kept  where  collect  wrote              of one that writes checkpoints
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kit.errors import KitError, from_plain, to_plain
from kit.message_fields import (
    ERROR,
    Fields,
    list_of,
    maybe,
    optional,
    read_as,
    row_of,
    text,
    whole,
)
from kit.training.core.agreement import Answer
from kit.training.core.coordinator import HungUp, Patience, TrainingCoordinator
from kit.training.core.digests import DigestReport
from kit.training.data.agreement import DataReport
from kit.wire.frame import Buffer
from kit.wire.message import unpack_text

Message = tuple[dict[str, Any], Buffer]
Reply = TypeVar("Reply")


class HeartbeatReply(NamedTuple):
    """The answer to a heartbeat.

    What the training failed with, and the members that it goes on without, as known in
    an epoch.
    """

    error: KitError | None
    lost: frozenset[int]
    epoch: int


#: The step, and the boundary at which the save was agreed; 0 for those that all know.
Key = tuple[int, int]


class ShardPath(NamedTuple):
    """Where a writer writes: a path, or none because it has to wait or give up."""

    state: str  # "write", "wait" or "drop"
    path: str = ""


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
DECISION: Final = ReplyCodec[Answer](
    lambda answer: (answer.to_plain(), b""), lambda plain, _: Answer.from_plain(plain)
)
RETURN: Final = ReplyCodec[tuple[Answer, int]](
    lambda reply: ({**reply[0].to_plain(), "number": reply[1]}, b""),
    lambda plain, _: (Answer.from_plain(plain), int(plain["number"])),
)
FAILURE: Final = ReplyCodec[KitError | None](_with_error, _error_in)
HEARTBEAT: Final = ReplyCodec[HeartbeatReply](
    lambda reply: _with_error(reply.error, lost=sorted(reply.lost), epoch=reply.epoch),
    lambda plain, _: HeartbeatReply(
        _error_in(plain), frozenset(map(int, plain["lost"])), int(plain["epoch"])
    ),
)
SHARD_PATH: Final = ReplyCodec[ShardPath](
    lambda path: (path._asdict(), b""),
    lambda plain, _: ShardPath(str(plain["state"]), str(plain["path"])),
)


@dataclass(frozen=True)
class MemberQuestion(Generic[Reply]):
    """A question: its message, what answers it, and how the answer travels.

    Attributes:
        name: of the question; that of its message is "run." and this.
        fields: of the message, besides run, member and incarnation.
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

    @property
    def is_of_a_new_process(self) -> bool:
        """Whether the process that asks is newer than the one that is known."""
        return "incarnation" in self.fields

    def ask(
        self,
        coordinator: TrainingCoordinator,
        member: int,
        values: Mapping[str, Any],
        blob: Buffer,
        patience: Patience,
    ) -> Reply:
        """Return the coordinator's answer to a member."""
        named = {name: values[name] for name in self.fields if name in values}
        if self.waits:
            named["patience_s"] = patience.seconds
            named["has_hung_up"] = patience.has_hung_up
        if self.has_blob:
            named["blob"] = blob
        return self.answer(coordinator, member, **named)


_DIGEST: Final = row_of(whole(0), whole(0, 2**32 - 1))  # whose share, and its CRC-32
_REPORT: Final = row_of(whole(0), whole(0), whole(-1), list_of(_DIGEST))
_NUMBER: Final = {"number": whole(0)}  # of a boundary
_KEY: Final = {"key": row_of(whole(0), whole(0))}  # of a checkpoint


def _beat(
    coordinator: TrainingCoordinator,
    member: int,
    digests: Sequence[DigestReport] = (),
    data: Sequence[DataReport] = (),
) -> HeartbeatReply:
    coordinator.compare(member, digests)
    coordinator.compare_data(member, data)
    error = coordinator.beat(member)
    return HeartbeatReply(error, *coordinator.losses)


def _fail(
    coordinator: TrainingCoordinator,
    member: int,
    error: KitError,
    patience_s: float,
    has_hung_up: HungUp,
) -> KitError | None:
    return coordinator.fail(error, by=member, patience_s=patience_s)


def _where(coordinator: TrainingCoordinator, member: int, key: Key) -> ShardPath:
    found: ShardPath = coordinator.save_coordinator.where(key)
    return found


def _collect(
    coordinator: TrainingCoordinator, member: int, key: Key, offset: int, blob: Buffer
) -> None:
    coordinator.save_coordinator.collect(member, key, offset, blob)


def _wrote(
    coordinator: TrainingCoordinator, member: int, key: Key, wrong: str, blob: Buffer
) -> None:
    entry = None if wrong else unpack_text(bytes(blob))
    coordinator.save_coordinator.wrote(member, key, entry, wrong)


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
    "beat",
    {"digests": optional(_REPORTS), "data": optional(_DATA)},
    _beat,
    HEARTBEAT,
)
FAIL: Final = MemberQuestion("fail", {"error": ERROR}, _fail, FAILURE, waits=True)
LEAVE: Final = MemberQuestion("leave", {}, TrainingCoordinator.leave, NOTHING)
COME_BACK: Final = MemberQuestion(
    "come_back",
    {"process": text(100), "incarnation": whole(0)},
    TrainingCoordinator.come_back,
    NOTHING,
)
REJOIN: Final = MemberQuestion(
    "rejoin", {}, TrainingCoordinator.rejoin, RETURN, waits=True
)
COPIED: Final = MemberQuestion(
    "copied", {"step": whole(0)}, TrainingCoordinator.copied, NOTHING
)
KEPT: Final = MemberQuestion("kept", {}, TrainingCoordinator.kept, BLOB, is_large=True)
WHERE: Final = MemberQuestion("where", _KEY, _where, SHARD_PATH, is_large=True)
COLLECT: Final = MemberQuestion(
    "collect",
    {**_KEY, "offset": whole(0)},
    _collect,
    NOTHING,
    has_blob=True,
    is_large=True,
)
WROTE: Final = MemberQuestion(
    "wrote", {**_KEY, "wrong": text()}, _wrote, NOTHING, has_blob=True, is_large=True
)
QUESTIONS: Final[Sequence[MemberQuestion[Any]]] = (
    *(ARRIVE, PREPARED, BEAT, FAIL, LEAVE, COME_BACK, REJOIN),
    *(COPIED, KEPT, WHERE, COLLECT, WROTE),
)
