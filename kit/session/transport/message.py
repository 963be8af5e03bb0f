"""What travels on a session link: messages, each the body of one frame.

The fields of the frame's header say what it is, so that a run needs no text at all:

    header   kind DATA, epoch = the act, step, tensor = the number, chunk = milliseconds
    body     plain data, mostly none, and arrays (`serialization.py`)

    ASK      a question {"op": ...}, answered by DONE or FAILED
    RUN      of a client: run plan `number` of session `step`; the feeds
    SEGMENT  of a master: run segment `number` in step `step`; the feeds
    TENSOR   tensor `number` of step `step`, or none: only that its op is done
    LATER    on the link of a SEGMENT: all further tensors come by other links
    DONE     the end of a RUN or SEGMENT: the fetches
    FAILED   the end of any of them: {"error": ...}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kit.errors import ProtocolError, from_plain
from kit.graph.dtypes import Array
from kit.session.transport import shared_tensors
from kit.session.transport.serialization import pack, unpack
from kit.session.transport.shared_tensors import borrow_of, lend_of
from kit.wire.frame import FrameKind
from kit.wire.link import Link

_NOTHING: Final[dict[str, Any]] = {}
_MOST_MS: Final = 2**32 - 1  # 49 days: the field has 32 bits
LONGEST_S: Final = _MOST_MS / 1000  # the limit of a run that has none


class Act(IntEnum):
    """What a message asks for or reports."""

    ASK = 0
    RUN = 1
    SEGMENT = 2
    TENSOR = 3
    LATER = 4
    DONE = 5
    FAILED = 6


class Message(NamedTuple):
    """One message; `limit_s` is the time that a RUN or a SEGMENT may take."""

    act: int
    number: int
    step: int
    limit_s: float
    meta: dict[str, Any]
    arrays: list[Array]


def send(
    link: Link,
    act: Act,
    *,
    deadline_s: float,
    number: int = 0,
    step: int = 0,
    limit_s: float = 0.0,
    meta: Mapping[str, Any] = _NOTHING,
    arrays: Sequence[Array] = (),
) -> None:
    """Send one message; raises as `Link.send` does.

    A body beyond the link's bound raises `InvalidArgumentError`: nothing was sent then,
    and the link is as good as before.
    """
    link.send(
        *pack(meta, arrays, lend_of(link) if arrays else None),
        deadline_s=deadline_s,
        kind=FrameKind.DATA,
        epoch=act,
        step=step,
        tensor=number,
        chunk=min(_MOST_MS, math.ceil(limit_s * 1000)),  # 0 would leave no time at all
    )


def recv(link: Link, deadline_s: float) -> Message:
    """Return the next message; raises as `Link.recv` does, and `ProtocolError`."""
    header, body = link.recv(deadline_s=deadline_s)
    if header.kind != FrameKind.DATA:
        raise ProtocolError(
            f"{link.peer.short} sent a frame of kind {header.kind} on a session link."
        )
    meta, arrays = unpack(body, borrow_of(link))
    limit_s = header.chunk / 1000
    return Message(header.epoch, header.tensor, header.step, limit_s, meta, arrays)


def ask(
    link: Link,
    meta: Mapping[str, Any],
    deadline_s: float,
    arrays: Sequence[Array] = (),
) -> Message:
    """Ask a question on an idle link and return its answer, which may be an error."""
    send(link, Act.ASK, deadline_s=deadline_s, meta=meta, arrays=arrays)
    return recv(link, deadline_s)


def begin_lending(link: Link, arrays: Sequence[Array], deadline_s: float) -> None:
    """Lend large arrays over an idle link from now on, if some of these are large.

    Only for the end that dialled. Raises as `ask` does, and what it answers.
    """
    if shared_tensors.pays(link, arrays):
        good(ask(link, {"op": shared_tensors.OP}, deadline_s))
        shared_tensors.begin(link, deadline_s)


def good(message: Message) -> Message:
    """Return a message; raises the error if it is one."""
    if message.act == Act.FAILED:
        raise from_plain(message.meta.get("error"))
    return message
