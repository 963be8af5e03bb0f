"""The contract of ports: ours keep it, and what breaks it is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import pytest

from kit.exchange.layout import Layout, Range
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array, Memory
from kit.exchange.ports.port import NO_HALT, Arrival, Expected, Stamp
from kit.exchange.stepping.held_links import HeldMessage, HeldMessages, HeldPort
from kit.testing import check_port
from kit.testing.contracts.port import MakePorts
from kit.testing.group import LocalMember, local_group
from kit.testing.streams import memory_pair, sliced
from kit.trace.traffic import Meter
from kit.wire import Credentials
from kit.wire.stream import AES_GCM, ENCRYPTED, Stream
from tests.cases import for_each
from tests.exchange.pumped import clear_pair, pumped_group, sealed_pair, side_by_side
from tests.wire.conftest import open_streams


def sliced_pair() -> tuple[Stream, Stream]:
    near, far = memory_pair()
    return sliced(near, 4093), sliced(far, 4093)


@cache
def credentials() -> Credentials:
    """Return those of one cluster; its certificate takes long to make."""
    return Credentials.new()


def encrypted_pair(kind: str) -> tuple[Stream, Stream]:
    """Return streams between two hosts, as a client and a server hold them."""
    return open_streams(kind, Path(), credentials())


class Delivered(HeldPort):
    """A held port whose messages are let go whenever somebody pumps."""

    def pump(self) -> bool:
        messages = list(self._hold.messages)
        for message in messages:
            self._hold.let_go(message)
        return bool(messages)


@contextmanager
def held(
    kind: type[Delivered], layout: Layout, n_members: int
) -> Iterator[list[LocalMember]]:
    """Give members that are linked by held ports of a kind."""
    hold, names = HeldMessages(), [f"member:{number}" for number in range(n_members)]
    members = [
        LocalMember(
            number,
            Memory(layout),
            Endpoint(names, number, Stamp(), deadline_s=1.0),
            Meter(number),
        )
        for number in range(n_members)
    ]
    for member in members:
        ends = member.number, 1 - member.number
        member.endpoint.add(kind(hold, *ends, member.memory, member.endpoint.stamp))
    try:
        yield members
    finally:
        for member in members:
            member.endpoint.close()


KINDS: dict[str, MakePorts] = {
    "shared memory": local_group,
    "frames in memory": partial(local_group, in_place=False),
    "frames on a socket": partial(local_group, in_place=False, pair=clear_pair),
    "held for a stepper": partial(held, Delivered),
    "frames in pieces": partial(local_group, in_place=False, pair=sliced_pair),
    **{
        f"frames under {kind}": partial(
            local_group, in_place=False, pair=partial(encrypted_pair, kind)
        )
        for kind in ENCRYPTED
    },
    "threads on a socket": pumped_group,
    "threads on three sockets": partial(
        pumped_group, pair=partial(side_by_side, 3, clear_pair)
    ),
    "threads on two of aes-gcm": partial(
        pumped_group, pair=partial(side_by_side, 2, sealed_pair)
    ),
    "threads under aes-gcm": partial(
        pumped_group, pair=partial(encrypted_pair, AES_GCM)
    ),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_our_ports_keep_the_contract(make: MakePorts) -> None:
    check_port(make)


class Hasty(Delivered):
    def has_arrived(self) -> bool:
        return True


class Muddled(Delivered):
    def take(self) -> Arrival:
        return self._arrived[0]


class Blind(Delivered):
    def arrive(self, message: HeldMessage) -> None:
        self._arrived.append(message.arrival)


class Careless(Delivered):
    """Keeps a gradient where the receiver's own is, and shows it there."""

    def arrive(self, message: HeldMessage) -> None:
        super().arrive(message)
        self._memory.raw(message.region, message.range)[:] = message.payload


class Unstamped(Delivered):
    def take(self) -> Arrival:
        return super().take()._replace(halt=NO_HALT)


class Fixed(Delivered):
    """Shows one place, whatever the step has."""

    def window(self, region: int, part: Range, *, separate: bool) -> Array:
        return super().window(0, part, separate=True)


class Doubling(Delivered):
    def arrive(self, message: HeldMessage) -> None:
        super().arrive(message)
        self._arrived.append(message.arrival)


class Planned(Delivered):
    """Says of what it takes what the plan says."""

    def expect(self, scripts: Sequence[Sequence[Expected]], first: int) -> None:
        self._due = [*scripts[first], *scripts[1 - first]] * 2

    def take(self) -> Arrival:
        due = self._due.pop(0)
        lo, hi = due.range
        return super().take()._replace(region=due.region, lo=lo, hi=hi)


class Forgetful(Delivered):
    """Drops what has come before it was announced."""

    def expect(self, scripts: Sequence[Sequence[Expected]], first: int) -> None:
        self._arrived.clear()


class Rounding(Delivered):
    """Counts no message as less than a whole cache line."""

    def take(self) -> Arrival:
        arrival = super().take()
        return arrival._replace(hi=max(arrival.hi, arrival.lo + 64))


class Stuck(Delivered):
    def pump(self) -> bool:
        return False


class Busy(Delivered):
    def is_idle(self) -> bool:
        return False


class Deaf(Delivered):
    def close(self) -> None:
        """Tell nobody."""


@pytest.mark.slow
@for_each(
    ("kind", "said"),
    [
        (Hasty, "a message has arrived before one was posted"),
        (Muddled, "n_arrived is 2 where 1 are not taken yet"),
        (Blind, r"the window on bytes 0 to 16 of region 0 shows 0, 0, 0, 0, where 0.5"),
        (Careless, "the receiver's own gradient is overwritten"),
        (Unstamped, r"step 7 with halt 8 says \(step, halt\) \(7, 46116"),
        (Fixed, "of region 2 shows"),
        (Doubling, "n_arrived is 2, and 1 were posted"),
        (
            Planned,
            r"bytes 8 to 12 of region 0 \(4 bytes\) is taken as one of bytes 8 to 16",
        ),
        (Forgetful, "0.5 s were not enough for a message of a group's call"),
        (Rounding, r"bytes 0 to 16 of .* is taken as one of bytes 0 to 64"),
        (Stuck, "0.5 s were not enough for a message that was posted"),
        (Busy, "is_idle is False before anything was posted"),
        (Deaf, "0.5 s were not enough for an end to be lost"),
    ],
)
def test_what_a_port_breaks_is_named(kind: type[Delivered], said: str) -> None:
    with pytest.raises(AssertionError, match=f"{kind.__name__}: .*{said}"):
        check_port(
            partial(held, kind), deadline_s=0.5
        )  # one of 4 MiB as well, on a busy machine
