"""What a task of a puzzle reports while it runs, in the order of its program.

Pure, plain data. A message is known by its link and its number there, from 0. An array
is known by a key of its task; arrays that share memory have one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Sent(NamedTuple):
    """A message has left for task `to`."""

    to: int
    name: str
    n_bytes: int
    number: int


class Received(NamedTuple):
    """The message that was waited for is here."""

    source: int
    name: str
    n_bytes: int
    number: int


class WaitBegan(NamedTuple):
    """The task can go on only with this message; any of the source if `name` is ""."""

    source: int
    name: str


class Worked(NamedTuple):
    """A piece of work was done, which takes `ms` on the puzzle's clock."""

    label: str
    ms: float


class MemoryKept(NamedTuple):
    """Memory is held from now on, or is called by another name from now on."""

    key: int
    name: str
    n_bytes: int


class MemoryFreed(NamedTuple):
    """Memory was given back."""

    key: int


class Printed(NamedTuple):
    """The program has printed something."""

    text: str


class Failed(NamedTuple):
    """The program has ended by an error; `line` is that of the learner's function."""

    kind: str
    message: str
    line: int


class Ended(NamedTuple):
    """The program has ended; `waited_s` is how long it has waited in `recv`."""

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
    """What a program has done on all tasks.

    `stuck` are the tasks that would wait for ever, `busy` those that were still at
    work when the time was up. The last event of a stuck one is its `WaitBegan`.
    """

    logs: list[list[Event]]
    results: list[dict[str, Any]]  # the arrays that were wanted
    stuck: dict[int, tuple[int, ...]] = field(default_factory=dict)
    busy: tuple[int, ...] = ()
    seconds: float = 0.0
