"""The four messages of the handshake as bytes: layouts, packing, field checks.

Pure, and without cryptography: `handshake.py` decides what they mean. All sizes are
fixed. The first 8 bytes of a Hello (magic, newest, oldest version) keep their place in
all versions to come.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kit.errors import InvalidArgumentError, KitError, ProtocolError
from kit.task import Task

_JOB_BYTES: Final = 32


class Role(IntEnum):
    """What a link is for."""

    CONTROL = 1  # requests and answers
    DATA = 2  # gradients and parameters
    OBSERVER = 3  # a notebook that looks on
    SESSION = 4  # graphs: questions of clients and masters, tensors of their runs
    COPIES = 5  # of the state of an elastic training, for another task to keep
    GROUP = 6  # data of a group of tasks, which belongs to no training


#: Links of these roles carry arrays between two tasks, and nothing else.
BULK: Final = frozenset((Role.DATA, Role.GROUP))


class Refusal(IntEnum):
    """Why a side says no; NONE where it does not."""

    NONE = 0
    VERSION = 1
    CLUSTER = 2
    KEY = 3
    BUSY = 4


class Versions(NamedTuple):
    """The newest and the oldest version of the protocol that a side speaks."""

    newest: int
    oldest: int

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}"

    @classmethod
    def of_hello(cls, message: bytes) -> Versions:
        """Read them from a Hello of any version."""
        return cls(*struct.unpack_from("<HH", message, 4))


@dataclass(frozen=True, slots=True)
class Hello:
    """The task that opens a connection, and what for.

    `incarnation` counts the starts of the task; `run_id` is 16 bytes naming the
    training that a DATA link belongs to.
    """

    role: Role
    task: Task
    incarnation: int = 0
    run_id: bytes = bytes(16)


class Reply(NamedTuple):
    """The task that answers, or why it refuses."""

    versions: Versions
    refusal: Refusal
    task: Task
    mac: bytes


class Shape(NamedTuple):
    """How a message is recognised, and its size in bytes."""

    magic: bytes
    size: int


# magic, newest, oldest, role, reserved, cluster id, nonce, job, index, incarnation,
# run id, reserved
_HELLO: Final = struct.Struct("<4sHHHH16s32s32sII16s12s")
# magic, version, oldest, refusal, reserved, nonce, job, index, reserved, mac
_REPLY: Final = struct.Struct("<4sHHHH32s32sI16s32s")
_REPLY_LESS_MAC: Final = struct.Struct("<4sHHHH32s32sI16s")
# magic, refusal, reserved, mac
_SHORT: Final = struct.Struct("<4sHH32s")

HELLO: Final = Shape(b"PSRH", _HELLO.size)
REPLY: Final = Shape(b"PSRR", _REPLY.size)
PROOF: Final = Shape(b"PSRP", _SHORT.size)
VERDICT: Final = Shape(b"PSRV", _SHORT.size)


def pack_hello(
    hello: Hello, versions: Versions, cluster_id: bytes, nonce: bytes
) -> bytes:
    """Return the 128 bytes of a Hello.

    Raises `InvalidArgumentError` for a job name or number outside its field.
    """
    if len(hello.run_id) != 16:
        raise InvalidArgumentError(
            f"a run id has 16 bytes, not {len(hello.run_id)}: {hello.run_id!r}."
        )
    try:
        return _HELLO.pack(
            *(HELLO.magic, *versions, hello.role, 0, cluster_id, nonce),
            *(_pack_job(hello.task), hello.task.index, hello.incarnation),
            *(hello.run_id, bytes(12)),
        )
    except struct.error as exc:
        raise InvalidArgumentError(
            f"{hello} does not fit into a Hello ({exc}); task index and incarnation "
            f"are numbers of 32 bits."
        ) from exc


def unpack_hello(message: bytes) -> tuple[Hello, bytes]:
    """Return the Hello and the cluster id; raises `ProtocolError` naming the field."""
    fields = _HELLO.unpack(message)
    role, reserved, cluster_id, _nonce, job, index, incarnation, run_id = fields[3:11]
    if role not in set(Role) or reserved or any(fields[11]):
        raise ProtocolError(
            f"a Hello has role {role} and reserved fields {reserved} and "
            f"{fields[11].hex()}; roles are 1 to {len(Role)}, reserved is zero. "
            f"Install the same psring on both sides."
        )
    task = _unpack_task(job, index)
    return Hello(Role(role), task, incarnation, run_id), cluster_id


def pack_reply(
    versions: Versions, task: Task, nonce: bytes, refusal: Refusal = Refusal.NONE
) -> bytes:
    """Return the first 96 bytes of a Reply: all but its mac."""
    return _REPLY_LESS_MAC.pack(
        *(REPLY.magic, *versions, refusal, 0, nonce),
        *(_pack_job(task), task.index, bytes(16)),
    )


def unpack_reply(message: bytes) -> Reply:
    """Return the Reply, maybe a refusal; raises `ProtocolError` naming the field."""
    fields = _REPLY.unpack(message)
    newest, oldest, refusal, reserved, _nonce, job, index, more, mac = fields[1:]
    versions = Versions(newest, oldest)
    kind = _refusal("Reply", refusal, reserved, any(more))
    # A refusal does not name the task that refuses.
    task = Task("", 0) if kind else _unpack_task(job, index)
    return Reply(versions, kind, task, mac)


def pack_short(shape: Shape, refusal: Refusal, mac: bytes) -> bytes:
    """Return the 40 bytes of a Proof or a Verdict."""
    return _SHORT.pack(shape.magic, refusal, 0, mac)


def unpack_short(shape: Shape, message: bytes) -> tuple[Refusal, bytes]:
    """Return refusal and mac of a Proof or a Verdict."""
    _magic, refusal, reserved, mac = _SHORT.unpack(message)
    return _refusal(shape.magic.decode(), refusal, reserved, False), mac


def _refusal(where: str, code: int, reserved: int, more: bool) -> Refusal:
    if code > max(Refusal) or reserved or more:
        raise ProtocolError(
            f"a {where} has refusal code {code} and reserved field {reserved}; codes "
            f"are 0 to {max(Refusal)}, reserved is zero. Install the same psring on "
            f"both sides."
        )
    return Refusal(code)


def _pack_job(task: Task) -> bytes:
    name = task.job.encode()
    if len(name) > _JOB_BYTES:
        raise InvalidArgumentError(
            f"the job name {task.job!r} has {len(name)} bytes; at most {_JOB_BYTES} "
            f"travel in a handshake. Choose a shorter name."
        )
    return name  # struct fills up with zeros


def _unpack_task(job: bytes, index: int) -> Task:
    try:
        return Task.parse(f"{job.rstrip(bytes(1)).decode()}:{index}")
    except (UnicodeDecodeError, KitError) as exc:
        raise ProtocolError(
            f"a handshake names the job {job!r}, which is not a valid name for a job; "
            f"install the same psring on both sides."
        ) from exc
