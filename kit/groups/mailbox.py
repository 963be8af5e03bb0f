"""Messages from task to task, kept where they go until somebody receives them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from kit.errors import ResourceExhaustedError
from kit.groups.values import Form
from kit.wire.frame import Buffer

_MOST_BYTES = 1 << 30
_LOOK_S = 0.05


@dataclass(frozen=True)
class Parcel:
    """A message that has come, not unpacked yet."""

    generation: int
    source: int
    tag: int
    form: Form
    data: Buffer
    posted: int  # when it was handed over, and when it may be used (ns)
    usable: int
    sent: int = 0  # when the sender began, by our clock

    def to_plain(self) -> list[int]:
        """Return all but its content."""
        at = self.source, self.tag, self.generation
        return [*at, len(self.data), self.sent, self.usable]

    def fits(self, generation: int, source: int | None, tag: int | None) -> bool:
        """Whether it is what somebody waits for; None takes any."""
        return (
            self.generation == generation
            and source in (None, self.source)
            and tag in (None, self.tag)
        )


class Mailbox:
    """What has come for one task in one group, in the order of its coming."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._parcels: list[Parcel] = []
        self._n_bytes = 0
        self._clock = clock
        self.changed = threading.Condition()

    def put(self, parcel: Parcel) -> None:
        """Keep a message; `ResourceExhaustedError` if too much is kept already."""
        size = len(parcel.data)
        with self.changed:
            if self._n_bytes and self._n_bytes + size > _MOST_BYTES:
                raise ResourceExhaustedError(
                    f"{len(self._parcels)} messages with {self._n_bytes:,} bytes wait "
                    f"there for a receive(). Receive some before more are sent."
                )
            self._parcels.append(parcel)
            self._n_bytes += size
            self.changed.notify_all()

    @property
    def kept(self) -> tuple[Parcel, ...]:
        """What lies here."""
        with self.changed:
            return tuple(self._parcels)

    def find(
        self, generation: int, source: int | None, tag: int | None
    ) -> Parcel | None:
        """Return the first message that fits, and leave it."""
        with self.changed:
            return self._find(generation, source, tag)

    def take(
        self,
        generation: int,
        source: int | None,
        tag: int | None,
        check: Callable[[], None],
        deadline: float,
    ) -> Parcel | None:
        """Wait for the first message that fits, and take it; None after the deadline.

        `check` is called again and again; what it raises ends the wait.
        """
        while True:
            with self.changed:
                parcel = self._find(generation, source, tag)
                rest_s = _LOOK_S
                if parcel is not None:
                    rest_s = (parcel.usable - self._clock()) * 1e-9
                    if rest_s <= 0:
                        self._parcels.remove(parcel)
                        self._n_bytes -= len(parcel.data)
                        return parcel
                check()
                if time.monotonic() > deadline:
                    return None
                self.changed.wait(min(rest_s, _LOOK_S))

    def empty(self) -> list[Parcel]:
        """Return what lies here, and forget it."""
        with self.changed:
            parcels, self._parcels, self._n_bytes = self._parcels, [], 0
            return parcels

    def drop_before(self, generation: int) -> None:
        """Forget what was sent before a failure."""
        with self.changed:
            kept = [
                parcel for parcel in self._parcels if parcel.generation >= generation
            ]
            self._parcels = kept
            self._n_bytes = sum(len(parcel.data) for parcel in kept)

    def wake(self) -> None:
        """Let those that wait check again."""
        with self.changed:
            self.changed.notify_all()

    def _find(
        self, generation: int, source: int | None, tag: int | None
    ) -> Parcel | None:
        return next((p for p in self._parcels if p.fits(generation, source, tag)), None)
