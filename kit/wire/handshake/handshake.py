"""How two tasks prove to each other that they hold the cluster's key.

Pure: bytes in, bytes out. The caller brings connection, deadline and random nonces.

    client                                   server
      Hello  128 bytes: version, who, nonce  -->
             <--  Reply  128 bytes: version, who, nonce, mac of both
      Proof   40 bytes: mac                  -->
             <--  Verdict 40 bytes: mac

Everything has a fixed size, so a stranger cannot make either side allocate. Each mac is
HMAC-SHA256 over a label of its own and all bytes exchanged before it: none can be
replayed, reflected or moved to another connection, and nobody in between can bring the
version down. To refuse, a side puts a code instead of a mac into Reply, Proof or
Verdict; that says why, and nothing else. The byte tables are in `PROTOCOL.md`.

It gives no secrecy: between machines all of it happens inside TLS.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any, Final

from kit.errors import (
    AuthenticationFailed,
    InvalidArgumentError,
    KitError,
    ProtocolError,
    UnavailableError,
    VersionMismatch,
)
from kit.task import Task
from kit.wire.handshake.messages import (
    HELLO,
    PROOF,
    REPLY,
    VERDICT,
    Hello,
    Refusal,
    Shape,
    Versions,
    pack_hello,
    pack_reply,
    pack_short,
    unpack_hello,
    unpack_reply,
    unpack_short,
)

VERSIONS: Final = Versions(newest=1, oldest=1)
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 32


class Handshake:
    """What both sides share: collect `wanted` bytes, then act on the whole message.

    After each call of `feed`, also one that raised, send what `outgoing` returns.
    """

    def __init__(
        self,
        *,
        key: bytes,
        cluster_id: bytes,
        nonce: bytes,
        versions: Versions = VERSIONS,
    ) -> None:
        if (len(key), len(cluster_id), len(nonce)) != (KEY_BYTES, 16, NONCE_BYTES):
            raise InvalidArgumentError(
                f"a handshake takes a key of {KEY_BYTES}, a cluster id of 16 and a "
                f"nonce of {NONCE_BYTES} bytes, not {len(key)}, {len(cluster_id)} and "
                f"{len(nonce)}."
            )
        self.done = False
        self._key, self._nonce = key, nonce
        self._cluster_id, self._versions = cluster_id, versions
        self._out, self._in = bytearray(), bytearray()
        self._transcript = b""
        # A plain function, not a bound method: that would refer back to this object,
        # and the cycle would keep the key in memory until a garbage collection.
        self._awaited: tuple[Shape, Callable[[Any, bytes], None]]

    @property
    def wanted(self) -> int:
        """How many bytes are still to come before this side can go on."""
        return 0 if self.done else self._awaited[0].size - len(self._in)

    def outgoing(self) -> bytes:
        """Return what must be sent now; it is not returned again."""
        out = bytes(self._out)
        self._out.clear()
        return out

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take at most `wanted` bytes that came from the other side.

        Raises `ProtocolError` on bytes of another protocol (from the first byte on),
        `VersionMismatch`, `AuthenticationFailed`, or `UnavailableError` when the other
        side has no room.
        """
        if len(data) > self.wanted:
            raise ProtocolError(
                f"{len(data)} bytes came where the handshake has room for "
                f"{self.wanted}; the other side does not speak this protocol."
            )
        self._in += data
        shape, act = self._awaited
        # At once, not with the whole message: a peer that speaks another protocol may
        # never send as many bytes as we wait for.
        if not shape.magic.startswith(self._in[:4]):
            raise ProtocolError(_stranger(bytes(self._in)))
        if len(self._in) == shape.size:
            message = bytes(self._in)
            self._in.clear()  # first: `act` may raise, and what it awaits begins empty
            act(self, message)

    def _mac(self, label: bytes) -> bytes:
        text = b"psring handshake 1: " + label + b"\0" + self._transcript
        return hmac.digest(self._key, text, "sha256")

    def _send(self, message: bytes) -> None:
        self._out += message
        self._transcript += message


class ClientHandshake(Handshake):
    """The side that opened the connection. Afterwards `peer` names the other one."""

    peer: Task

    def __init__(
        self,
        hello: Hello,
        *,
        key: bytes,
        cluster_id: bytes,
        nonce: bytes,
        versions: Versions = VERSIONS,
    ) -> None:
        super().__init__(key=key, cluster_id=cluster_id, nonce=nonce, versions=versions)
        self._send(pack_hello(hello, versions, cluster_id, nonce))
        self._awaited = (REPLY, ClientHandshake._on_reply)

    def _on_reply(self, message: bytes) -> None:
        reply = unpack_reply(message)
        # A refusal comes without a mac and needs none: it can only end this connection,
        # which anybody who can write to it can do anyway.
        if reply.refusal:
            raise _refused(reply.refusal, self._versions, reply.versions)
        # The newest version of a Reply is the one that the server has chosen.
        if not self._versions.oldest <= reply.versions.newest <= self._versions.newest:
            raise _refused(Refusal.VERSION, self._versions, reply.versions)
        # The server proves itself first, so the client never shows a mac to a stranger
        # who happens to listen at this address.
        self._transcript += message[: -len(reply.mac)]
        if not hmac.compare_digest(reply.mac, self._mac(b"server")):
            # The server learns why. The mac is zeros: what has proved nothing gets no
            # proof.
            self._out += pack_short(PROOF, Refusal.KEY, bytes(32))
            raise AuthenticationFailed(_WRONG_KEY)
        self.peer = reply.task
        self._transcript += reply.mac
        # Each mac has its own label: a server's mac sent back to it is not a Proof.
        self._send(pack_short(PROOF, Refusal.NONE, self._mac(b"client")))
        self._awaited = (VERDICT, ClientHandshake._on_verdict)

    def _on_verdict(self, message: bytes) -> None:
        refusal, mac = unpack_short(VERDICT, message)
        if refusal:
            raise _refused(refusal, self._versions, self._versions)
        if not hmac.compare_digest(mac, self._mac(b"admitted")):
            raise AuthenticationFailed(_WRONG_KEY)
        self.done = True


