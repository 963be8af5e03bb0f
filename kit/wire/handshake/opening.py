"""From an address to a link: dial or accept, prove the key, and only then talk.

`connect` is the client's side, `welcome` the server's. Both take one deadline for
everything: connecting, TLS and the handshake. If anything fails, nothing stays open.

Theory of operation. Four messages of fixed size (`messages.py`) decide whether a stream
becomes a link. Each side is in one of three states, and in each state reads the bytes
of one message and not one more: what follows belongs to the link.

    client                                     server
    sends Hello                                waits for Hello
    waits for Reply      ◄──── Reply ────      checks it, waits for Proof
    checks it            ───── Proof ───►      checks it: done
    waits for Verdict    ◄─── Verdict ───
    checks it: done

On a data link under TLS the two then agree on keys and leave TLS (`keys.py`).

What is checked, and when. Before a byte is read: on a unix socket, that the other
process belongs to this user, by both sides; on TCP, if the credentials hold a
certificate, that the other side shows this very certificate (`tls.py`). With the first
bytes of a message: its magic, so that a web browser or a TLS client is recognised at
once. With the whole Hello: the versions, before any field that another version may have
moved; then the fields; then the cluster's id. With the Reply: its version, and the
server's mac, before the client shows its own. With the Proof: the client's mac. With
the Verdict: that the server has let it in. Macs are over all bytes exchanged so far, so
what Hello and Reply say about task, role, run and incarnation is trusted once the mac
after it is right. Last, the client checks whether it has reached the `expected` task.

A side that refuses sends the reason, a code and nothing else, and waits half a second
at most for it to leave.

Deadlines. `connect` has its caller's. For an accepted connection the time starts with
`accept`, not with its first byte (`Acceptor`, 5 s): waiting for that byte, waiting for
a place and the handshake itself all count.

Why silent strangers cannot keep others out. A connection that has said nothing costs a
descriptor, and no thread. There is room for a fixed number of those that wait. When the
room is full, one of the origin with the most connections (a user of this machine, or
another machine) makes way: its oldest silent one, or else its oldest. Only a connection
that has sent something gets a thread and one of the places for handshakes; a free place
goes to the origin with the fewest. If none is free, the oldest handshake of the origin
with the most is ended, once it has had a quarter of a second and if that origin has at
least two more than one that waits. So a crowd displaces itself, and a peer of another
origin is let in as long as the crowd comes from fewer origins than there are places.
All of this is decided in `admission.py`, without a clock or a socket.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import Final

from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    KitError,
    LinkLost,
)
from kit.task import Task
from kit.wire.frame import Bounds, cluster_number
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.handshake import (
    NONCE_BYTES,
    ClientHandshake,
    Handshake,
    ServerHandshake,
)
from kit.wire.handshake.keys import ready
from kit.wire.handshake.messages import Hello, Role
from kit.wire.handshake.tls import establish
from kit.wire.link import MAX_BODY, Link
from kit.wire.listening.address import Address
from kit.wire.listening.dialer import dial
from kit.wire.sockets import outlast_cuts
from kit.wire.stream import AES_GCM, Clock, Stream, read_some, write_all

# How long a refusal may take to leave; the peer may be a stranger who never reads.
_REFUSAL_S: Final = 0.5


def connect(
    address: Address,
    hello: Hello,
    credentials: Credentials,
    *,
    deadline_s: float = 5.0,
    expected: Task | None = None,
    insecure: bool = False,
    max_body: int = MAX_BODY,
    checksum: bool = True,
    dead_after_s: float = 10.0,
    encryption: str = AES_GCM,
    clock: Clock = time.monotonic,
) -> Link:
    """Return a link to the task that listens at `address`.

    Raises `UnavailableError` (nobody there, or busy), `AuthenticationFailed` (another
    key, cluster or certificate), `VersionMismatch`, `ProtocolError` (something else
    speaks there), `LinkLost`, `DeadlineExceededError`, and `FailedPreconditionError`
    when another task than the `expected` one answers or has another `encryption`.
    """
    deadline = clock() + deadline_s
    stream = dial(
        address,
        deadline,
        credentials=credentials,
        insecure=insecure,
        dead_after_s=dead_after_s,
        clock=clock,
    )
    handshake = ClientHandshake(
        hello,
        key=credentials.key,
        cluster_id=credentials.cluster_id,
        nonce=secrets.token_bytes(NONCE_BYTES),
    )
    try:
        perform(handshake, stream, deadline, clock)
        _check_expected(handshake.peer, expected, address)
        _suit(stream, hello.role)
        stream = ready(
            *(stream, hello.role, credentials.key),
            encryption=encryption,
            is_client=True,
            deadline=deadline,
            clock=clock,
        )
    except BaseException:
        stream.close()
        raise
    return Link(
        stream,
        local=hello.task,
        peer=handshake.peer,
        role=hello.role,
        bounds=link_bounds(credentials, max_body),
        run_id=hello.run_id,
        incarnation=hello.incarnation,
        checksum=checksum,
        clock=clock,
    )


def welcome(
    stream: Stream,
    local: Task,
    credentials: Credentials,
    *,
    deadline_s: float = 5.0,
    busy: bool = False,
    max_body: int = MAX_BODY,
    checksum: bool = True,
    encryption: str = AES_GCM,
    clock: Clock = time.monotonic,
) -> Link:
    """Return a link over a freshly accepted stream, which is closed on any error.

    With `busy` the peer is told to try again. Raises as `connect` does; the link's
    `role`, `run_id` and `incarnation` are those that the peer gave.
    """
    deadline = clock() + deadline_s
    handshake = ServerHandshake(
        local,
        key=credentials.key,
        cluster_id=credentials.cluster_id,
        nonce=secrets.token_bytes(NONCE_BYTES),
        busy=busy,
    )
    try:
        establish(stream, deadline, clock)
        perform(handshake, stream, deadline, clock)
        _suit(stream, handshake.hello.role)
        stream = ready(
            *(stream, handshake.hello.role, credentials.key),
            encryption=encryption,
            is_client=False,
            deadline=deadline,
            clock=clock,
        )
    except BaseException:
        stream.close()
        raise
    hello = handshake.hello
    return Link(
        stream,
        local=local,
        peer=hello.task,
        role=hello.role,
        bounds=link_bounds(credentials, max_body),
        run_id=hello.run_id,
        incarnation=hello.incarnation,
        checksum=checksum,
        clock=clock,
    )


def link_bounds(credentials: Credentials, max_body: int = MAX_BODY) -> Bounds:
    """Return what a link of this cluster accepts."""
    return Bounds(cluster_number(credentials.cluster_id), max_length=max_body)


def perform(
    handshake: Handshake,
    stream: Stream,
    deadline: float,
    clock: Clock = time.monotonic,
) -> None:
    """Carry out a handshake on a stream; reads not one byte beyond it.

    Raises what the handshake raises, after it has sent the peer the reason, or
    `LinkLost`, `DeadlineExceededError`.
    """
    # No later message is longer than the first one that a side waits for.
    room = memoryview(bytearray(handshake.wanted))
    while True:
        write_all(stream, [handshake.outgoing()], deadline, clock)
        if handshake.done:
            return
        n_bytes = read_some(stream, room[: handshake.wanted], deadline, clock)
        if n_bytes == 0:
            raise LinkLost(
                f"{stream.peer} closed the connection during the handshake. It may be "
                f"stopping, or may have too many new connections; try again."
            )
        try:
            handshake.feed(room[:n_bytes])
        except KitError:
            end = min(deadline, clock() + _REFUSAL_S)
            # That the refusal could not be sent matters less than why it was made.
            with suppress(LinkLost, DeadlineExceededError):
                write_all(stream, [handshake.outgoing()], end, clock)
            raise


def _suit(stream: Stream, role: Role) -> None:
    """Leave it to a training's own signs of life to find out who is dead.

    The links of sessions exchange none, so TCP must notice for them.
    """
    if role is not Role.SESSION:
        outlast_cuts(stream)


def _check_expected(peer: Task, expected: Task | None, address: Address) -> None:
    if expected is not None and peer != expected:
        raise FailedPreconditionError(
            f"{peer.short} answers at {address}, where {expected.short} was expected; "
            f"the list of addresses is out of date.",
            task=str(expected),
        )
