"""What a task of a puzzle reports while it runs, in the order of its program.

Pure, plain data. A message is identified by its link and its number there, from 0; an
array by a key within its task. Arrays that share memory share the key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Sent(NamedTuple):
    """A message was sent to task `to`."""

    to: int
    name: str
    n_bytes: int
    number: int


class Received(NamedTuple):
    """The message that the program asked for was received."""

    source: int
    name: str
    n_bytes: int
    number: int


class WaitBegan(NamedTuple):
    """The task needs this message to go on; any of the source if `name` is ""."""

    source: int
    name: str


class Worked(NamedTuple):
    """A piece of work was done; it takes `ms` on the puzzle's clock."""

    label: str
    ms: float


class MemoryKept(NamedTuple):
    """Memory is held from now on, or from now on under another name."""

    key: int
    name: str
    n_bytes: int


class MemoryFreed(NamedTuple):
    """Memory was freed."""

    key: int


class Printed(NamedTuple):
    """The program has printed something."""

    text: str


class Failed(NamedTuple):
    """The program raised an error, at `line` of the learner's function."""

    kind: str
    message: str
    line: int


class Ended(NamedTuple):
    """The program has ended; `waited_s` is how long it waited in `recv`."""

    waited_s: float


Event = (
    Sent
    | Received
    | WaitBegan
    | Worked
    | MemoryKept
    | MemoryFreed
    | Printed
    | Failed
    | Ended
)


@dataclass
class Attempt:
    """What a program did on all tasks.

    `stuck` has the tasks that would wait for ever, each with the chain of waits that
    leads to the reason; `busy` those that still worked when the time was up. The last
    event of a stuck task is its `WaitBegan`.
    """

    logs: list[list[Event]]
    results: list[dict[str, Any]]  # the arrays that were wanted
    stuck: dict[int, tuple[int, ...]] = field(default_factory=dict)
    busy: tuple[int, ...] = ()
    seconds: float = 0.0