class ServerHandshake(Handshake):
    """The side that accepted the connection. Afterwards `hello` says who came."""

    hello: Hello

    def __init__(
        self,
        task: Task,
        *,
        key: bytes,
        cluster_id: bytes,
        nonce: bytes,
        busy: bool = False,
        versions: Versions = VERSIONS,
    ) -> None:
        super().__init__(key=key, cluster_id=cluster_id, nonce=nonce, versions=versions)
        self._task, self._busy = task, busy
        self._awaited = (HELLO, ServerHandshake._on_hello)

    def _on_hello(self, message: bytes) -> None:
        # Even before it is known what it says: the mac of the Reply covers it, so that
        # a Hello changed on the way (older versions, another role) fails at the client.
        self._transcript = message
        theirs = Versions.of_hello(message)
        agreed = min(theirs.newest, self._versions.newest)
        if agreed < max(theirs.oldest, self._versions.oldest):
            # The rest of the message may mean something else in that version.
            raise self._refuse(Refusal.VERSION, theirs)
        hello, cluster_id = unpack_hello(message)
        if not hmac.compare_digest(cluster_id, self._cluster_id):
            raise self._refuse(Refusal.CLUSTER, theirs)
        # After the cluster: a client at the wrong address must not be told to try
        # again.
        if self._busy:
            raise self._refuse(Refusal.BUSY, theirs)
        self.hello = hello
        # Our nonce makes this Reply unlike any other, so a Proof recorded earlier does
        # not fit it.
        versions = Versions(agreed, self._versions.oldest)
        self._send(pack_reply(versions, self._task, self._nonce))
        self._send(self._mac(b"server"))
        self._awaited = (PROOF, ServerHandshake._on_proof)

    def _on_proof(self, message: bytes) -> None:
        refusal, mac = unpack_short(PROOF, message)
        if refusal:
            raise _refused(refusal, self._versions, self._versions)
        if not hmac.compare_digest(mac, self._mac(b"client")):
            self._out += pack_short(VERDICT, Refusal.KEY, bytes(32))
            raise AuthenticationFailed(_WRONG_KEY)
        self._transcript += message
        self._send(pack_short(VERDICT, Refusal.NONE, self._mac(b"admitted")))
        self.done = True

    def _refuse(self, refusal: Refusal, theirs: Versions) -> KitError:
        # To somebody who has proved nothing: neither the name of this task nor a mac,
        # which could be used elsewhere.
        self._out += pack_reply(
            self._versions, Task("", 0), bytes(NONCE_BYTES), refusal
        ) + bytes(32)
        return _refused(refusal, self._versions, theirs)


_WRONG_KEY: Final = (
    "the other side does not hold this cluster's key. It belongs to another start of "
    "the cluster, or to somebody else; restart it from the notebook."
)


def _refused(refusal: Refusal, ours: Versions, theirs: Versions) -> KitError:
    """Return the error that a refusal means; both sides raise the same."""
    if refusal is Refusal.VERSION:
        behind = "this side" if ours.newest < theirs.newest else "the other side"
        return VersionMismatch(
            f"this side speaks versions {ours} of the protocol, the other side "
            f"{theirs}. Run 'pip install --upgrade psring' on {behind}, so that both "
            f"have the same release."
        )
    if refusal is Refusal.CLUSTER:
        return AuthenticationFailed(
            "the two sides belong to different clusters. The address is that of "
            "another cluster, perhaps an older one; ask this cluster for its addresses."
        )
    if refusal is Refusal.BUSY:
        return UnavailableError(
            "the other side has as many new connections as it takes; try again."
        )
    return AuthenticationFailed(_WRONG_KEY)


def _stranger(data: bytes) -> str:
    if data[:1] == b"\x16":
        return (
            f"the other side speaks TLS ({data[:4].hex()}), this side does not. Use "
            f"the same setting of 'insecure' and the same credentials on both."
        )
    return (
        f"something else speaks here: the first bytes are {data[:4]!r}, not those of a "
        f"handshake. Check host and port; a web browser or server does not belong here."
    )
