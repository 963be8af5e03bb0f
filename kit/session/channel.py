"""A link that belongs to one run at a time: parcels both ways, until an answer ends it.

    begins with   {"op": "segment.run", ...} and the feeds
    either way    {"edge": [op, output]} and a tensor
    ends with     {"done": ...} and the fetches, or {"error": ...}

Both ends may have much to send at once. A large tensor is therefore sent by a thread of
its own, so that this end goes on reading and the other can go on too.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kit.errors import DeadlineExceededError, InternalError, KitError, from_plain
from kit.graph.dtypes import Array
from kit.graph.node import Edge
from kit.parcel import pack, unpack
from kit.session.step import LOOK_S, Step
from kit.wire.link import Link

# What surely fits into the buffers of a socket, whoever reads.
_SMALL_BYTES: Final = 64 * 1024


def send_parcel(
    link: Link, meta: Mapping[str, Any], arrays: Sequence[Array], deadline_s: float
) -> None:
    """Send plain data and arrays as one frame; raises as `Link.send` does."""
    link.send(*pack(meta, arrays), deadline_s=deadline_s)


def recv_parcel(link: Link, deadline_s: float) -> tuple[dict[str, Any], list[Array]]:
    """Return the next parcel; raises as `Link.recv` does."""
    _, body = link.recv(deadline_s=deadline_s)
    return unpack(body)


class Channel:
    """One end of a link during one run. Only the run's own thread receives."""

    def __init__(self, link: Link) -> None:
        """Use an idle link."""
        self.link = link
        self._tensors: dict[Edge, Array | None] = {}
        self._answer: tuple[dict[str, Any], list[Array]] | None = None
        self._senders: list[threading.Thread] = []
        self._failure: KitError | None = None

    def send_tensor(self, edge: Edge, value: Array | None, deadline_s: float) -> None:
        """Send a tensor (None: only that its op is done)."""
        arrays = [] if value is None else [value]
        if value is None or value.nbytes <= _SMALL_BYTES:
            send_parcel(self.link, {"edge": edge}, arrays, deadline_s)
            return
        sender = threading.Thread(
            target=self._send_large, args=(edge, arrays, deadline_s), daemon=True
        )
        self._senders.append(sender)
        sender.start()

    def receive(self, step: Step, edge: Edge) -> Array | None:
        """Return a tensor; raises the error that the other end answered instead."""
        while edge not in self._tensors:
            if self._answer is not None:
                raise self._in_place_of(edge)
            self._read(step, f"{edge[0]!r} from {self.link.peer}")
        return self._tensors.pop(edge)

    def answer(self, step: Step) -> tuple[dict[str, Any], list[Array]]:
        """Return what ends the run; raises it if it is an error."""
        while self._answer is None:
            self._read(step, f"the answer of {self.link.peer}")
        meta, arrays = self._answer
        if "error" in meta:
            raise from_plain(meta["error"])
        return meta, arrays

    @property
    def is_answered(self) -> bool:
        """Whether the other end has ended the run."""
        return self._answer is not None

    def failure(self) -> KitError | None:
        """Return the error that ended the run, None if none has."""
        meta = self._answer[0] if self._answer else {}
        return from_plain(meta["error"]) if "error" in meta else None

    def peek(self) -> None:
        """Take in what has arrived, without waiting; raises `LinkLost`."""
        try:
            while self._answer is None:
                self._take(*recv_parcel(self.link, 0.0))
        except DeadlineExceededError:
            return

    def settle(self, deadline_s: float) -> None:
        """Wait for what is still being sent; raises what went wrong with it."""
        for sender in self._senders:
            sender.join(deadline_s)
        if self._failure is not None:
            raise self._failure

    def _send_large(
        self, edge: Edge, arrays: Sequence[Array], deadline_s: float
    ) -> None:
        try:
            send_parcel(self.link, {"edge": edge}, arrays, deadline_s)
        except KitError as error:
            self._failure = error

    def _read(self, step: Step, what: str) -> None:
        try:
            meta, arrays = recv_parcel(self.link, min(LOOK_S, step.left_s))
        except DeadlineExceededError:
            step.check(what)
            return
        self._take(meta, arrays)

    def _take(self, meta: dict[str, Any], arrays: list[Array]) -> None:
        if "edge" in meta:
            name, number = meta["edge"]
            self._tensors[str(name), int(number)] = arrays[0] if arrays else None
        else:
            self._answer = meta, arrays

    def _in_place_of(self, edge: Edge) -> KitError:
        assert self._answer is not None
        meta, _ = self._answer
        if "error" in meta:
            return from_plain(meta["error"])
        return InternalError(f"{self.link.peer} ended its run without sending {edge}.")
