"""What every port must do, as one check that can be run on yours.

One thread holds both ends and pumps them until what was posted has arrived; every wait
has a deadline, in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np

from kit.errors import ProtocolError
from kit.exchange.layout import Layout, Range, Spec, itemsize_of, lay_out
from kit.exchange.plan import GRAD, NEXT
from kit.exchange.ports.memory import Array
from kit.exchange.ports.port import NO_HALT, Arrival, Expected, Port, named
from kit.testing.group import LocalMember

_LARGE = 1 << 20  # elements: more bytes than a socket takes at once
_STEP = 7  # of the senders
_DUE = Expected(GRAD, Range(8, 16), separate=True)
# What differs from it in its size, its beginning, its end, its region, or has nothing.
_UNDUE = (
    Expected(GRAD, Range(8, 12), separate=True),
    Expected(GRAD, Range(8, 32), separate=True),
    Expected(GRAD, Range(16, 24), separate=True),
    Expected(NEXT, Range(8, 16)),
    Expected(GRAD, Range(8, 8), separate=True),
)

MakePorts = Callable[[Layout, int], AbstractContextManager[list[LocalMember]]]


def check_port(make: MakePorts, *, deadline_s: float = 10.0) -> None:
    """Raise `AssertionError` for the first rule that a kind of ports breaks.

    It checks that

    * messages arrive in the order in which they were posted, both ways at once, are
      counted by `n_arrived` until they are taken, and none arrives that was not posted;
    * `window` then shows the sender's numbers, those of a gradient without touching the
      receiver's own; a message without bytes arrives too;
    * a message carries the step and the halt of its sender;
    * `take` says which bytes of which region were posted: a message that is not the one
      that `expect` announced is refused by a `ProtocolError`, or taken as what it is,
      and never as what was due;
    * steps with different messages alternate, as `expect` announced;
    * in a group `expect` announces call after call, of any bytes: what was sent for the
      next call is kept until that one is announced;
    * `post` never waits for the other side, however large a range is, and `is_idle`
      says when all of it has left;
    * what was posted before an end closed can still be taken, and then the other end is
      `lost`.

    Parameters
    ----------
    make : callable
        Called with a layout and the number 2, once for each check. Returns a context
        manager that gives two members linked to each other, as
        `kit.testing.group.local_group` does.
    deadline_s : float, default 10.0
        Seconds that one message may take.

    Raises
    ------
    AssertionError
        With the kind of port, what it did and what was expected.

    Examples
    --------
    >>> from kit.testing import check_port
    >>> from kit.testing.group import local_group
    >>> check_port(local_group)
    """
    small = lay_out([Spec("w", (8,), "float32")], 2)
    large = lay_out([Spec("w", (_LARGE,), "float32")], 2, 4 * _LARGE)
    odd = lay_out([Spec("bytes", (11,), "uint8")], 2)
    checks: tuple[tuple[Callable[[_Ends], None], Layout], ...] = (
        (_Ends.check_order, small),
        (_Ends.check_windows, small),
        (_Ends.check_stamps, small),
        (_Ends.check_steps, small),
        (_Ends.check_calls, odd),
        (_Ends.check_large_ranges, large),
        (_Ends.check_the_end, small),
        *((partial(_Ends.check_account, posted=posted), small) for posted in _UNDUE),
    )
    for check, layout in checks:
        with make(layout, 2) as members:
            check(_Ends(layout, members, deadline_s))


@dataclass(frozen=True)
class _Ends:
    """Both ends of one link."""

    layout: Layout
    members: list[LocalMember]
    deadline_s: float

    def check_order(self) -> None:
        """Send two ranges each way at once."""
        parts = [chunk for chunk in self.layout.buckets[0].chunks if chunk.size]
        for me in (0, 1):
            self.expect(me, [Expected(GRAD, part, separate=True) for part in parts])
            self.fill(me, GRAD)
            if self.port(me).has_arrived() or self.port(me).n_arrived():
                self.fail("a message has arrived before one was posted")
        for number, part in enumerate(parts):
            for me in (0, 1):
                self.port(me).post(GRAD, part)
            for me in (0, 1):
                self.until(
                    "a message that was posted", partial(self.has, me, number + 1)
                )
        for me in (0, 1):
            for number, part in enumerate(parts):
                self.compare(me, GRAD, part, separate=True)
                self.take(me, GRAD, part)
                left, due = self.port(me).n_arrived(), len(parts) - number - 1
                if left != due or self.port(me).has_arrived() != bool(due):
                    self.fail(f"n_arrived is {left} where {due} are not taken yet")

    def check_windows(self) -> None:
        """Send what is kept apart, what is not, and nothing at all."""
        whole = self.layout.buckets[0].range
        sent = [
            Expected(GRAD, whole, separate=True),
            Expected(NEXT, whole),
            Expected(GRAD, Range(0, 0), separate=True),
        ]
        self.expect(1, sent)
        self.fill(0, GRAD)
        self.fill(0, NEXT)
        self.fill(1, GRAD)
        for message in sent:
            self.port(0).post(message.region, message.range)
            self.until(
                f"a message of {message.range.size} bytes", partial(self.has, 1, 1)
            )
            self.compare(1, message.region, message.range, separate=message.separate)
            self.take(1, message.region, message.range)
        own = self.members[1].memory.typed(GRAD, whole)
        if not np.array_equal(own, self.written(1, GRAD)):
            self.fail("the receiver's own gradient is overwritten by the sender's")

    def check_stamps(self) -> None:
        """Send without a halt, with one, and with a later one."""
        part = self.layout.buckets[0].range
        self.expect(1, [Expected(GRAD, part, separate=True)] * 3)
        stamp = self.members[0].endpoint.stamp
        stamp.step = _STEP
        for halt in (NO_HALT, _STEP + 1, _STEP + 3):
            stamp.halt = halt
            self.port(0).post(GRAD, part)
            self.until("a message", partial(self.has, 1, 1))
            stamped = self.port(1).take()[2:4]
            if stamped != (_STEP, halt):
                self.fail(
                    f"a message of step {_STEP} with halt {halt} says (step, halt) "
                    f"{stamped}"
                )

    def check_steps(self) -> None:
        """Send what even and odd steps have, in turn."""
        parts = self.layout.buckets[0].chunks
        scripts = [
            [Expected(GRAD, parts[0], separate=True)],
            [Expected(NEXT, parts[1]), Expected(GRAD, parts[1], separate=True)],
        ]
        self.port(1).expect(scripts, 1)
        self.fill(0, GRAD)
        self.fill(0, NEXT)
        for step in (1, 0, 1):
            for message in scripts[step]:
                self.port(0).post(message.region, message.range)
                self.until("the next step's message", partial(self.has, 1, 1))
                self.compare(
                    1, message.region, message.range, separate=message.separate
                )
                self.take(1, message.region, message.range)

    def check_calls(self) -> None:
        """Send what two calls of a group have, before the second one is announced."""
        calls = [
            [Expected(GRAD, Range(0, 3), separate=True)],
            [
                Expected(NEXT, Range(3, 10)),
                Expected(GRAD, Range(10, 11), separate=True),
            ],
        ]
        self.fill(0, GRAD)
        self.fill(0, NEXT)
        self.expect(1, calls[0])
        for message in (*calls[0], *calls[1]):
            self.port(0).post(message.region, message.range)
        for call in calls:
            self.expect(1, call)
            for message in call:
                self.until("a message of a group's call", self.port(1).has_arrived)
                self.compare(
                    1, message.region, message.range, separate=message.separate
                )
                self.take(1, message.region, message.range)

    def check_large_ranges(self) -> None:
        """Post before anybody reads: a port that waited would wait for ever."""
        part = self.layout.buckets[0].range
        for me in (0, 1):
            self.expect(me, [Expected(GRAD, part, separate=True)])
            self.fill(me, GRAD)
        for me in (0, 1):
            if not self.port(me).is_idle():
                self.fail("is_idle is False before anything was posted")
            self.port(me).post(GRAD, part)
        for me in (0, 1):
            self.until(f"a range of {part.size} bytes", partial(self.has, me, 1))
            self.until("all that was posted to leave", self.port(me).is_idle)
            self.compare(me, GRAD, part, separate=True)

    def check_the_end(self) -> None:
        """Close an end on which something was posted."""
        part = self.layout.buckets[0].range
        self.expect(1, [Expected(GRAD, part, separate=True)] * 2)
        self.fill(0, GRAD)
        self.port(0).post(GRAD, part)
        self.until("all that was posted to leave", self.port(0).is_idle)
        port = self.port(1)
        if port.lost:
            self.fail("an end is lost while the other one is open")
        self.members[0].endpoint.forget(1)
        self.until("what was posted before the end closed", port.has_arrived)
        port.take()
        self.until("an end to be lost when the other one was closed", lambda: port.lost)
        if port.has_arrived():
            self.fail("a message has arrived that nobody posted")

    def check_account(self, posted: Expected) -> None:
        """Post another message than is due."""
        self.expect(1, [_DUE])
        self.fill(0, posted.region)
        self.port(0).post(posted.region, posted.range)
        try:
            self.until("a message that was not due", self.port(1).has_arrived)
            self.take(1, posted.region, posted.range)
        except ProtocolError:
            pass

    # -- both ends ---------------------------------------------------------------------

    def port(self, me: int) -> Port:
        """Return one end."""
        return self.members[me].endpoint.ports[1 - me]

    def expect(self, me: int, messages: list[Expected]) -> None:
        """Say what comes in an even step, which is the next one."""
        self.port(me).expect((messages, []), 0)

    def take(self, me: int, region: int, part: Range) -> None:
        """Take a message, and compare what it says of itself with what was posted."""
        arrival = Arrival(*self.port(me).take())
        if (arrival.region, arrival.lo, arrival.hi) != (region, *part):
            counted = Range(arrival.lo, arrival.hi)
            self.fail(
                f"a message of {named(region, part)} is taken as one of "
                f"{named(arrival.region, counted)}"
            )

    def has(self, me: int, n_messages: int) -> bool:
        """Whether `n_messages` are here; more are an error."""
        port = self.port(me)
        if port.n_arrived() > n_messages:
            self.fail(f"n_arrived is {port.n_arrived()}, and {n_messages} were posted")
        return port.has_arrived() and port.n_arrived() == n_messages

    def written(self, me: int, region: int) -> Array:
        """Return numbers that no other member and region has."""
        (bucket, *_) = self.layout.buckets
        n_items = self.layout.n_bytes // itemsize_of(bucket.dtype)
        numbers = np.arange(n_items) + 0.5 * me + 0.25 * region
        scale = 1 if bucket.dtype == "float32" else 4  # so that bytes differ as well
        return (scale * numbers).astype(bucket.dtype)

    def fill(self, me: int, region: int) -> None:
        """Write these numbers into a member's own memory."""
        whole = self.layout.buckets[0].range
        self.members[me].memory.typed(region, whole)[:] = self.written(me, region)

    def compare(self, me: int, region: int, part: Range, *, separate: bool) -> None:
        """Compare what a window shows with what was sent."""
        array = self.port(me).window(region, part, separate=separate)
        size = array.itemsize
        sent = self.written(1 - me, region)[part.lo // size : part.hi // size]
        if not np.array_equal(array, sent):
            self.fail(
                f"the window on bytes {part.lo} to {part.hi} of region {region} shows "
                f"{_shown(array)}, where {_shown(sent)} was sent"
            )

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Pump until something is so."""
        give_up = time.monotonic() + self.deadline_s
        while not is_so():
            for member in self.members:
                for port in member.endpoint.ports.values():
                    port.pump()
            if time.monotonic() > give_up:
                self.fail(f"{self.deadline_s:g} s were not enough for {what}")

    def fail(self, text: str) -> NoReturn:
        """Raise the error, with the kind of port."""
        ports = [
            port for member in self.members for port in member.endpoint.ports.values()
        ]
        kinds = {type(port).__name__ for port in ports}
        raise AssertionError(f"{' and '.join(sorted(kinds))}: {text}.")


def _shown(numbers: Any) -> str:
    few = [f"{number:g}" for number in numbers[:4]]
    return ", ".join([*few, *["\u2026"] * (len(numbers) > 4)])
