"""What writers of checkpoints ask; see `kit.training.core.questions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kit.message_fields import row_of, text, whole
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.questions import BLOB, NOTHING, MemberQuestion, ReplyCodec
from kit.wire.frame import Buffer
from kit.wire.message import unpack_text

#: The step, and the boundary at which the save was agreed; 0 for those that all know.
Key = tuple[int, int]


class ShardPath(NamedTuple):
    """Where a writer writes: a path, or none because it has to wait or give up."""

    state: str  # "write", "wait" or "drop"
    path: str = ""


_SHARD_PATH: Final = ReplyCodec[ShardPath](
    lambda path: (path._asdict(), b""),
    lambda plain, _: ShardPath(str(plain["state"]), str(plain["path"])),
)
_KEY: Final = {"key": row_of(whole(0), whole(0))}


def _kept(coordinator: TrainingCoordinator, member: int) -> bytes:
    store = coordinator.store
    return bytes(store.kept(member)) if store is not None else b""


def _where(coordinator: TrainingCoordinator, member: int, key: Key) -> ShardPath:
    path: ShardPath = coordinator.save_coordinator.where(key)
    return path


def _collect(
    coordinator: TrainingCoordinator, member: int, key: Key, offset: int, blob: Buffer
) -> None:
    coordinator.save_coordinator.collect(member, key, offset, blob)


def _wrote(
    coordinator: TrainingCoordinator, member: int, key: Key, wrong: str, blob: Buffer
) -> None:
    entry = None if wrong else unpack_text(bytes(blob))
    coordinator.save_coordinator.wrote(member, key, entry, wrong)


#: What this member's step function had kept by the checkpoint, packed.
KEPT: Final = MemberQuestion("kept", {}, _kept, BLOB, is_large=True)
#: Where the shard of a checkpoint belongs.
WHERE: Final = MemberQuestion("where", _KEY, _where, _SHARD_PATH, is_large=True)
#: To have a block of a shard written on the coordinator's host.
COLLECT: Final = MemberQuestion(
    "collect",
    {**_KEY, "offset": whole(0)},
    _collect,
    NOTHING,
    has_blob=True,
    is_large=True,
)
#: Takes the entry of a shard, as JSON in the blob, or why there is none.
WROTE: Final = MemberQuestion(
    "wrote", {**_KEY, "wrong": text()}, _wrote, NOTHING, has_blob=True, is_large=True
)
QUESTIONS: Final[Sequence[MemberQuestion[Any]]] = (KEPT, WHERE, COLLECT, WROTE)
