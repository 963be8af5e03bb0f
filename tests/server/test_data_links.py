"""How data links of several streams are put together, and refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from kit.errors import FailedPreconditionError
from kit.server.data_links import open_streams
from kit.task import Task
from kit.wire.frame import FrameKind, Header
from kit.wire.link import Link
from kit.wire.stream import parallel
from tests.cases import for_each


class Other:
    """A link, and the stream below it."""

    peer, local = Task("worker", 1), Task("worker", 0)

    def __init__(self, transport: str = "tcp") -> None:
        self.transport = self.kind = transport
        self.pings: list[tuple[int, int]] = []
        self.is_closed = False
        self.fileno = self.write = self.read_into = None

    @property
    def stream(self) -> Other:
        return self

    def send(self, *, tensor: int, chunk: int, **_: Any) -> None:
        self.pings.append((chunk, tensor + 1))

    def close(self) -> None:
        self.is_closed = True


def opened(
    n: int, came: Sequence[tuple[Other, int, int]] = (), transport: str = "tcp"
) -> Any:
    """Return the streams to a task that is dialled, or from one that dials us."""
    arrivals = iter(came)

    def dial(_: int) -> Link:
        return cast("Link", Other(transport))

    def arrived(_: int) -> tuple[Link, Header]:
        link, number, theirs = next(arrivals)
        ping = Header(FrameKind.PING, tensor=theirs - 1, chunk=number)
        return cast("Link", link), ping

    dialled, awaited = ((), (1,)) if came else ((1,), ())
    links = open_streams(dialled, awaited, dial, arrived, 1.0, "auto", n)
    return parallel(links[1])


@for_each(
    ("n", "transport", "numbers"),
    [(1, "tcp", [0]), (3, "tcp", [0, 1, 2]), (3, "unix", [0]), (2, "aes-gcm", [0, 1])],
)
def test_a_task_dials_as_many_as_it_wants_and_says_which_is_which(
    n: int, transport: str, numbers: list[int]
) -> None:
    streams = opened(n, transport=transport)

    assert [stream.pings for stream in streams] == [
        [(number, len(numbers))] for number in numbers
    ]


def test_what_arrives_is_put_in_the_order_of_its_numbers() -> None:
    late, early, again = Other(), Other(), Other()

    streams = opened(2, [(late, 1, 2), (again, 1, 2), (early, 0, 2)])

    assert streams == (early, again)
    assert [link.is_closed for link in (late, early, again)] == [True, False, False]


@for_each(("ours", "theirs"), [(1, 2), (2, 1), (3, 2)])
def test_another_number_of_streams_is_refused_with_both(ours: int, theirs: int) -> None:
    links = [Other() for _ in range(theirs)]

    text = f"worker:1 has the setting streams={theirs}, and worker:0 streams={ours}"
    with pytest.raises(FailedPreconditionError, match=text):
        opened(ours, [(link, n, theirs) for n, link in enumerate(links)])

    assert links[0].is_closed
